//! Waits before retries, beside those that RQ's own code takes.

use serde_json::json;

use crate::scene::Scene;

/// RQ's list has fewer waits than the job has retries: its first one is taken again and again.
#[test]
fn wait_before_a_retry_is_that_of_rq_and_never_ends_early() {
    let scene = Scene::new();
    let job = scene.put("q().enqueue(tasks.fails, retry=Retry(max=3, interval=[1000.5, 5000]))");
    let wait = scene.rq(&format!("job({job:?}).get_retry_interval()")).as_f64().unwrap();
    let _running = scene.start(&["-w", "1"]);
    scene.wait(&job, "scheduled");
    let after = format!("c.zscore('rq:scheduled:default', {job:?}) - job({job:?}).ended_at.timestamp()");
    let after = scene.rq(&after).as_f64().unwrap();
    assert!((wait..wait + 1.1).contains(&after), "{after} after {wait}");
    assert_eq!(scene.rq(&format!("job({job:?}).retries_left")), 2);
}

#[test]
fn waits_of_a_put_job_grow_from_its_first_retry_on_in_rq_too() {
    let scene = Scene::new();
    let args = ["put", "--broker", &scene.url(), "--retries", "100", "default", "rq_tasks.fails", "[]"];
    let job = scene.sandbox.ok(&args).trim().to_owned();
    let waits = format!(
        "[setattr(one, 'retries_left', left) or one.get_retry_interval() for one in [job({job:?})] \
         for left in (100, 99, 98, 97, 50)]"
    );
    assert_eq!(scene.rq(&waits), json!([1, 2, 4, 8, 900]));
}
