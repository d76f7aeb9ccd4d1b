//! No job is lost: process deaths at bad moments, and jobs that RQ itself would lose.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::redis_server::RedisServer;
use crate::sandbox::{Sandbox, Setting, alive, kill, wait_until, wait_within};
use crate::scene::{NEWEST, Scene, begun, stop};

/// Number of times a supervisor is stopped while it works; set by `TASKVISOR_STOPS`.
fn stops() -> usize {
    std::env::var("TASKVISOR_STOPS").map_or(6, |count| count.parse().unwrap())
}

#[test]
fn stop_at_any_moment_loses_no_job_and_runs_none_twice() {
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
fn killed_supervisor_gets_its_jobs_back_in_two_seconds() {
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
fn next_supervisor_settles_ended_jobs_and_reruns_the_others() {
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
fn jobs_of_a_lost_host_run_here_within_its_lease() {
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
fn queued_job_in_no_list_is_requeued_when_its_worker_died() {
    let scene = Scene::new();
    // The state that a worker of RQ 3.0 with several queues leaves when it dies between its pop and the job's start.
    let job = scene.put("q().enqueue(tasks.add, 1, 2)");
    scene.rq("c.delete('rq:queue:default')");
    scene.rq(&format!("c.zadd('rq:wip:default', {{'{job}:' + 'e' * 32: time.time() - 1}})"));
    let _running = scene.start(&["-w", "1"]);
    scene.wait(&job, "finished");
    assert_eq!(scene.rq("c.zcard('rq:wip:default')"), 0);
}

#[test]
fn expired_execution_is_removed_and_the_running_one_continues() {
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
fn every_outcome_frees_the_rate_limit_slot() {
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
    // Within a second RQ orders the jobs that wait for a slot by their ids.
    for (job, status) in jobs.iter().zip(["finished", "failed", "failed", "finished"]) {
        scene.wait(job, status);
    }
    assert_eq!(scene.rq("c.zcard('rq:rl:k:allowed')"), 0);
}

#[test]
fn stop_command_for_an_earlier_execution_kills_nothing() {
    let scene = Scene::new();
    let mut running = scene.start(&["-w", "2"]);
    let (one, file) = scene.put_waiting("one", "");
    let worker = scene.text(&format!("job({one:?}).worker_name"));
    let other = format!("{{'command': 'stop-execution', 'job_id': {one:?}, 'execution_id': 'of another'}}");
    scene.rq(&format!("c.publish('rq:pubsub:{worker}', __import__('json').dumps({other}))"));
    scene.rq(&format!("c.publish('rq:pubsub:{worker}', 'no json')"));
    scene.rq(&format!("[c.publish('rq:pubsub:{worker}', 'no json') for _ in range(1000)]"));
    let done = scene.put("q().enqueue(tasks.add, 1, 2)");
    scene.wait(&done, "finished");
    scene.rq(&format!("send_stop_job_command(c, {done:?})"));
    let more = scene.put("q().enqueue(tasks.add, 1, 2)");
    scene.wait(&more, "finished");
    assert_eq!(scene.status(&one), "started");
    std::fs::remove_file(file).unwrap();
    scene.wait(&one, "finished");
    let lines = scene.sandbox.stderr().matches("cannot be read").count();
    assert!((1..=10).contains(&lines), "{lines} lines for a thousand commands of a stranger");
    assert!(stop(&mut running).success());
}

#[test]
fn deleted_running_job_ends_and_stays_deleted() {
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
fn queue_entries_that_are_no_jobs_do_not_block_the_queue() {
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
fn supervisor_continues_after_redis_lost_everything() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "1", "--lease", "6s"]);
    let (_, file) = scene.put_waiting("flushed", "");
    let pid = begun(&file).unwrap();
    scene.rq("c.flushall()");
    wait_until("the process of the lost job is dead", || !alive(pid));
    let job = scene.put("q().enqueue(tasks.add, 1, 2)");
    scene.wait(&job, "finished");
    wait_until("the worker is shown again", || scene.rq("len(Worker.all(c))") == 1);
}

#[test]
fn supervisor_reconnects_to_a_restarted_redis_and_keeps_its_jobs() {
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
fn job_in_the_intermediate_queue_of_a_dead_rq_worker_is_requeued() {
    let scene = Scene::new();
    let job = scene.put("q().enqueue(tasks.add, 1, 2)");
    scene.rq("c.lmove('rq:queue:default', 'rq:queue:default:intermediate')");
    scene.rq(&format!("c.set('rq:queue:default:intermediate:first_seen:{job}', time.time() - 61)"));
    let _running = scene.start(&["-w", "1"]);
    scene.wait(&job, "finished");
    assert_eq!(scene.rq("c.llen('rq:queue:default:intermediate')"), 0);
}
