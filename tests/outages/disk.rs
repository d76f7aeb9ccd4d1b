//! What a ledger keeps while its disk refuses writes, and what a lease of the embedded store counts from.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use broker::{Fetch, Source};
use ledger::{Adopted, Delivery, Ledger};
use model::{
    ClassFilter, Fence, Instant, JobState, Lease, NewJob, Payload, Settlement, SlotId, Take, Verdict,
    WorkerId,
};
use rusqlite::Connection;
use sqlite::{Options, Sqlite};

const LEASE: Duration = Duration::from_secs(60);

fn job() -> NewJob {
    let job = NewJob::new("default".into(), "klass".into(), Payload::Data("{}".into()));
    NewJob { id: Some("a".into()), ..job }
}

fn worker() -> WorkerId {
    WorkerId { slot: SlotId { pool: 0, index: 1 }, generation: 1 }
}

fn request() -> Fetch {
    Fetch {
        instance: "me".into(),
        queues: vec!["default".into()],
        take: Take::InOrder,
        filter: ClassFilter::default(),
        pool: "default".into(),
        workers: vec![worker()],
        lease: LEASE,
    }
}

fn locked(path: &std::path::Path) -> Connection {
    let other = Connection::open(path).unwrap();
    other.busy_timeout(LEASE).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    other
}

async fn adopt(ledger: &Ledger) {
    adopt_as(ledger, "a", 1).await;
}

async fn adopt_as(ledger: &Ledger, id: &str, fence: u64) {
    let lease = Lease { job: id.into(), fence: Fence(fence), expires_at: clock::now() + LEASE };
    let job = NewJob { id: Some(id.into()), ..job() };
    let adopted = ledger.adopt(&request(), vec![(Delivery::of(job, lease, 1), worker())]).await;
    assert!(matches!(adopted[..], [Adopted::Runs(_)]), "{adopted:?}");
}

fn completes() -> Settlement {
    let verdict = Verdict::Complete { result: None, next: None };
    Settlement { job: "a".into(), fence: Fence(1), verdict, crashed: false, forensics: None }
}

/// A job is adopted, before or while the disk refuses all writes, and ends while it does: then the ledger says so.
async fn ends_while_the_disk_refuses(is_adopted_before: bool) {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { busy_timeout: Duration::from_millis(1), ..Options::default() };
    let ledger = Ledger::open_in(dir.path(), options).unwrap();
    if is_adopted_before {
        adopt(&ledger).await;
    }
    let other = locked(&dir.path().join("ledger.db"));
    if !is_adopted_before {
        adopt(&ledger).await;
    }
    ledger.end(completes(), None).await;
    other.execute_batch("ROLLBACK").unwrap();
    let is_complete = async { while ledger.state(&"a".into()).await.unwrap() != Some(JobState::Complete) {} };
    tokio::time::timeout(Duration::from_secs(40), is_complete).await.unwrap();
}

#[tokio::test]
async fn end_that_the_ledger_cannot_write_is_written_once_its_disk_works_again() {
    ends_while_the_disk_refuses(true).await;
}

#[tokio::test]
async fn job_that_came_and_ended_while_the_disk_refused_is_in_the_history() {
    ends_while_the_disk_refuses(false).await;
}

#[tokio::test]
async fn delivery_that_went_back_while_the_disk_refused_is_no_attempt() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { busy_timeout: Duration::from_millis(1), ..Options::default() };
    let ledger = Ledger::open_in(dir.path(), options).unwrap();
    let other = locked(&dir.path().join("ledger.db"));
    ledger.gave_back(vec![("a".into(), 1)]).await;
    other.execute_batch("ROLLBACK").unwrap();
    let lease = Lease { job: "a".into(), fence: Fence(1), expires_at: clock::now() + LEASE };
    let delivery = Delivery { handle: "handle".into(), ..Delivery::of(job(), lease, 2) };
    let adopted = ledger.adopt(&request(), vec![(delivery, worker())]).await;
    let [Adopted::Runs(fetched)] = &adopted[..] else { panic!("it does not run: {adopted:?}") };
    assert_eq!(fetched.job.attempt, 1);
}

#[tokio::test]
async fn write_that_fails_for_a_damaged_row_holds_up_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(dir.path(), true).unwrap();
    adopt(&ledger).await;
    let other = Connection::open(dir.path().join("ledger.db")).unwrap();
    other.execute("UPDATE job SET attempt = -1 WHERE jid = 'a'", []).unwrap();
    adopt_as(&ledger, "a", 2).await;
    adopt_as(&ledger, "b", 3).await;
    assert_eq!(ledger.state(&"b".into()).await.unwrap(), Some(JobState::Running));
}

#[tokio::test]
async fn what_the_ledger_owes_is_written_at_the_end_of_its_supervisor() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { busy_timeout: Duration::from_millis(1), ..Options::default() };
    let ledger = Ledger::open_in(dir.path(), options).unwrap();
    adopt(&ledger).await;
    let other = locked(&dir.path().join("ledger.db"));
    ledger.end(completes(), None).await;
    other.execute_batch("ROLLBACK").unwrap();
    ledger.close().await;
    drop(ledger);
    let next = Ledger::open(dir.path(), true).unwrap();
    assert_eq!(next.state(&"a".into()).await.unwrap(), Some(JobState::Complete));
}

/// Else a job that begins at the end of an outage would be ended at once, before its first renewal.
#[tokio::test]
async fn lease_counts_from_its_grant_and_not_from_the_request_that_waited_for_the_store() {
    let (dir, ahead) = (tempfile::tempdir().unwrap(), Arc::new(AtomicU64::new(0)));
    let mut options = Options { busy_timeout: LEASE, ..Options::default() };
    let (began, clock) = (clock::now(), ahead.clone());
    options.world.now = Arc::new(move || began + Duration::from_secs(clock.load(Ordering::SeqCst)));
    let path = dir.path().join("jobs.db");
    let store = Sqlite::open(path.clone(), options).unwrap();
    store.put(vec![job()]).await.unwrap();
    let other = locked(&path);
    let mut fetch = Box::pin(store.fetch(request()));
    assert!(tokio::time::timeout(Duration::ZERO, &mut fetch).await.is_err(), "it waits for the store");
    ahead.store(5, Ordering::SeqCst);
    other.execute_batch("ROLLBACK").unwrap();
    let lease = fetch.await.unwrap().remove(0).lease;
    let granted: Instant = began + Duration::from_secs(5);
    assert_eq!(lease.expires_at, granted + LEASE);
    let other = locked(&path);
    let mut renewal = Box::pin(store.renew(vec![lease], LEASE));
    assert!(tokio::time::timeout(Duration::ZERO, &mut renewal).await.is_err(), "it waits for the store");
    ahead.store(9, Ordering::SeqCst);
    other.execute_batch("ROLLBACK").unwrap();
    let broker::Renewal::Renewed(lease) = renewal.await.unwrap().remove(0) else { panic!("not renewed") };
    assert_eq!(lease.expires_at, began + Duration::from_secs(9) + LEASE);
}
