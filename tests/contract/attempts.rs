//! Attempts: verdicts, progress, results, failures.

use std::time::Duration;

use crate::support::*;
use broker::{Error, Settling};
use model::verb::Before;
use model::*;

contract!(
    unknown_class_releases_are_counted_until_a_retry [Clock, Retry],
    latest_progress_is_kept [Order],
    progress_with_another_fence_is_ignored [Order, ShowWaiting],
    each_attempt_begins_without_progress [Retry],
    large_result_is_kept_unchanged,
    retry_spends_the_attempt_and_delays_the_job [Clock],
    released_job_keeps_its_place_and_its_attempt [Order],
    an_interrupted_release_is_counted,
    third_interruption_of_a_job_that_ran_alone_holds_it [Order, Holds],
    a_crash_is_counted,
    a_held_job_keeps_its_reason_until_it_is_retried [Retry, Holds],
    a_failed_job_keeps_its_failure,
    an_ended_job_names_its_worker_until_it_waits_again [Retry],
    a_result_is_kept,
    forensics_are_stored_with_the_end_time,
    position_counts_the_jobs_before_a_job [Prioritize, Position, Order, Queues],
    five_interruptions_hold_a_job [Order, Holds],
    wait_for_a_job_returns_its_final_state,
);

async fn retry_spends_the_attempt_and_delays_the_job(scene: Scene) {
    scene.put(job("a")).await;
    let first = scene.take().await.unwrap();
    assert_eq!(first.job.attempt, 1);
    assert_eq!(
        scene.say(&first, retry_after(Duration::from_secs(5))).await,
        Settling::Settled(JobState::Delayed)
    );
    assert_eq!(scene.record(&"a".into()).await.failure, Some(failure()));
    assert!(scene.take().await.is_none());
    scene.clock.forward(Duration::from_secs(5));
    assert_eq!(scene.take().await.unwrap().job.attempt, 2);
}

async fn released_job_keeps_its_place_and_its_attempt(scene: Scene) {
    scene.put_all(vec![job("a"), job("b")]).await.unwrap();
    let a = scene.take().await.unwrap();
    scene.say(&a, release()).await;
    let again = scene.take().await.unwrap();
    assert_eq!((again.job.id.as_str(), again.job.attempt), ("a", 1));
}

async fn an_interrupted_release_is_counted(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    scene.say(&a, Verdict::Release { after: Duration::ZERO, counts: Some(Count::Interrupted) }).await;
    let again = scene.take().await.unwrap();
    assert_eq!((again.job.attempt, again.job.interrupted), (1, 1));
    // An orderly stop is no interruption.
    scene.say(&again, Verdict::Release { after: Duration::ZERO, counts: Some(Count::Stopped) }).await;
    let again = scene.take().await.unwrap();
    assert_eq!((again.job.attempt, again.job.interrupted), (1, 1));
}

async fn third_interruption_of_a_job_that_ran_alone_holds_it(scene: Scene) {
    scene.put_all(vec![job("a"), job("b")]).await.unwrap();
    for _ in 0..2 {
        scene.take().await.unwrap();
        scene.take().await.unwrap();
        assert_eq!(scene.recover("me".into(), vec![]).await, Ok(2));
    }
    let a = scene.take().await.unwrap();
    assert!(a.job.is_suspect());
    assert_eq!(scene.recover("me".into(), vec![]).await, Ok(1));
    let held = scene.record(&"a".into()).await;
    assert_eq!((held.state, held.interrupted), (JobState::Held, 3));
    assert!(held.failure.unwrap().message.contains("no other job ran there"));
    let b = scene.record(&"b".into()).await;
    assert_eq!((b.state, b.interrupted), (JobState::Waiting, 2));
}

async fn unknown_class_releases_are_counted_until_a_retry(scene: Scene) {
    scene.put(job("a")).await;
    for unknown in 1..=2 {
        let a = scene.take().await.unwrap();
        assert_eq!((a.job.attempt, a.job.unknown), (1, unknown - 1));
        let counts = Some(Count::UnknownClass);
        scene.say(&a, Verdict::Release { after: Duration::from_secs(1), counts }).await;
        let record = scene.record(&"a".into()).await;
        assert_eq!((record.state, record.unknown, record.interrupted), (JobState::Delayed, unknown, 0));
        scene.clock.forward(Duration::from_secs(1));
    }
    let a = scene.take().await.unwrap();
    scene.say(&a, Verdict::Hold { failure: failure() }).await;
    assert_eq!(scene.record(&"a".into()).await.unknown, 2);
    scene.retry("a".into()).await.unwrap();
    assert_eq!(scene.take().await.unwrap().job.unknown, 0);
}

fn far(fraction: f64, message: &str) -> Progress {
    Progress { fraction: Some(fraction), message: Some(message.into()) }
}

async fn latest_progress_is_kept(mut scene: Scene) {
    scene.put_all(vec![job("a"), job("b")]).await.unwrap();
    let (a, b) = (scene.take().await.unwrap(), scene.take().await.unwrap());
    let note = |fetched: &Fetched, progress| (fetched.job.id.clone(), fetched.lease.fence, progress);
    let notes = vec![note(&a, far(0.25, "one")), note(&b, far(0.1, "b")), note(&a, far(0.5, "two"))];
    scene.progress(notes).await.unwrap();
    scene.reopen();
    assert_eq!(scene.record(&"a".into()).await.progress, Some(far(0.5, "two")));
    let kept = [&a, &b].map(|fetched| (fetched.job.id.clone(), fetched.lease.fence));
    assert_eq!(scene.recover("me".into(), kept.to_vec()).await, Ok(0));
    scene.progress(vec![note(&a, far(0.4, "back"))]).await.unwrap();
    scene.say(&a, complete()).await;
    assert_eq!(scene.record(&"a".into()).await.progress, Some(far(0.4, "back")));
    assert_eq!(scene.record(&"b".into()).await.progress, Some(far(0.1, "b")));
}

async fn progress_with_another_fence_is_ignored(scene: Scene) {
    scene.put_all(vec![job("a"), job("b")]).await.unwrap();
    let a = scene.take().await.unwrap();
    let (old, late) = (Fence(a.lease.fence.0 - 1), Fence(a.lease.fence.0 + 1));
    let none = ["a", "a", "b", "x"].into_iter().zip([old, late, Fence(0), Fence(1)]);
    scene.progress(none.map(|(id, fence)| (id.into(), fence, far(0.9, "no"))).collect()).await.unwrap();
    assert_eq!(scene.record(&"a".into()).await.progress, None);
    scene.say(&a, complete()).await;
    scene.progress(vec![("a".into(), a.lease.fence, far(0.9, "too late"))]).await.unwrap();
    assert_eq!(scene.record(&"a".into()).await.progress, None);
    assert_eq!(scene.record(&"b".into()).await.progress, None);
}

async fn each_attempt_begins_without_progress(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    scene.progress(vec![("a".into(), a.lease.fence, far(0.9, "nearly"))]).await.unwrap();
    scene.say(&a, retry_after(Duration::ZERO)).await;
    assert_eq!(scene.record(&"a".into()).await.progress, Some(far(0.9, "nearly")));
    let a = scene.take().await.unwrap();
    assert_eq!(scene.record(&"a".into()).await.progress, None);
    scene.progress(vec![("a".into(), a.lease.fence, far(0.1, "again"))]).await.unwrap();
    scene.say(&a, complete()).await;
    scene.retry("a".into()).await.unwrap();
    assert_eq!(scene.record(&"a".into()).await.progress, None);
}

async fn large_result_is_kept_unchanged(mut scene: Scene) {
    for (id, length) in [("small", 1025), ("large", 10 << 20)] {
        scene.put(job(id)).await;
        let fetched = scene.take().await.unwrap();
        let result = format!("\"{}\"", "ä".repeat(length / 2));
        scene.say(&fetched, Verdict::Complete { result: Some(result.clone()), next: None }).await;
        scene.reopen();
        assert!(scene.record(&id.into()).await.result == Some(result));
    }
}

async fn a_crash_is_counted(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    let crash = Settlement { crashed: true, ..settlement(&a.lease, retry_after(Duration::ZERO)) };
    scene.settle(vec![crash]).await.unwrap();
    let again = scene.take().await.unwrap();
    assert_eq!((again.job.attempt, again.job.crashes), (2, 1));
}

async fn a_held_job_keeps_its_reason_until_it_is_retried(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    scene.say(&a, Verdict::Hold { failure: failure() }).await;
    let held = scene.record(&"a".into()).await;
    assert_eq!((held.state, held.failure), (JobState::Held, Some(failure())));
    assert!(scene.take().await.is_none());
    scene.retry("a".into()).await.unwrap();
    let freed = scene.record(&"a".into()).await;
    assert_eq!((freed.state, freed.failure, freed.attempt), (JobState::Waiting, None, 0));
    assert_eq!(scene.take().await.unwrap().job.attempt, 1);
}

async fn a_failed_job_keeps_its_failure(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    scene.say(&a, Verdict::Fail { failure: failure() }).await;
    let failed = scene.record(&"a".into()).await;
    assert_eq!((failed.state, failed.failure), (JobState::Failed, Some(failure())));
    assert!(failed.ended_at.is_some());
}

async fn an_ended_job_names_its_worker_until_it_waits_again(scene: Scene) {
    let name = |record: JobRecord| (record.instance, record.worker);
    let known = (Some("me".into()), Some(WorkerName::new("default", worker(1))));
    for (id, verdict) in [("a", complete()), ("b", Verdict::Fail { failure: failure() })] {
        scene.put(job(id)).await;
        let taken = scene.take().await.unwrap();
        scene.say(&taken, verdict).await;
        assert_eq!(name(scene.record(&id.into()).await), known, "{id}");
    }
    scene.retry("b".into()).await.unwrap();
    assert_eq!(scene.record(&"b".into()).await.instance, None);
}

async fn a_result_is_kept(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    scene.say(&a, Verdict::Complete { result: Some("[1]".into()), next: None }).await;
    assert_eq!(scene.record(&"a".into()).await.result.as_deref(), Some("[1]"));
}

async fn forensics_are_stored_with_the_end_time(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    let left = Forensics { stderr_tail: "oh".into(), ..Forensics::default() };
    let settled = Settlement { forensics: Some(left.clone()), ..settlement(&a.lease, complete()) };
    scene.settle(vec![settled]).await.unwrap();
    let record = scene.record(&"a".into()).await;
    assert_eq!(record.forensics, Some(Forensics { at: record.ended_at, ..left }));
}

async fn position_counts_the_jobs_before_a_job(scene: Scene) {
    let urgent = NewJob { priority: 1, ..job("c") };
    let delayed = NewJob { priority: 9, delay: LEASE, ..job("d") };
    let elsewhere = NewJob { queue: "other".into(), ..job("e") };
    scene.put_all(vec![job("a"), job("b"), urgent, delayed, elsewhere]).await.unwrap();
    let before = async |id: &str| scene.tell(Before { job: id.into() }, "").await.map(|before| before.count);
    assert_eq!((before("a").await, before("b").await, before("c").await), (Ok(1), Ok(2), Ok(0)));
    assert_eq!(before("e").await, Ok(0));
    scene.take().await.unwrap();
    assert_eq!(before("b").await, Ok(1));
    scene.put_all((0..1200).map(|n| NewJob { priority: 2, ..job(&n.to_string()) }).collect()).await.unwrap();
    assert_eq!(before("b").await, Ok(1000));
    assert_eq!(before("x").await, Err(Error::NoJob("x".into())));
}

async fn five_interruptions_hold_a_job(scene: Scene) {
    scene.put_all(vec![job("a"), job("b")]).await.unwrap();
    for _ in 0..4 {
        scene.take().await.unwrap();
        scene.take().await.unwrap();
        assert_eq!(scene.recover("me".into(), vec![]).await, Ok(2));
    }
    scene.take().await.unwrap();
    scene.take().await.unwrap();
    scene.recover("me".into(), vec![]).await.unwrap();
    let held = scene.record(&"a".into()).await;
    assert_eq!((held.state, held.interrupted), (JobState::Held, 5));
    assert_eq!(held.failure.unwrap().group, "interrupted");
}

async fn wait_for_a_job_returns_its_final_state(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    let settle = async {
        tokio::task::yield_now().await;
        scene.say(&a, complete()).await
    };
    let (state, _) = tokio::join!(scene.ended("a".into()), settle);
    assert_eq!(state, Ok(JobState::Complete));
    assert_eq!(scene.ended("a".into()).await, Ok(JobState::Complete));
    assert_eq!(scene.ended("x".into()).await, Err(Error::NoJob("x".into())));
}
