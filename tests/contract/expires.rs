//! Jobs that are dropped unless they begin by a time.

use std::time::Duration;

use crate::support::*;
use broker::{Error, Settling};
use model::*;

contract!(
    needs [Expire, Clock, Order, Show, Fences];
    job_that_was_not_begun_in_time_has_failed_and_never_begins,
    job_that_began_in_time_takes_its_time,
    none_of_many_late_jobs_begins,
    attempt_that_is_given_back_has_not_begun,
    attempt_that_is_given_back_late_has_not_begun,
    job_that_began_in_time_and_was_given_back_runs_to_its_end,
    delayed_job_expires_by_the_time_of_its_put,
    job_that_is_due_in_the_millisecond_of_its_end_never_begins,
    retry_by_a_person_lifts_the_time [Retry],
    job_that_could_never_begin_is_refused,
    late_job_fails_where_no_worker_would_take_it [Pause, Queues, Depend],
    late_job_fails_while_each_worker_has_another,
);

const FIVE: Duration = Duration::from_secs(5);

fn expiring(id: &str) -> NewJob {
    NewJob { expires: Some(FIVE), ..job(id) }
}

async fn is_expired(scene: &Scene, id: &str) -> bool {
    let record = scene.record(&id.into()).await;
    assert_eq!((record.begin_by, record.attempt, record.crashes, record.interrupted), (None, 0, 0, 0));
    record.state == JobState::Failed && record.failure == Some(Failure::expired())
}

async fn job_that_was_not_begun_in_time_has_failed_and_never_begins(scene: Scene) {
    scene.put_all(vec![expiring("a"), job("b"), expiring("c"), job("d")]).await.unwrap();
    let record = scene.record(&"a".into()).await;
    assert_eq!(record.begin_by.map(|by| by.0 - record.put_at.0), Some(5_000));
    scene.clock.forward(FIVE);
    let mut taken = Vec::new();
    while taken.len() < 2 {
        taken.extend(scene.take().await.map(|taken| taken.job.id.to_string()));
    }
    assert_eq!(taken, ["b", "d"]);
    assert!(is_expired(&scene, "a").await && is_expired(&scene, "c").await);
    assert!(scene.take().await.is_none());
}

async fn job_that_began_in_time_takes_its_time(scene: Scene) {
    scene.put(expiring("a")).await;
    let first = scene.take().await.unwrap();
    assert_eq!(scene.record(&"a".into()).await.begin_by, None);
    scene.clock.forward(FIVE);
    assert_eq!(scene.say(&first, retry_after(FIVE)).await, Settling::Settled(JobState::Delayed));
    scene.clock.forward(FIVE);
    let second = scene.take().await.unwrap();
    assert_eq!((second.job.id.as_str(), second.job.attempt), ("a", 2));
}

async fn attempt_that_is_given_back_has_not_begun(scene: Scene) {
    scene.put(expiring("a")).await;
    let first = scene.take().await.unwrap();
    scene.say(&first, release()).await;
    scene.clock.forward(FIVE);
    assert!(scene.take().await.is_none());
    assert!(is_expired(&scene, "a").await);
}

async fn attempt_that_is_given_back_late_has_not_begun(scene: Scene) {
    scene.put_all(vec![expiring("a"), expiring("b")]).await.unwrap();
    let (a, b) = (scene.take().await.unwrap(), scene.take().await.unwrap());
    scene.clock.forward(FIVE);
    assert!(scene.take().await.is_none());
    scene.say(&a, release()).await;
    // No worker knows its class.
    let unknown = Verdict::Release { after: Duration::ZERO, counts: Some(Count::UnknownClass) };
    scene
        .settle(vec![Settlement { forensics: Some(Forensics::default()), ..settlement(&b.lease, unknown) }])
        .await
        .unwrap();
    assert!(scene.take().await.is_none());
    assert!(is_expired(&scene, "a").await && is_expired(&scene, "b").await);
}

async fn job_that_began_in_time_and_was_given_back_runs_to_its_end(scene: Scene) {
    scene.put_all(vec![expiring("a"), expiring("b"), expiring("c")]).await.unwrap();
    let taken = scene.fetch(request(&["q"], 3)).await.unwrap();
    // It asked for a pause; a stop ended it; its supervisor died.
    let snoozed =
        Settlement { forensics: Some(Forensics::default()), ..settlement(&taken[0].lease, release()) };
    let stopped = Verdict::Release { after: Duration::ZERO, counts: Some(Count::Stopped) };
    scene.settle(vec![snoozed, settlement(&taken[1].lease, stopped)]).await.unwrap();
    assert_eq!(scene.recover("me".into(), vec![]).await, Ok(1));
    assert_eq!(scene.record(&"a".into()).await.begin_by, None);
    scene.clock.forward(FIVE);
    let again = scene.fetch(request(&["q"], 3)).await.unwrap();
    assert_eq!(ids(&again), ["a", "b", "c"]);
    for one in &again {
        assert_eq!(one.job.attempt, 1);
        assert_eq!(scene.say(one, complete()).await, Settling::Settled(JobState::Complete));
    }
}

/// Waits until it has failed by its time, while workers ask for the jobs of another queue only.
async fn expires_unasked(scene: &Scene, id: &str) {
    for _ in 0..1000 {
        if scene.record(&id.into()).await.state.has_ended() {
            break;
        }
        assert!(scene.fetch(request(&["other"], 1)).await.unwrap().is_empty());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(is_expired(scene, id).await, "{:?}", scene.record(&id.into()).await);
}

async fn late_job_fails_where_no_worker_would_take_it(scene: Scene) {
    assert!(scene.fetch(request(&["other"], 1)).await.unwrap().is_empty());
    scene.pause("paused".into(), "me".into(), None).await.unwrap();
    let delayed = NewJob { delay: FIVE * 100, ..job("delayed") };
    let depends = NewJob { depends: vec!["delayed".into()], ..expiring("depends") };
    let paused = NewJob { queue: "paused".into(), ..expiring("paused") };
    let unserved = NewJob { queue: "unserved".into(), ..expiring("unserved") };
    scene.put_all(vec![delayed, depends, paused, unserved]).await.unwrap();
    scene.clock.forward(FIVE);
    for id in ["depends", "paused", "unserved"] {
        expires_unasked(&scene, id).await;
    }
    let counts = scene.counts().await.unwrap();
    assert_eq!(counts[&"q".into()].jobs.get(&JobState::Depends).copied().unwrap_or_default(), 0);
}

async fn late_job_fails_while_each_worker_has_another(scene: Scene) {
    scene.put(job("a")).await;
    let held = scene.take().await.unwrap();
    scene.put_all(vec![expiring("b"), expiring("c")]).await.unwrap();
    // One that a worker gives back unbegun is looked at as before.
    let given = scene.take().await.unwrap();
    scene.say(&given, release()).await;
    scene.clock.forward(FIVE);
    expires_unasked(&scene, "b").await;
    expires_unasked(&scene, "c").await;
    assert_eq!(scene.say(&held, complete()).await, Settling::Settled(JobState::Complete));
}

async fn none_of_many_late_jobs_begins(scene: Scene) {
    let late = (0..1200).map(|n| expiring(&n.to_string()));
    scene.put_all(late.chain([job("good")]).collect()).await.unwrap();
    scene.clock.forward(FIVE);
    let mut taken = Vec::new();
    for _ in 0..10 {
        taken.extend(scene.fetch(request(&["q"], 9)).await.unwrap());
    }
    assert_eq!(ids(&taken), ["good"]);
    let counts = scene.counts().await.unwrap();
    assert_eq!(counts[&"q".into()].jobs[&JobState::Failed], 1200);
}

async fn delayed_job_expires_by_the_time_of_its_put(scene: Scene) {
    scene.put(NewJob { delay: FIVE / 2, ..expiring("a") }).await;
    scene.clock.forward(FIVE);
    // The first fetch finds that it is due.
    for _ in 0..2 {
        assert!(scene.take().await.is_none());
    }
    assert!(is_expired(&scene, "a").await);
}

/// So the spool has a job expire whose time was over when it was taken.
async fn job_that_is_due_in_the_millisecond_of_its_end_never_begins(scene: Scene) {
    let (delay, expires) = (Duration::from_micros(800), Some(Duration::from_micros(900)));
    scene.put(NewJob { delay, expires, ..job("a") }).await;
    assert!(scene.take().await.is_none());
    scene.clock.forward(Duration::from_millis(1));
    for _ in 0..2 {
        assert!(scene.take().await.is_none());
    }
    assert!(is_expired(&scene, "a").await);
}

async fn retry_by_a_person_lifts_the_time(scene: Scene) {
    scene.put(expiring("a")).await;
    scene.clock.forward(FIVE);
    assert!(scene.take().await.is_none());
    scene.retry("a".into()).await.unwrap();
    assert_eq!(scene.take().await.unwrap().job.id.as_str(), "a");
}

async fn job_that_could_never_begin_is_refused(scene: Scene) {
    for (expires, delay) in [(Duration::ZERO, Duration::ZERO), (FIVE, FIVE), (Duration::MAX, Duration::ZERO)]
    {
        let put = scene.put_all(vec![NewJob { expires: Some(expires), delay, ..job("a") }]).await;
        assert!(matches!(put, Err(Error::Refused(_))), "{put:?}");
    }
}
