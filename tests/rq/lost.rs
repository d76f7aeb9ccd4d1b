//! Nothing is lost: ends of processes at bad moments, and what RQ itself would lose.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::redis_server::RedisServer;
use crate::sandbox::{Sandbox, Setting, alive, kill, wait_until, wait_within};
use crate::scene::{NEWEST, Scene, begun, stop};

/// How often a supervisor is stopped while it works; more of them by `TASKVISOR_STOPS`.
fn stops() -> usize {
    std::env::var("TASKVISOR_STOPS").map_or(6, |count| count.parse().unwrap())
}

#[test]
fn a_stop_at_any_moment_loses_sticks_and_doubles_nothing() {
    for queues in [vec!["default"], vec!["a", "default", "z"]] {
        let scene = Scene::new();
        let mut args = vec!["-w", "2"];
        queues.iter().for_each(|queue| args.extend(["-q", *queue]));
        let file = scene.file("ran");
        let count = 10 * stops();
        let put = format!(
            "[q({queues:?}[i % {}]).enqueue(tasks.note, {file:?}, str(i)).id for i in range({count})]",
            queues.len()
        );
        let jobs = scene.rq(&put);
        let finished = || {
            let all = scene.rq(&format!("statuses({jobs})"));
            all.as_array().unwrap().iter().filter(|status| *status == "finished").count()
        };
        for round in 1..=stops() {
            let mut running = scene.start(&args);
            wait_until("some are done", || scene.lines("ran") >= round * 8);
            assert!(stop(&mut running).success());
            assert_eq!(scene.rq("left()"), json!([]), "what is not done waits in its queue");
        }
        let _running = scene.start(&args);
        wait_until("all are done", || finished() == count);
        let mut ran: Vec<String> =
            std::fs::read_to_string(&file).unwrap().lines().map(str::to_owned).collect();
        ran.sort_by_key(|line| line.parse::<usize>().unwrap());
        let each: Vec<String> = (0..count).map(|at| at.to_string()).collect();
        assert_eq!(ran, each, "each once");
    }
}

#[test]
fn a_supervisor_that_was_killed_has_its_jobs_back_in_two_seconds() {
    let scene = Scene::new();
    let running = scene.start(&["-w", "1"]);
    let (job, file) = scene.put_waiting("killed", "");
    let first = begun(&file).unwrap();
    drop(running);
    scene.sandbox.processes().iter().for_each(|seen| kill(seen.pid, "KILL"));
    wait_until("the job's process is dead", || !alive(first));
    assert_eq!(scene.status(&job), "started");
    let began = Instant::now();
    let _running = scene.start(&["-w", "1"]);
    wait_until("it runs again", || scene.lines("killed.begun") == 2);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    std::fs::remove_file(file).unwrap();
    scene.wait(&job, "finished");
    assert_eq!(scene.rq("len(StartedJobRegistry('default', c))"), 0);
}

#[test]
fn a_supervisor_that_dies_alone_settles_what_had_ended_and_gives_back_the_rest() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "2"]);
    let (job, file) = scene.put_waiting("alone", "");
    let supervisor = scene.sandbox.one("tv-supervisor");
    kill(supervisor, "KILL");
    wait_until("it runs again", || scene.lines("alone.begun") == 2);
    std::fs::remove_file(file).unwrap();
    scene.wait(&job, "finished");
    let next = scene.put("q().enqueue(tasks.add, 1, 2)");
    scene.wait(&next, "finished");
    assert_eq!(scene.rq("c.zcard('rq:wip:default') + c.hlen('rq:taskvisor:held')"), 0);
}

#[test]
fn another_hosts_jobs_come_back_within_its_lease() {
    let scene = Scene::new();
    let lost = Sandbox::new(Setting::Root);
    let running = scene.start_in(&lost, &scene.url(), &["-w", "1", "--lease", "6s"]);
    let (job, file) = scene.put_waiting("elsewhere", "");
    drop(running);
    lost.processes().iter().for_each(|seen| kill(seen.pid, "KILL"));
    let _running = scene.start(&["-w", "1"]);
    wait_within(Duration::from_secs(20), "it runs here", || scene.lines("elsewhere.begun") == 2);
    std::fs::remove_file(file).unwrap();
    scene.wait(&job, "finished");
}

#[test]
fn a_queued_job_in_no_list_whose_worker_died_is_put_again() {
    let scene = Scene::new();
    // What a worker of RQ 3.0 with several queues leaves behind that dies between its pop and the start of the job.
    let job = scene.put("q().enqueue(tasks.add, 1, 2)");
    scene.rq("c.delete('rq:queue:default')");
    scene.rq(&format!("c.zadd('rq:wip:default', {{'{job}:' + 'e' * 32: time.time() - 1}})"));
    let _running = scene.start(&["-w", "1"]);
    scene.wait(&job, "finished");
    assert_eq!(scene.rq("c.zcard('rq:wip:default')"), 0);
}

#[test]
fn an_expired_execution_of_a_job_that_runs_elsewhere_ends_only_itself() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "2"]);
    let (job, file) = scene.put_waiting("twice", "");
    scene.rq(&format!("c.zadd('rq:wip:default', {{'{job}:' + 'e' * 32: time.time() - 1}})"));
    wait_until("that one is gone", || scene.rq("c.zcard('rq:wip:default')") == 1);
    assert_eq!(scene.status(&job), "started");
    std::fs::remove_file(file).unwrap();
    scene.wait(&job, "finished");
    assert_eq!(scene.lines("twice.begun"), 1);
}

#[test]
fn a_slot_of_a_limit_is_free_after_each_outcome() {
    let scene = Scene::new();
    let limited = |what: &str| scene.put(&format!("q().enqueue({what}, rate_limit=RateLimit('k', 1))"));
    let jobs = [
        limited("tasks.add, 1, 2"),
        limited("tasks.fails"),
        limited("tasks.dies"),
        limited("tasks.add, 3, 4"),
    ];
    assert_eq!(scene.status(&jobs[1]), "rate_limited");
    let _running = scene.start(&["-w", "2"]);
    // Within a second RQ orders those that wait for a slot by their ids.
    for (job, status) in jobs.iter().zip(["finished", "failed", "failed", "finished"]) {
        scene.wait(job, status);
    }
    assert_eq!(scene.rq("c.zcard('rq:rl:k:allowed')"), 0);
}

#[test]
fn a_stop_of_a_job_that_ran_before_kills_nothing_else() {
    let scene = Scene::new();
    let mut running = scene.start(&["-w", "2"]);
    let (one, file) = scene.put_waiting("one", "");
    let worker = scene.text(&format!("job({one:?}).worker_name"));
    let other = format!("{{'command': 'stop-execution', 'job_id': {one:?}, 'execution_id': 'of another'}}");
    scene.rq(&format!("c.publish('rq:pubsub:{worker}', __import__('json').dumps({other}))"));
    scene.rq(&format!("c.publish('rq:pubsub:{worker}', 'no json')"));
    let done = scene.put("q().enqueue(tasks.add, 1, 2)");
    scene.wait(&done, "finished");
    scene.rq(&format!("send_stop_job_command(c, {done:?})"));
    let more = scene.put("q().enqueue(tasks.add, 1, 2)");
    scene.wait(&more, "finished");
    assert_eq!(scene.status(&one), "started");
    std::fs::remove_file(file).unwrap();
    scene.wait(&one, "finished");
    assert!(stop(&mut running).success());
}

#[test]
fn a_job_that_is_deleted_while_it_runs_ends_and_stays_deleted() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "1", "--lease", "6s"]);
    let (job, file) = scene.put_waiting("deleted", "");
    let pid = begun(&file).unwrap();
    scene.rq(&format!("job({job:?}).delete()"));
    wait_until("its process is dead", || !alive(pid));
    let next = scene.put("q().enqueue(tasks.add, 1, 2)");
    scene.wait(&next, "finished");
    assert_eq!(scene.rq(&format!("c.keys('*{job}*')")), json!([]));
}

#[test]
fn what_is_no_job_does_not_hold_up_the_others() {
    let scene = Scene::new();
    scene.rq("c.rpush('rq:queue:default', 'vanished', 'odd')");
    scene.rq("c.set('rq:job:odd', 'text')");
    let job = scene.put("q().enqueue(tasks.add, 1, 2)");
    let _running = scene.start(&["-w", "1"]);
    scene.wait(&job, "finished");
    assert_eq!(scene.rq("c.llen('rq:queue:default')"), 0);
    assert_eq!(scene.rq("c.get('rq:job:odd')"), "text");
}

#[test]
fn a_redis_that_loses_everything_is_served_on() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "1", "--lease", "6s"]);
    let (_, file) = scene.put_waiting("flushed", "");
    let pid = begun(&file).unwrap();
    scene.rq("c.flushall()");
    wait_until("its process is dead: the job is nobody's", || !alive(pid));
    let job = scene.put("q().enqueue(tasks.add, 1, 2)");
    scene.wait(&job, "finished");
    wait_until("the worker is shown again", || scene.rq("len(Worker.all(c))") == 1);
}

#[test]
fn a_redis_that_starts_again_is_found_again_and_keeps_the_jobs() {
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().display().to_string();
    let args = ["--appendonly", "yes", "--appendfsync", "always", "--dir", &kept];
    let scene = Scene::on(NEWEST, &args);
    let mut running = scene.start(&["-w", "1"]);
    let (job, file) = scene.put_waiting("through", "");
    let waits = scene.put("q().enqueue(tasks.add, 1, 2)");
    kill(i32::try_from(scene.server.pid()).unwrap(), "KILL");
    let port = scene.server.port;
    let mut again = None;
    wait_until("the port is free", || {
        again = RedisServer::start_at(port, &args);
        again.is_some()
    });
    std::fs::remove_file(file).unwrap();
    scene.wait(&job, "finished");
    scene.wait(&waits, "finished");
    let next = scene.put("q().enqueue(tasks.add, 3, 4)");
    scene.wait(&next, "finished");
    assert_eq!(scene.lines("through.begun"), 1);
    assert!(stop(&mut running).success());
}

#[test]
fn what_a_worker_of_rq_took_and_never_began_goes_back() {
    let scene = Scene::new();
    let job = scene.put("q().enqueue(tasks.add, 1, 2)");
    scene.rq("c.lmove('rq:queue:default', 'rq:queue:default:intermediate')");
    scene.rq(&format!("c.set('rq:queue:default:intermediate:first_seen:{job}', time.time() - 61)"));
    let _running = scene.start(&["-w", "1"]);
    scene.wait(&job, "finished");
    assert_eq!(scene.rq("c.llen('rq:queue:default:intermediate')"), 0);
}
