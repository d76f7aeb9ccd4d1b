//! A replica becomes the primary: a Sentinel promotes it when the primary dies.

use crate::redis_server::RedisServer;
use crate::sandbox::{alive, kill, wait_until};
use crate::scene::{Scene, begun, stop};
use crate::sentinel::Sentinel;

/// A primary with a replica, and the Sentinel that watches them.
struct Watched {
    scene: Scene,
    replica: RedisServer,
    sentinel: Sentinel,
}

impl Watched {
    fn new() -> Watched {
        let scene = Scene::new();
        let replica = scene.server.start_replica();
        let sentinel = Sentinel::of(&RedisServer::program(), scene.server.port, "");
        wait_until("the sentinel knows the replica", || sentinel.knows_replicas());
        Watched { scene, replica, sentinel }
    }

    fn url(&self) -> String {
        format!("rq+redis+sentinel://127.0.0.1:{}/jobs/0", self.sentinel.port)
    }

    /// Puts jobs that note their numbers; returns their ids as Python.
    fn put_noting(&self, count: usize) -> String {
        let file = self.scene.file("ran");
        self.scene
            .rq(&format!("[q().enqueue(tasks.note, {file:?}, str(i)).id for i in range({count})]"))
            .to_string()
    }

    /// Kills the primary. From now on RQ's client asks the replica.
    fn fail_over(&self) {
        kill(i32::try_from(self.scene.server.pid()).unwrap(), "KILL");
        self.scene.ask_at(self.replica.port);
        wait_until("the replica is the primary", || {
            self.scene.text("c.info('replication')['role']") == "master"
        });
    }

    fn wait_for_all(&self, jobs: &str) {
        wait_until("all are done", || {
            self.scene.rq(&format!("set(statuses({jobs})) == {{'finished'}}")) == true
        });
    }

    /// The numbers of the jobs that ran, in order.
    fn ran(&self) -> Vec<usize> {
        let text = std::fs::read_to_string(self.scene.file("ran")).unwrap_or_default();
        let mut ran: Vec<usize> = text.lines().map(|line| line.parse().unwrap()).collect();
        ran.sort_unstable();
        ran
    }
}

#[test]
fn jobs_continue_on_the_primary_that_a_sentinel_promotes_each_once() {
    let watched = Watched::new();
    let scene = &watched.scene;
    let mut running = scene.start_in(&scene.sandbox, &watched.url(), &["-w", "1"]);
    let (job, file) = scene.put_waiting("through", "");
    let jobs = watched.put_noting(20);
    let due = scene.put(&format!("q().enqueue_in(in_seconds(1), tasks.note, {:?}, '20')", scene.file("ran")));
    wait_until("the replica has it all", || scene.server.is_replicated());
    watched.fail_over();
    assert!(alive(begun(&file).unwrap()), "a failover within the lease ends no job");
    std::fs::remove_file(file).unwrap();
    scene.wait(&job, "finished");
    watched.wait_for_all(&jobs);
    scene.wait(&due, "finished");
    let next = scene.put("q().enqueue(tasks.add, 1, 2)");
    scene.wait(&next, "finished");
    assert_eq!((watched.ran(), scene.lines("through.begun")), ((0..=20).collect(), 1));
    assert!(stop(&mut running).success());
    assert_eq!(scene.rq("left()"), serde_json::json!([]));
}

/// What the primary had answered and not yet passed on is lost with it: such a job may run again.
#[test]
fn failover_amid_a_flow_of_jobs_loses_none() {
    const COUNT: usize = 200;
    let watched = Watched::new();
    let scene = &watched.scene;
    let jobs = watched.put_noting(COUNT);
    wait_until("the replica has it all", || scene.server.is_replicated());
    let mut running = scene.start_in(&scene.sandbox, &watched.url(), &["-w", "2"]);
    wait_until("some are done", || scene.lines("ran") >= COUNT / 4);
    watched.fail_over();
    watched.wait_for_all(&jobs);
    let mut ran = watched.ran();
    ran.dedup();
    assert_eq!(ran, (0..COUNT).collect::<Vec<_>>());
    assert!(stop(&mut running).success());
    assert_eq!(scene.rq("left()"), serde_json::json!([]));
}
