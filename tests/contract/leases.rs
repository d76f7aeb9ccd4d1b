//! Leases: cancel, late settlements, renewal, fences, recovery.

use std::sync::Arc;
use std::time::Duration;

use crate::support::*;
use broker::{Error, Notice, Renewal, Settling};
use model::*;
use sqlite::{Options, Sqlite};

contract!(
    a_waiting_job_is_canceled_at_once [Clock, ShowWaiting, Order],
    a_running_job_is_canceled_when_it_settles,
    canceled_job_that_completes_before_its_kill_is_complete,
    ended_job_cannot_be_canceled,
    only_ended_jobs_can_be_retried [Retry],
    late_settlement_is_refused,
    a_lease_is_renewed [Clock],
    a_lease_that_ran_out_is_lost [Clock, Expires],
    canceling_job_is_renewed_until_it_is_settled [Clock],
    fences_of_a_job_increase,
    recover_releases_what_an_instance_held [Order],
    recover_keeps_the_given_jobs [Order],
);

async fn a_waiting_job_is_canceled_at_once(scene: Scene) {
    scene.put_all(vec![job("a"), NewJob { delay: LEASE, ..job("b") }]).await.unwrap();
    assert_eq!(scene.cancel("a".into()).await, Ok(JobState::Canceled));
    assert_eq!(scene.cancel("b".into()).await, Ok(JobState::Canceled));
    assert_eq!(scene.cancel("b".into()).await, Ok(JobState::Canceled));
    scene.clock.forward(LEASE);
    assert!(scene.take().await.is_none());
}

async fn a_running_job_is_canceled_when_it_settles(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    assert!(scene.is_woken_for("q").await);
    assert_eq!(scene.cancel("a".into()).await, Ok(JobState::Canceling));
    assert_eq!(
        scene.next_notice().await,
        Notice::Revoked { job: "a".into(), fence: a.lease.fence, why: Revocation::Canceled }
    );
    assert_eq!(scene.say(&a, retry_after(Duration::from_secs(1))).await, Settling::Settled(scene.stopped()));
    assert_eq!(scene.state(&"a".into()).await, scene.stopped());
}

async fn canceled_job_that_completes_before_its_kill_is_complete(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    scene.cancel("a".into()).await.unwrap();
    scene.say(&a, complete()).await;
    assert_eq!(scene.state(&"a".into()).await, JobState::Complete);
}

async fn ended_job_cannot_be_canceled(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    scene.say(&a, complete()).await;
    let wrong = Error::WrongState { id: "a".into(), state: JobState::Complete, verb: "canceled" };
    assert_eq!(scene.cancel("a".into()).await, Err(wrong));
    assert_eq!(scene.cancel("x".into()).await, Err(Error::NoJob("x".into())));
}

async fn only_ended_jobs_can_be_retried(scene: Scene) {
    scene.put(job("a")).await;
    let wrong = Error::WrongState { id: "a".into(), state: JobState::Waiting, verb: "retried" };
    assert_eq!(scene.retry("a".into()).await, Err(wrong));
    assert_eq!(scene.retry("x".into()).await, Err(Error::NoJob("x".into())));
}

async fn late_settlement_is_refused(scene: Scene) {
    scene.put(job("a")).await;
    let first = scene.take().await.unwrap();
    assert_eq!(scene.say(&first, release()).await, Settling::Settled(JobState::Waiting));
    assert_eq!(scene.say(&first, complete()).await, Settling::NotOurs);
    let second = scene.take().await.unwrap();
    assert_eq!(scene.say(&first, complete()).await, Settling::NotOurs);
    assert_eq!(scene.say(&second, complete()).await, Settling::Settled(JobState::Complete));
    assert_eq!(scene.say(&second, complete()).await, Settling::NotOurs);
}

async fn a_lease_is_renewed(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    scene.clock.forward(LEASE / 2);
    let renewed = scene.renew(vec![a.lease.clone()], LEASE).await.unwrap();
    let expires_at = a.lease.expires_at + LEASE / 2;
    assert_eq!(renewed, [Renewal::Renewed(Lease { expires_at, ..a.lease.clone() })]);
    scene.clock.forward(LEASE / 2);
    assert!(scene.take().await.is_none());
    assert_eq!(scene.say(&a, complete()).await, Settling::Settled(JobState::Complete));
}

async fn a_lease_that_ran_out_is_lost(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    assert!(scene.is_woken_for("q").await);
    scene.run_out().await;
    let again = scene.take().await.unwrap();
    let interrupted = u32::from(scene.run_out_counts() == Count::Interrupted);
    assert_eq!((again.job.attempt, again.job.interrupted), (1, interrupted));
    assert_eq!(
        scene.revoked().await,
        Notice::Revoked { job: "a".into(), fence: a.lease.fence, why: Revocation::LockLost }
    );
    assert_eq!(
        scene.renew(vec![a.lease.clone()], LEASE).await.unwrap(),
        [Renewal::Lost(Revocation::LockLost)]
    );
    assert_eq!(scene.say(&a, complete()).await, Settling::NotOurs);
    assert_eq!(scene.say(&again, complete()).await, Settling::Settled(JobState::Complete));
}

/// The processes of a canceled job may take longer to die than its lease lasts.
async fn canceling_job_is_renewed_until_it_is_settled(scene: Scene) {
    scene.put(job("a")).await;
    let a = scene.take().await.unwrap();
    scene.cancel("a".into()).await.unwrap();
    for _ in 0..3 {
        scene.clock.forward(LEASE * 2 / 3);
        let renewed = scene.renew(vec![a.lease.clone()], LEASE).await.unwrap();
        assert!(matches!(renewed[..], [Renewal::Canceling(_)]), "{renewed:?}");
        assert!(scene.take().await.is_none());
        assert_eq!(scene.state(&"a".into()).await, JobState::Canceling);
    }
    assert_eq!(scene.say(&a, Verdict::Canceled).await, Settling::Settled(JobState::Canceled));
    let renewed = scene.renew(vec![a.lease], LEASE).await.unwrap();
    assert!(matches!(renewed[..], [Renewal::Lost(_)]), "{renewed:?}");
}

async fn fences_of_a_job_increase(mut scene: Scene) {
    scene.put(job("a")).await;
    let mut last = Fence(0);
    for _ in 0..3 {
        let a = scene.take().await.unwrap();
        assert!(a.lease.fence > last);
        last = a.lease.fence;
        scene.say(&a, release()).await;
        scene.reopen();
    }
}

async fn recover_releases_what_an_instance_held(mut scene: Scene) {
    scene.put_all(vec![job("a"), job("b")]).await.unwrap();
    scene.take().await.unwrap();
    scene.take().await.unwrap();
    scene.cancel("b".into()).await.unwrap();
    scene.reopen();
    assert_eq!(scene.recover("other".into(), vec![]).await, Ok(0));
    assert_eq!(scene.recover("me".into(), vec![]).await, Ok(2));
    assert_eq!(scene.state(&"b".into()).await, scene.stopped());
    let again = scene.take().await.unwrap();
    assert_eq!((again.job.id.as_str(), again.job.attempt, again.job.interrupted), ("a", 1, 1));
}

async fn recover_keeps_the_given_jobs(scene: Scene) {
    scene.put_all(vec![job("a"), job("b")]).await.unwrap();
    let a = scene.take().await.unwrap();
    scene.take().await.unwrap();
    assert_eq!(scene.recover("me".into(), vec![("a".into(), a.lease.fence)]).await, Ok(1));
    assert_eq!(scene.state(&"a".into()).await, JobState::Running);
    assert_eq!(scene.say(&a, complete()).await, Settling::Settled(JobState::Complete));
}

/// A command does not know which processes a dead supervisor has left. Only the next supervisor, which kills them,
/// may release their jobs.
#[tokio::test]
async fn short_lived_client_does_not_expire_leases() {
    let mut scene = Scene::file();
    for id in ["a", "b"] {
        scene.put(job(id)).await;
        scene.take().await.unwrap();
    }
    scene.put(NewJob { delay: LEASE, ..job("late") }).await;
    let Place::File(directory) = &scene.place else { unreachable!() };
    let options = Options { serves: false, world: scene.clock.world(), ..Options::default() };
    let passer = Sqlite::open(directory.path().join("store.db"), options).unwrap();
    scene.store = Some(Arc::new(passer.into()));
    assert_eq!(scene.cancel("a".into()).await, Ok(JobState::Canceling));
    scene.clock.forward(10 * LEASE);
    let moved_on = scene.take().await.map(|fetched| fetched.job.id.clone());
    assert_eq!(moved_on, Some("late".into()), "time moves on for others");
    let states = [scene.state(&"a".into()).await, scene.state(&"b".into()).await];
    assert_eq!(states, [JobState::Canceling, JobState::Running]);
    scene.reopen();
    // The end of the lease, and the end of its grace.
    for _ in 0..3 {
        scene.put(NewJob { id: None, ..job("") }).await;
        scene.clock.forward(LEASE);
    }
    let states = [scene.state(&"a".into()).await, scene.state(&"b".into()).await];
    assert_eq!(states, [JobState::Canceled, JobState::Waiting]);
}
