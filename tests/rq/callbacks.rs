//! Callbacks and webhooks of jobs that ended without their worker.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::sandbox::{alive, wait_until};
use crate::scene::{Scene, begun, stop};

#[test]
fn on_stopped_callback_runs_in_its_own_process() {
    for version in ["2.12.0", "3.0.0"] {
        let scene = Scene::with(version);
        let mut running = scene.start(&["-w", "1"]);
        let (job, file) = scene.put_waiting("stopped", ", on_stopped=Callback(tasks.stopped)");
        let horse = begun(&file).unwrap();
        scene.rq(&format!("send_stop_job_command(c, {job:?})"));
        wait_until("it is called", || scene.rq("c.get('stopped')") != json!(null));
        let told = scene.text("c.get('stopped')");
        let (id, pid) = told.split_once(' ').unwrap();
        assert!(id == job && pid != horse.to_string(), "{told}");
        assert!(!alive(horse));
        scene.wait(&job, "stopped");
        wait_until("nothing is left of the order", || scene.rq("c.keys('*callback*')") == json!([]));
        assert_eq!(scene.rq("len(FailedJobRegistry('default', c))"), 1);
        assert!(stop(&mut running).success());
        assert_eq!(scene.rq("left()"), json!([]));
    }
}

/// Each job counts once, as RQ counts it, and what a callback raised is in the log, as with RQ.
#[test]
fn callbacks_that_run_by_themselves_count_as_no_jobs_and_their_failures_are_logged() {
    for flags in [&[][..], &["--native"]] {
        let scene = Scene::new();
        let _running = scene.start_workers(&scene.sandbox, &scene.url(), &["-w", "1"], flags);
        let dead = scene.put("q().enqueue(tasks.dies)");
        scene.wait(&dead, "failed");
        let slow = scene.file("slow");
        std::fs::write(&slow, "").unwrap();
        scene.rq(&format!("c.set('slow', {slow:?})"));
        let callbacks = [
            ("raises", "tasks.fails", "TypeError"),
            ("missing", "'rq_tasks.no_such_function'", "Error"),
            ("late", "tasks.stops_slowly, timeout=1", "JobTimeoutException"),
        ];
        for (name, callback, group) in callbacks {
            let (job, _) = scene.put_waiting(name, &format!(", on_stopped=Callback({callback})"));
            scene.rq(&format!("send_stop_job_command(c, {job:?})"));
            scene.wait(&job, "stopped");
            let told = |line: &str| {
                line.contains("the callback of a job has failed")
                    && line.contains(group)
                    && line.contains(&job)
            };
            wait_until("it is logged", || scene.sandbox.stderr().lines().any(told));
        }
        wait_until("nothing is left of the orders", || scene.rq("c.keys('*callback*')") == json!([]));
        wait_until("four jobs are counted", || scene.sandbox.status()["settled"] == json!({"failed": 4}));
        let counts = "sum(int(c.hget(k, 'failed_job_count') or 0) for k in c.keys('rq:worker:*') \
                      if c.type(k) == b'hash')";
        assert_eq!(scene.rq(counts), 4, "as RQ counts them");
        assert!(!scene.sandbox.stderr().contains("@taskvisor-callback"), "{}", scene.sandbox.stderr());
    }
}

#[test]
fn failure_callback_of_an_abandoned_job_is_called_and_a_broken_one_is_harmless() {
    let scene = Scene::new();
    let put = |callback: &str| {
        let job = scene.put(&format!("q('away').enqueue(tasks.add, 1, 2, on_failure=Callback({callback}))"));
        // The state that a worker of RQ leaves when it dies during the job.
        scene.rq(&format!("c.hset('rq:job:{job}', 'status', 'started')"));
        scene.rq("c.delete('rq:queue:away')");
        scene.rq(&format!("c.zadd('rq:wip:away', {{'{job}:' + 'e' * 32: time.time() - 1}})"));
        job
    };
    let jobs = [put("'rq_tasks.no_such_function'"), put("tasks.failed")];
    let _running = scene.start(&["-w", "1", "-q", "away"]);
    wait_until("the callback is called", || scene.rq("c.get('callback')") != json!(null));
    assert!(scene.text("c.get('callback')").starts_with(&jobs[1]));
    jobs.iter().for_each(|job| scene.wait(job, "failed"));
    wait_until("nothing is left of the orders", || scene.rq("c.keys('*-callback*')") == json!([]));
    let next = scene.put("q('away').enqueue(tasks.add, 1, 2)");
    scene.wait(&next, "finished");
}

#[test]
fn webhook_of_a_job_whose_worker_dies_is_sent_after_its_last_retry() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let scene = Scene::new();
    let mut running = scene.start(&["-w", "1"]);
    let hook = format!("webhooks=[Webhook('http://127.0.0.1:{port}/', 'failed', method='POST')]");
    let job = scene.put(&format!("q().enqueue(tasks.dies, retry=Retry(max=1), {hook})"));
    let (mut stream, _) = listener.accept().unwrap();
    let mut request = Vec::new();
    while !request.ends_with(b"}") {
        let mut part = [0; 4096];
        let count = stream.read(&mut part).unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&request));
        request.extend(&part[..count]);
    }
    stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
    let request = String::from_utf8(request).unwrap();
    let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!((&body["job_id"], &body["status"]), (&json!(job), &json!("failed")));
    assert!(
        body["exc_info"].as_str().unwrap().contains("signal 9") && body["ended_at"].is_string(),
        "{body}"
    );
    assert_eq!((scene.status(&job), scene.sandbox.job(&job)["attempt"].clone()), ("failed".into(), json!(2)));
    listener.set_nonblocking(true).unwrap();
    let next = scene.put("q().enqueue(tasks.add, 1, 2)");
    scene.wait(&next, "finished");
    wait_until("nothing is left of the order", || scene.rq("c.keys('*callback*')") == json!([]));
    assert!(listener.accept().is_err(), "one is sent");
    assert!(stop(&mut running).success());
}

#[test]
fn worker_class_handler_is_called_for_a_dead_work_horse() {
    let scene = Scene::new();
    let _running =
        scene.start_workers(&scene.sandbox, &scene.url(), &["-w", "1"], &["-w", "rq_tasks.Horses"]);
    let job = scene.put("q().enqueue(tasks.dies)");
    scene.wait(&job, "failed");
    wait_until("the handler was called", || scene.rq("c.get('killed')") != json!(null));
    assert_eq!(scene.text("c.get('killed')"), format!("{job} 9 True"));
}

#[test]
fn interrupted_callback_order_is_repeated() {
    let scene = Scene::new();
    let running = scene.start(&["-w", "1"]);
    let file = scene.file("slow");
    std::fs::write(&file, "").unwrap();
    let (job, _) = scene.put_waiting("stopped", ", on_stopped=Callback(tasks.stops_slowly)");
    scene.rq(&format!("c.set('slow', {file:?})"));
    scene.rq(&format!("send_stop_job_command(c, {job:?})"));
    wait_until("the callback runs", || begun(&file).is_some());
    drop(running);
    scene.sandbox.processes().iter().for_each(|seen| crate::sandbox::kill(seen.pid, "KILL"));
    scene.wait(&job, "stopped");
    let _running = scene.start(&["-w", "1"]);
    wait_until("it runs again", || scene.lines("slow.begun") == 2);
    std::fs::remove_file(file).unwrap();
    wait_until("nothing is left of the order", || scene.rq("c.keys('*callback*')") == json!([]));
}

#[test]
fn job_whose_id_looks_like_a_callback_keeps_its_keys() {
    let scene = Scene::new();
    let mut running = scene.start(&["-w", "1"]);
    let crashed = scene.put("q().enqueue(tasks.dies, job_id='import')");
    let own = scene.put("q().enqueue(tasks.add, 1, 2, job_id='import-callback', depends_on=Dependency('import', allow_failure=True))");
    scene.wait(&crashed, "failed");
    scene.wait(&own, "finished");
    assert_eq!((scene.result(&own), scene.rq("c.keys('*@taskvisor*')")), (json!(3), json!([])));
    assert!(stop(&mut running).success());
    assert_eq!(scene.rq("left()"), json!([]));
}
