//! Puts: batches, payloads, arguments, counts.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::*;
use broker::Error;
use model::*;

contract!(
    queue_counts_follow_the_jobs [ShowWaiting, Order, Statistics],
    batch_is_put_completely_or_not_at_all [UniqueId, ShowWaiting],
    large_payload_is_kept_unchanged [AnyBytes],
    program_arguments_may_hold_any_bytes [ShowWaiting, Programs],
    all_fields_of_a_put_are_kept [Prioritize],
    refused_put_does_not_affect_concurrent_puts [UniqueId, Order],
    repeated_put_is_recognized_by_its_token [UniqueId, ShowWaiting],
);

async fn queue_counts_follow_the_jobs(scene: Scene) {
    scene.put_all(vec![job("a"), job("b"), NewJob { delay: LEASE, ..job("c") }]).await.unwrap();
    let put_at = scene.record(&"b".into()).await.put_at;
    let a = scene.take().await.unwrap();
    scene.say(&a, complete()).await;
    let counts = scene.counts().await.unwrap();
    let jobs = [(JobState::Waiting, 1), (JobState::Delayed, 1), (JobState::Complete, 1)];
    let one = Sum { count: 1, seconds: 0.0 };
    let today = Today { wait: one, run: one, ..Today::default() };
    let want =
        QueueCounts { jobs: jobs.into(), oldest_waiting: Some(put_at), today, ..QueueCounts::default() };
    assert_eq!(counts, BTreeMap::from([("q".into(), want)]));
}

async fn batch_is_put_completely_or_not_at_all(scene: Scene) {
    scene.put(job("a")).await;
    let taken = Err(Error::Exists("a".into()));
    assert_eq!(scene.put_all(vec![job("b"), job("a")]).await, taken);
    assert_eq!(scene.put_all(vec![job("c"), job("c")]).await, Err(Error::Exists("c".into())));
    assert_eq!(scene.list(Filter { limit: 9, ..Filter::default() }).await.unwrap().len(), 1);
    let made = scene.put_all(vec![NewJob { id: None, ..job("") }]).await.unwrap();
    assert_eq!(made[0].as_str().replace('-', "").len(), 32);
}

async fn large_payload_is_kept_unchanged(mut scene: Scene) {
    let payload = Payload::Data(Bytes((0..10 << 20).map(|n| (n % 251) as u8).collect()));
    scene.put(NewJob { payload: payload.clone(), ..job("a") }).await;
    scene.reopen();
    assert!(scene.take().await.unwrap().job.payload == payload);
}

async fn program_arguments_may_hold_any_bytes(scene: Scene) {
    let exec = Exec {
        argv: vec!["cat".into(), Bytes(b"\xff\n".to_vec())],
        cwd: Bytes(b"/\xfe".to_vec()),
        umask: 0o22,
        stdin: Bytes(vec![0, 255]),
    };
    let payload = Payload::Exec(exec);
    scene.put(NewJob { payload: payload.clone(), ..job("a") }).await;
    assert_eq!(scene.record(&"a".into()).await.payload, Some(payload.clone()));
    assert_eq!(scene.take().await.unwrap().job.payload, payload);
}

async fn all_fields_of_a_put_are_kept(scene: Scene) {
    let put = NewJob {
        priority: -3,
        tags: vec!["x".into(), "y z".into()],
        retry: Some(Retry { retries: 2, delay: Duration::from_nanos(1), cap: Duration::from_secs(9) }),
        time_limit: Some(Duration::from_millis(1500)),
        ..job("a")
    };
    scene.put(put.clone()).await;
    let got = scene.take().await.unwrap().job;
    assert_eq!((&got.queue, &got.class, &got.payload), (&put.queue, &put.class, &put.payload));
    assert_eq!(
        (got.priority, &got.tags, got.retry, got.time_limit),
        (-3, &put.tags, put.retry, put.time_limit)
    );
}

async fn refused_put_does_not_affect_concurrent_puts(scene: Scene) {
    scene.put(job("a")).await;
    let (before, mistake, after) = tokio::join!(
        scene.put_all(vec![job("b")]),
        scene.put_all(vec![job("c"), job("a")]),
        scene.put_all(vec![job("d")]),
    );
    assert_eq!(mistake, Err(Error::Exists("a".into())));
    assert!(before.is_ok() && after.is_ok());
    assert_eq!(ids(&scene.fetch(request(&["q"], 9)).await.unwrap()), ["a", "b", "d"]);
}

async fn repeated_put_is_recognized_by_its_token(mut scene: Scene) {
    let put = |id: &str, token: Option<&str>| NewJob { token: token.map(str::to_owned), ..job(id) };
    let taken = Err(Error::Exists("a".into()));
    let batch = || vec![put("a", Some("t1")), put("b", Some("t1"))];
    scene.put_all(batch()).await.unwrap();
    scene.reopen();
    assert_eq!(scene.put_all(batch()).await, Ok(vec!["a".into(), "b".into()]));
    assert_eq!(scene.list(Filter { limit: 9, ..Filter::default() }).await.unwrap().len(), 2);
    for other in [put("a", Some("t2")), put("a", None)] {
        assert_eq!(scene.put_all(vec![other]).await, taken, "it is another put");
    }
    // Also after the job has run; but the same id twice in one batch is refused.
    let a = scene.take().await.unwrap();
    scene.say(&a, complete()).await;
    assert_eq!(scene.put_all(batch()).await, Ok(vec!["a".into(), "b".into()]));
    assert_eq!(scene.state(&"a".into()).await, JobState::Complete);
    assert_eq!(scene.put_all(vec![put("a", Some("t1")), put("a", Some("t1"))]).await, taken);
    scene.put(put("c", None)).await;
    assert_eq!(scene.put_all(vec![put("c", Some("t1"))]).await, Err(Error::Exists("c".into())));
}
