//! A ledger's records of jobs whose end it never learns.

use ::ledger::{Adopted, Delivery, Ledger};
use broker::{Browse, Settling};
use sqlite::Options;

use super::*;

/// Records delivery `number` of job "a", whose message has the id of the job, and gives the ledger's answer.
async fn delivered(ledger: &Ledger, number: u32) -> Adopted {
    delivered_in("a", ledger, number).await
}

/// The same in this message.
async fn delivered_in(message: &str, ledger: &Ledger, number: u32) -> Adopted {
    let asked = request(&["q"], 1);
    let lease = Lease { job: "a".into(), fence: Fence(u64::from(number)), expires_at: Instant(0) };
    let handle = "handle".into();
    let (message, put_at) = (message.into(), None);
    let delivery = Delivery { job: job("a"), lease, message, attempt: number, put_at, handle };
    ledger.adopt(&asked, vec![(delivery, asked.workers[0])]).await.remove(0)
}

fn attempt(adopted: Adopted) -> u32 {
    let Adopted::Runs(fetched) = adopted else { panic!("it does not run: {adopted:?}") };
    fetched.job.attempt
}

#[tokio::test]
async fn deliveries_that_were_no_attempts_do_not_count_even_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let ledger = || Ledger::open(directory.path(), true).unwrap();
    ledger().gave_back(vec![("a".into(), 1)]).await;
    assert_eq!(attempt(delivered(&ledger(), 2).await), 1, "the first one went back");
    ledger().recover("me".into(), Vec::new()).await;
    let next = ledger();
    assert_eq!(attempt(delivered(&next, 3).await), 1, "its supervisor died");
    let lease = Lease { job: "a".into(), fence: Fence(3), expires_at: Instant(0) };
    let waits = [Settling::Settled(JobState::Waiting)];
    next.settle(vec![settlement(&lease, retry_after(Duration::ZERO))], &waits).await;
    next.gave_back(vec![("a".into(), 4)]).await;
    assert_eq!(attempt(delivered(&ledger(), 5).await), 2, "one was an attempt");
    assert_eq!(attempt(delivered(&ledger(), 7).await), 3, "another host has run it meanwhile");
}

#[tokio::test]
async fn delivery_that_went_back_is_counted_once_also_in_a_ledger_of_an_earlier_program() {
    let directory = tempfile::tempdir().unwrap();
    let ledger = || Ledger::open(directory.path(), true).unwrap();
    assert_eq!(attempt(delivered(&ledger(), 1).await), 1);
    let earlier = rusqlite::Connection::open(directory.path().join("ledger.db")).unwrap();
    earlier.execute_batch("ALTER TABLE delivery DROP COLUMN latest").unwrap();
    let next = ledger();
    for number in [2, 2, 3, 3] {
        next.gave_back(vec![("a".into(), number)]).await;
    }
    // What this instance had before is given up, unspent.
    assert_eq!(attempt(delivered(&next, 5).await), 2, "another host has run it meanwhile");
    next.gave_back(vec![("a".into(), 3)]).await;
    assert_eq!(attempt(delivered(&next, 7).await), 3, "and again");
}

#[tokio::test]
async fn delivery_that_is_written_once_more_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(directory.path(), true).unwrap();
    assert_eq!(attempt(delivered(&ledger, 1).await), 1);
    let lease = Lease { job: "a".into(), fence: Fence(1), expires_at: Instant(0) };
    let waits = [Settling::Settled(JobState::Waiting)];
    ledger.settle(vec![settlement(&lease, retry_after(Duration::ZERO))], &waits).await;
    assert_eq!(attempt(delivered(&ledger, 1).await), 1);
    assert_eq!(ledger.state(&"a".into()).await.unwrap(), Some(JobState::Waiting));
    assert_eq!(attempt(delivered(&ledger, 2).await), 2);
}

#[tokio::test]
async fn message_that_interruptions_hold_is_not_run_when_it_comes_again() {
    let directory = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(directory.path(), true).unwrap();
    for number in 1..=3 {
        assert_eq!(attempt(delivered(&ledger, number).await), 1);
        ledger.recover("me".into(), Vec::new()).await;
    }
    let Adopted::Held(failure) = delivered(&ledger, 4).await else { panic!("it runs") };
    assert_eq!(failure.group, "interrupted");
    assert_eq!(attempt(delivered(&ledger, 1).await), 1, "a person has put it again");
}

/// SQS counts the deliveries of a message that is moved back from the dead letters from one.
#[tokio::test]
async fn held_job_that_was_put_back_in_another_message_runs_however_often_that_went_back() {
    let directory = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(directory.path(), true).unwrap();
    for number in 1..=3 {
        delivered(&ledger, number).await;
        ledger.recover("me".into(), Vec::new()).await;
    }
    assert!(matches!(delivered(&ledger, 4).await, Adopted::Held(_)));
    ledger.discarded("a".into(), "a".into()).await;
    assert!(matches!(delivered(&ledger, 5).await, Adopted::Ended), "its deletion failed");
    for number in 1..=4 {
        ledger.gave_back(vec![("a".into(), number)]).await;
    }
    assert_eq!(attempt(delivered_in("b", &ledger, 5).await), 1);
}

/// An outage is no death: whoever says that the lease is lost, or takes the message again, lives.
#[tokio::test]
async fn only_deaths_are_interruptions() {
    let directory = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(directory.path(), true).unwrap();
    let taken = async |number| {
        let Adopted::Runs(fetched) = delivered(&ledger, number).await else { panic!("it does not run") };
        (fetched.job.attempt, fetched.job.interrupted)
    };
    let lost = async |number, counts| ledger.lost(vec![("a".into(), Fence(number), counts)]).await;
    assert_eq!(taken(1).await, (1, 0));
    assert_eq!(taken(2).await, (1, 0), "its message has come again");
    lost(2, Count::Stopped).await;
    assert_eq!(taken(3).await, (1, 0), "it may have been at another host");
    lost(3, Count::Interrupted).await;
    assert_eq!(taken(4).await, (1, 1), "its supervisor had died");
    ledger.recover("me".into(), Vec::new()).await;
    assert_eq!(taken(5).await, (1, 2), "and died again");
}

#[tokio::test]
async fn ledger_expires_jobs_that_wait_elsewhere_like_ended_jobs() {
    let (clock, directory) = (Clock::default(), tempfile::tempdir().unwrap());
    let options = Options { world: clock.world(), ..Options::default() };
    let ledger = Ledger::open_in(directory.path(), options).unwrap();
    let asked = request(&["q"], 1);
    let lease = Lease { job: "a".into(), fence: Fence(1), expires_at: Instant(0) };
    let delivery = Delivery::of(job("a"), lease.clone(), 1);
    ledger.adopt(&asked, vec![(delivery, asked.workers[0])]).await;
    let back = Verdict::Release { after: Duration::ZERO, counts: None };
    ledger.settle(vec![settlement(&lease, back)], &[Settling::Settled(JobState::Waiting)]).await;
    for (days, left) in [(6, 1), (2, 0)] {
        clock.forward(DAY * days);
        for _ in 0..9 {
            ledger.renew(Vec::new(), LEASE).await;
            clock.forward(Duration::from_secs(61));
        }
        let jobs = ledger.store().page(&Filter::default(), None).await.unwrap().jobs;
        assert_eq!(jobs.len(), left, "after {days} more days");
    }
}
