//! A disk that fails and recovers.

use std::pin::Pin;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Waker};

use super::*;

/// A disk that a test breaks and repairs.
struct Disk {
    fails: Arc<AtomicBool>,
    failed: Sender<()>,
    failures: Mutex<Receiver<()>>,
}

impl Default for Disk {
    fn default() -> Self {
        let (failed, failures) = channel();
        Disk { fails: Arc::default(), failed, failures: Mutex::new(failures) }
    }
}

impl Disk {
    fn open(&self, path: &Path, world: World) -> Broker {
        let (fails, failed) = (self.fails.clone(), self.failed.clone());
        let sync = move |file: &fs::File| match fails.load(Ordering::SeqCst) {
            true => {
                failed.send(()).unwrap();
                Err(std::io::Error::from_raw_os_error(5))
            }
            false => file.sync_data(),
        };
        let world = World { sync: Arc::new(sync), ..world };
        Broker::from(Sqlite::open(path, Options { world, ..Options::default() }).unwrap())
    }

    fn fails(&self, fails: bool) {
        self.fails.store(fails, Ordering::SeqCst);
    }

    /// Returns when one more sync has failed: the first one is of a request, the others are attempts to recover.
    fn failure(&self) {
        self.failures.lock().unwrap().recv_timeout(Duration::from_secs(30)).unwrap();
    }
}

#[tokio::test]
async fn failing_disk_acknowledges_nothing_until_it_writes_again() {
    let (_directory, path) = place();
    let disk = Disk::default();
    let store = disk.open(&path, World::default());
    store.put(vec![job("a")]).await.unwrap();
    disk.fails(true);
    let error = store.put(vec![job("b")]).await.unwrap_err().to_string();
    assert!(error.contains("store.db-wal") && error.contains("os error 5"), "{error}");
    assert!(store.fetch(request(&["q"], 1)).await.is_err());
    assert!(store.pause("q".into(), "me".into(), None).await.is_err());
    disk.fails(false);
    // The wake-ups of the puts are consumed; the next one comes from the recovered disk.
    while store.put(vec![job("c")]).await.is_err() {
        assert!(matches!(store.next_notice().await, Notice::Wake(_)));
    }
    drop(store);
    let store = open(&path).unwrap();
    let all = store.list(Filter { limit: 9, ..Filter::default() }).await.unwrap();
    assert_eq!(all.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), ["c", "b", "a"]);
}

/// Polls the future once.
fn poll<F: Future>(waiting: &mut Pin<Box<F>>) -> Poll<F::Output> {
    waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Each turn of the store's thread reads the clock, so the test counts its reads.
#[tokio::test]
async fn due_work_does_not_wake_the_store_while_its_disk_fails() {
    let (_directory, path) = place();
    let (disk, clock, looks) = (Disk::default(), Clock::default(), Arc::new(AtomicU64::new(0)));
    let (world, counted) = (clock.world(), looks.clone());
    let now = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        (world.now)()
    };
    let store = disk.open(&path, World { now: Arc::new(now), ..clock.world() });
    store.put(vec![job("a"), NewJob { delay: Duration::from_secs(90), ..job("b") }]).await.unwrap();
    store.fetch(request(&["q"], 1)).await.unwrap();
    disk.fails(true);
    store.put(vec![job("c")]).await.unwrap_err();
    disk.failure();
    // Due now: the look for old jobs, a lease, a delay and the statistics of the fetch.
    clock.forward(Duration::from_secs(300));
    store.get("a".into()).await.unwrap();
    let before = looks.load(Ordering::SeqCst);
    disk.failure();
    disk.failure();
    let turns = looks.load(Ordering::SeqCst) - before;
    assert!(turns < 50, "the clock was looked at {turns} times in 3 s");
    disk.fails(false);
    while store.get("b".into()).await.unwrap().unwrap().state != JobState::Waiting {
        store.next_notice().await;
    }
}

#[tokio::test]
async fn wait_for_a_job_returns_only_once_its_end_is_durable() {
    let (_directory, path) = place();
    let disk = Disk::default();
    let store = disk.open(&path, World::default());
    store.put(vec![job("a"), job("b")]).await.unwrap();
    let taken = store.fetch(request(&["q"], 2)).await.unwrap();
    let mut before = Box::pin(store.ended("a".into()));
    disk.fails(true);
    let settled = async || store.settle(vec![settlement(&taken[0].lease, complete())]).await;
    let (told, settled) = (poll(&mut before), settled().await);
    assert!(told.is_pending() && settled.is_err(), "{told:?} {settled:?}");
    disk.failure();
    // The job reads as complete, but that write is not durable yet.
    assert_eq!(store.get("a".into()).await.unwrap().unwrap().state, JobState::Complete);
    let (mut after, mut running) = (Box::pin(store.ended("a".into())), Box::pin(store.ended("b".into())));
    assert!(poll(&mut after).is_pending() && poll(&mut running).is_pending());
    disk.failure();
    let waiting = [poll(&mut before), poll(&mut after), poll(&mut running)];
    assert_eq!(waiting, [const { Poll::Pending }; 3]);
    assert_eq!(store.ended("c".into()).await, Err(Error::NoJob("c".into())));
    disk.fails(false);
    assert_eq!((before.await, after.await), (Ok(JobState::Complete), Ok(JobState::Complete)));
    store.settle(vec![settlement(&taken[1].lease, complete())]).await.unwrap();
    assert_eq!(running.await, Ok(JobState::Complete));
}

/// Lets the disk of the store refuse all renewals, as one does that has room for little more; or no more.
fn refuse_renewals(path: &Path, refuses: bool) {
    let sql = match refuses {
        true => {
            // A table with the last possible row is full, as SQLite says of a disk.
            "CREATE TABLE brim (id INTEGER PRIMARY KEY AUTOINCREMENT); INSERT INTO brim VALUES (9223372036854775807);
             CREATE TRIGGER refused BEFORE UPDATE OF renewals ON job BEGIN INSERT INTO brim VALUES (NULL); END"
        }
        false => "DROP TRIGGER refused",
    };
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

#[tokio::test]
async fn lease_whose_renewal_a_full_disk_refused_is_not_lost_before_it_can_be_renewed() {
    let (_directory, path) = place();
    let (disk, clock) = (Disk::default(), Clock::default());
    let store = disk.open(&path, clock.world());
    store.tell(SetOption { name: "grace".into(), value: "500ms".into(), queue: None }, "me").await.unwrap();
    store.put(vec![job("a"), job("b")]).await.unwrap();
    let taken = store.fetch(request(&["q"], 1)).await.unwrap();
    let lease = taken[0].lease.clone();
    refuse_renewals(&path, true);
    clock.forward(LEASE - Duration::from_millis(1));
    // Each second it is asked for, and each time the store can write something else.
    for second in 0..20 {
        let error = store.renew(vec![lease.clone()], LEASE).await.unwrap_err().to_string();
        assert!(error.contains("its disk is full"), "{error}");
        store.put(vec![job(&second.to_string())]).await.unwrap();
        clock.forward(Duration::from_secs(1));
    }
    refuse_renewals(&path, false);
    let renewed = store.renew(vec![lease], LEASE).await.unwrap();
    assert!(matches!(renewed[..], [Renewal::Renewed(_)]), "{renewed:?}");
    let job = store.get("a".into()).await.unwrap().unwrap();
    assert_eq!((job.state, job.interrupted), (JobState::Running, 0));
}

#[tokio::test]
async fn lease_whose_grace_ends_while_the_host_stands_still_may_be_renewed_and_ends_if_it_is_not() {
    let just = GRACE + Duration::from_millis(300);
    for (comes, second) in [(true, 2 * GRACE), (false, 2 * GRACE), (true, just), (false, just)] {
        let (_directory, path) = place();
        let (disk, clock) = (Disk::default(), Clock::default());
        let store = disk.open(&path, clock.world());
        store.put(vec![job("a")]).await.unwrap();
        let taken = store.fetch(request(&["q"], 1)).await.unwrap();
        // Longer than the lease, and then to just behind the end of the time that the holder has to come.
        for still in [LEASE + GRACE, second] {
            clock.forward(still);
            store.put(vec![job(&still.as_secs().to_string())]).await.unwrap();
        }
        let states = async || {
            let job = store.get("a".into()).await.unwrap().unwrap();
            (job.state, job.interrupted)
        };
        assert_eq!(states().await, (JobState::Running, 0));
        if comes {
            let renewed = store.renew(vec![taken[0].lease.clone()], LEASE).await.unwrap();
            assert!(matches!(renewed[..], [Renewal::Renewed(_)]), "{renewed:?}");
        }
        // It stands still again, which says no more about a holder that may be dead.
        clock.forward(2 * GRACE);
        store.put(vec![job("last")]).await.unwrap();
        let expected = if comes { (JobState::Running, 0) } else { (JobState::Waiting, 1) };
        assert_eq!(states().await, expected);
    }
}
