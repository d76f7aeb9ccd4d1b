//! Jobs that are dropped unless they begin by a time.

use std::time::Duration;

use crate::support::*;
use broker::{Error, Settling};
use model::*;

contract!(
    needs [Expire, Clock, Order, Show, Fences];
    job_that_was_not_begun_in_time_has_failed_and_never_begins,
    job_that_began_in_time_takes_its_time,
    attempt_that_is_given_back_has_not_begun,
    delayed_job_expires_by_the_time_of_its_put,
    retry_by_a_person_lifts_the_time [Retry],
    job_that_could_never_begin_is_refused,
);

const FIVE: Duration = Duration::from_secs(5);

fn expiring(id: &str) -> NewJob {
    NewJob { expires: Some(FIVE), ..job(id) }
}

async fn is_expired(scene: &Scene, id: &str) -> bool {
    let record = scene.record(&id.into()).await;
    let group = record.failure.map(|failure| failure.group);
    assert_eq!((record.begin_by, record.crashes, record.interrupted), (None, 0, 0));
    (record.state, group.as_deref()) == (JobState::Failed, Some("expired"))
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

async fn delayed_job_expires_by_the_time_of_its_put(scene: Scene) {
    scene.put(NewJob { delay: FIVE / 2, ..expiring("a") }).await;
    scene.clock.forward(FIVE);
    // The first fetch finds that it is due.
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
