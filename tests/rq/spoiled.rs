//! Numbers beyond what Redis takes, and keys that another program uses: no job is lost, and each end is written once.

use serde_json::json;

use crate::sandbox::{kill, stays, wait_until};
use crate::scene::{Scene, begun};

#[test]
fn numbers_that_redis_cannot_take_end_no_job_badly() {
    let scene = Scene::new();
    let huge = "'9' * 20";
    let jobs = [
        ("tasks.add, 1, 2", "result_ttl", "str(2 ** 63 - 1)", "finished"),
        ("tasks.add, 1, 2", "result_ttl", huge, "finished"),
        ("tasks.add, 1, 2", "result_ttl", "'nan'", "failed"),
        ("tasks.fails", "failure_ttl", huge, "failed"),
        ("tasks.fails, retry=Retry(max=1)", "ttl", huge, "failed"),
        ("tasks.fails, retry=Retry(max=2, interval=60)", "retry_intervals", "'5'", "scheduled"),
        ("tasks.fails, retry=Retry(max=2, interval=0)", "retry_intervals", "'[\"60\"]'", "scheduled"),
        ("tasks.add, 1, 2, repeat=Repeat(times=2, interval=60)", "repeats_left", huge, "scheduled"),
    ];
    let jobs = jobs.map(|(put, field, value, ends)| {
        let job = scene.put(&format!("q().enqueue({put})"));
        scene.rq(&format!("c.hset('rq:job:{job}', {field:?}, {value})"));
        (job, field, ends)
    });
    let _running = scene.start(&["-w", "2"]);
    for (job, field, ends) in &jobs {
        println!("{field}");
        scene.wait(job, ends);
    }
    wait_until("nothing runs", || scene.rq("c.zcard('rq:wip:default')") == 0);
    let counts = "sum(w.successful_job_count for w in Worker.all(c))";
    assert_eq!(scene.rq(counts), 3);
}

#[test]
fn job_whose_way_back_is_spoiled_stays_where_it_is_until_it_can_go() {
    for (name, keys) in [("queues", "['rq:queues']"), ("executions", "c.keys('rq:worker:*:executions')")] {
        let scene = Scene::new();
        let _running = scene.start(&["-w", "1"]);
        let (job, file) = scene.put_waiting(name, ", retry=Retry(max=1)");
        let spoil = "c.rename(k, b'kept:' + bytes(k)) and c.set(k, 'spoiled')";
        scene.rq(&format!(
            "[({spoil}) for k in [k if isinstance(k, bytes) else k.encode() for k in {keys}]] and 1"
        ));
        kill(begun(&file).expect("its pid"), "KILL");
        wait_until("the trouble is named", || scene.sandbox.reasons().contains("WRONGTYPE"));
        stays(std::time::Duration::from_secs(1), "it is in no list without a run", || {
            scene.status(&job) == "started" && scene.rq("c.zcard('rq:wip:default')") == 1
        });
        scene.rq("[c.rename(k, k[5:]) for k in c.keys('kept:*')] and 1");
        wait_until("it runs again", || scene.lines(&format!("{name}.begun")) == 2);
        std::fs::remove_file(file).expect("a file");
        scene.wait(&job, "finished");
        assert_eq!(scene.rq("c.zcard('rq:wip:default')"), json!(0));
    }
}

#[test]
fn worker_that_cannot_be_registered_keeps_no_delayed_job_from_its_time() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "1"]);
    let names = "[k for k in c.keys('rq:worker:*') if b':executions' not in k]";
    wait_until("its worker is registered", || scene.rq(&format!("len({names})")) == 1);
    scene.rq(&format!("[c.rename(k, b'kept:' + k) and c.set(k, 'spoiled') for k in {names}] and 1"));
    // A listener that comes back registers all workers again.
    scene.rq("c.client_kill_filter(_type='pubsub')");
    wait_until("the trouble is named", || scene.sandbox.reasons().contains("WRONGTYPE"));
    let due = scene.put("q().enqueue_in(in_seconds(1), tasks.add, 1, 2)");
    wait_until("it is in its queue", || scene.status(&due) == "queued");
}
