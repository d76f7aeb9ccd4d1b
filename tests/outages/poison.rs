//! What is taken and is no job is to be ended. While that fails, the jobs of the same fetch run; it is tried again, and the
//! health says so.

use std::time::Duration;

use model::Fetched;

use crate::spoiled::Scene;

fn ids(jobs: &[Fetched]) -> Vec<&str> {
    jobs.iter().map(|job| job.lease.job.as_str()).collect()
}

/// Waits while the tasks of the broker go on.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let mut ticks = tokio::time::interval(Duration::from_millis(50));
    let wait = async {
        while !is_so() {
            ticks.tick().await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(60), wait).await.is_ok(), "{what}");
}

/// Takes `good` beside poison that cannot be ended; `mend` lets it end, and `is_ended` looks for that.
async fn keeps_no_other(scene: &Scene, mend: impl FnOnce(), is_ended: impl Fn() -> bool) {
    assert_eq!(ids(&scene.fetch(2).await), ["good"]);
    let complains = || {
        let told = scene.broker.complaints().told(clock::now());
        told.iter().any(|told| told.what.contains("cannot be"))
    };
    until("the health says so", complains).await;
    assert!(!is_ended());
    mend();
    until("it is tried again", is_ended).await;
    until("the health is well", || !complains()).await;
}

/// Its end needs a key that no fetch needs.
#[tokio::test]
async fn value_of_the_reliable_queue_that_cannot_be_ended_keeps_no_job() {
    let scene = Scene::over("reliable");
    scene.ask(&[
        r#"HSET values bad {"class":"m","data":1,"retries":-1}"#,
        "RPUSH pending bad",
        "ACL SETUSER default resetkeys ~values ~pending ~working ~results ~taskvisor:[^s]* %R~taskvisor:seen",
    ]);
    scene.put("good").await;
    let is_over = || {
        let asked = redis::cmd("ZSCORE").arg(&["working", "bad"]).query(&mut scene.server.connect());
        let left: Option<f64> = asked.unwrap();
        left.is_none()
    };
    keeps_no_other(&scene, || scene.ask(&["ACL SETUSER default allkeys"]), is_over).await;
}

#[tokio::test]
async fn job_of_rq_with_an_odd_id_that_cannot_be_ended_keeps_no_other() {
    let scene = Scene::over("rq");
    let do_it = |words: &[&[u8]]| {
        redis::cmd("EVAL")
            .arg("return redis.call(unpack(ARGV))")
            .arg(0)
            .arg(words)
            .exec(&mut scene.server.connect())
            .unwrap()
    };
    do_it(&[b"HSET", b"rq:job:\xff", b"status", b"queued", b"origin", b"default", b"data", b"x"]);
    do_it(&[b"RPUSH", b"rq:queue:default", b"\xff"]);
    do_it(&[b"SET", b"rq:results:\xff", b"x"]);
    scene.put("good").await;
    let has_failed = || {
        let found: Option<f64> = redis::cmd("ZSCORE")
            .arg("rq:failed:default")
            .arg(b"\xff")
            .query(&mut scene.server.connect())
            .unwrap();
        found.is_some()
    };
    keeps_no_other(&scene, || do_it(&[b"DEL", b"rq:results:\xff"]), has_failed).await;
}
