//! A store whose time stands still until a test moves it.
#![allow(dead_code, missing_docs)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use broker::{Broker, Error, Fetch, Notice, Settling};
use model::*;
use qless::Qless;
use sqlite::{Options, Sqlite, World};

pub const LEASE: Duration = Duration::from_secs(60);
/// The grace of an expired lease.
pub const GRACE: Duration = Duration::from_secs(10);

#[path = "redis.rs"]
pub mod server;

pub use server::RedisServer;

#[derive(Clone, Default)]
pub struct Clock(Arc<AtomicU64>, Arc<Mutex<Vec<Follower>>>);

/// Moves another clock by the same time.
type Follower = Box<dyn Fn(Duration) + Send>;

impl Clock {
    pub fn world(&self) -> World {
        self.0.fetch_max(1_000_000_000_000, Ordering::SeqCst);
        let time = self.0.clone();
        World {
            now: Arc::new(move || Instant(time.load(Ordering::SeqCst))),
            // Early afternoon, so that some hours of a test are all on one day.
            wall_millis: Arc::new(|| 1_790_000_000_000),
            ..World::default()
        }
    }

    pub fn forward(&self, by: Duration) {
        self.0.fetch_add(by.as_nanos() as u64, Ordering::SeqCst);
        self.1.lock().unwrap().iter().for_each(|follow| follow(by));
    }

    /// Calls this whenever the time moves.
    pub fn follow(&self, follower: impl Fn(Duration) + Send + 'static) {
        self.1.lock().unwrap().push(Box::new(follower));
    }
}

pub enum Place {
    Memory,
    File(tempfile::TempDir),
    Redis(RedisServer),
    Elsewhere(Box<dyn Elsewhere>),
}

/// A broker that keeps its history in a ledger.
#[async_trait::async_trait]
pub trait Elsewhere: Send + Sync {
    /// Opens the broker, with this clock as far as it uses one.
    fn open(&self, clock: &Clock) -> Broker;

    /// A new and empty broker of the same kind.
    fn afresh(&self) -> Box<dyn Elsewhere>;

    /// What a job becomes that is canceled while it runs.
    fn stopped(&self) -> JobState {
        JobState::Canceled
    }

    /// As what a lease counts that ran out while its supervisor lives.
    fn run_out_counts(&self) -> Count {
        Count::Interrupted
    }

    /// Fetches again after a fetch that returned these jobs: more may be on their way.
    async fn more(&self, _broker: &Broker, _request: Fetch, at_once: Vec<Fetched>) -> Vec<Fetched> {
        at_once
    }
}

/// The store under test.
pub struct Scene {
    pub clock: Clock,
    pub place: Place,
    pub store: Option<Arc<Broker>>,
}

impl Scene {
    pub fn memory() -> Self {
        let clock = Clock::default();
        let store: Arc<Broker> = Arc::new(Sqlite::memory_in(clock.world()).unwrap().into());
        Scene { clock, place: Place::Memory, store: Some(store) }
    }

    pub fn redis() -> Self {
        let place = Place::Redis(RedisServer::start());
        let mut scene = Scene { clock: Clock::default(), place, store: None };
        scene.store = scene.second();
        scene
    }

    pub fn elsewhere(place: Box<dyn Elsewhere>) -> Self {
        let mut scene = Scene { clock: Clock::default(), place: Place::Elsewhere(place), store: None };
        scene.store = scene.second();
        scene
    }

    pub fn file() -> Self {
        let mut scene =
            Scene { clock: Clock::default(), place: Place::File(tempfile::tempdir().unwrap()), store: None };
        scene.store = scene.second();
        scene
    }

    /// A new and empty scene of the same kind.
    pub fn afresh(&self) -> Self {
        match &self.place {
            Place::Memory => Scene::memory(),
            Place::File(_) => Scene::file(),
            Place::Redis(_) => Scene::redis(),
            Place::Elsewhere(place) => Scene::elsewhere(place.afresh()),
        }
    }

    /// Opens the same store again; `None` for a store in memory.
    pub fn second(&self) -> Option<Arc<Broker>> {
        match &self.place {
            Place::Memory => None,
            Place::File(directory) => {
                let options = Options { world: self.clock.world(), ..Options::default() };
                Some(Arc::new(Sqlite::open(directory.path().join("store.db"), options).unwrap().into()))
            }
            Place::Redis(server) => {
                let world = self.clock.world();
                // The initial wall clock of the other brokers.
                let ahead = Some(1_790_000_000_000_000 - 1_000_000_000);
                let options = qless::Options { now: world.now, ahead, ..Default::default() };
                Some(Arc::new(Qless::open(&server.url(), "the test's", options).unwrap().into()))
            }
            Place::Elsewhere(place) => Some(Arc::new(place.open(&self.clock))),
        }
    }

    /// Closes and reopens the store, if it survives a close.
    pub fn reopen(&mut self) {
        if !matches!(self.place, Place::Memory) {
            self.store = None;
            self.store = self.second();
        }
    }

    pub async fn put(&self, job: NewJob) -> JobId {
        self.put_all(vec![job]).await.unwrap().remove(0)
    }

    pub async fn put_all(&self, jobs: Vec<NewJob>) -> Result<Vec<JobId>, Error> {
        Broker::put(self, jobs).await
    }

    /// Whether the next notice says that jobs may have come into a queue.
    pub async fn is_woken_for(&self, queue: &str) -> bool {
        let notice = self.next_notice().await;
        matches!(notice, Notice::Wake(queues) if queues.have_any_of(&[queue.into()]))
    }

    pub async fn take(&self) -> Option<Fetched> {
        self.take_from("q").await
    }

    /// Time passes until the leases are over, and their grace. The store looks in between, as its timer would have it.
    pub async fn run_out(&self) {
        self.clock.forward(LEASE);
        assert_eq!(self.take_from("none").await, None);
        self.clock.forward(GRACE);
    }

    pub async fn take_from(&self, queue: &str) -> Option<Fetched> {
        self.fetch(request(&[queue], 1)).await.unwrap().pop()
    }

    pub async fn fetch(&self, request: Fetch) -> Result<Vec<Fetched>, Error> {
        let at_once = Broker::fetch(self, request.clone()).await?;
        Ok(match &self.place {
            Place::Elsewhere(place) => place.more(self, request, at_once).await,
            Place::Memory | Place::File(_) | Place::Redis(_) => at_once,
        })
    }

    pub async fn say(&self, fetched: &Fetched, verdict: Verdict) -> Settling {
        self.settle(vec![settlement(&fetched.lease, verdict)]).await.unwrap().remove(0)
    }

    pub async fn cancel(&self, id: JobId) -> Result<JobState, Error> {
        Broker::cancel(self, id, "uid 7".into()).await
    }

    /// What a job becomes that is canceled while it runs.
    pub fn stopped(&self) -> JobState {
        match &self.place {
            Place::Memory | Place::File(_) | Place::Redis(_) => JobState::Canceled,
            Place::Elsewhere(place) => place.stopped(),
        }
    }

    /// As what a lease counts that ran out while its supervisor lives.
    pub fn run_out_counts(&self) -> Count {
        match &self.place {
            Place::Memory | Place::File(_) | Place::Redis(_) => Count::Interrupted,
            Place::Elsewhere(place) => place.run_out_counts(),
        }
    }

    pub async fn retry(&self, id: JobId) -> Result<(), Error> {
        Broker::retry(self, id, "uid 7".into()).await
    }

    /// The next notice about a lease; skips wake-ups.
    pub async fn revoked(&self) -> Notice {
        loop {
            match self.next_notice().await {
                Notice::Wake(_) => {}
                revoked => return revoked,
            }
        }
    }

    pub async fn record(&self, id: &JobId) -> JobRecord {
        self.get(id.clone()).await.unwrap().unwrap()
    }

    pub async fn state(&self, id: &JobId) -> JobState {
        self.record(id).await.state
    }
}

impl std::ops::Deref for Scene {
    type Target = Broker;

    fn deref(&self) -> &Self::Target {
        self.store.as_deref().unwrap()
    }
}

pub fn job(id: &str) -> NewJob {
    NewJob { id: Some(id.into()), ..NewJob::new("q".into(), "work".into(), Payload::Data("{}".into())) }
}

pub fn worker(index: u16) -> WorkerId {
    WorkerId { slot: SlotId { pool: 0, index }, generation: 1 }
}

pub fn request(queues: &[&str], workers: u16) -> Fetch {
    Fetch {
        instance: "me".into(),
        queues: queues.iter().map(|name| QueueName::from(*name)).collect(),
        take: Take::InOrder,
        filter: ClassFilter::default(),
        pool: "default".into(),
        workers: (1..=workers).map(worker).collect(),
        lease: LEASE,
    }
}

pub fn settlement(lease: &Lease, verdict: Verdict) -> Settlement {
    Settlement { job: lease.job.clone(), fence: lease.fence, verdict, crashed: false, forensics: None }
}

pub fn complete() -> Verdict {
    Verdict::Complete { result: None, next: None }
}

pub fn release() -> Verdict {
    Verdict::Release { after: Duration::ZERO, counts: None }
}

pub fn retry_after(after: Duration) -> Verdict {
    Verdict::Retry { after, failure: failure() }
}

pub fn failure() -> Failure {
    Failure { group: "exit 1".into(), message: "it said no".into(), trace: None }
}

pub fn ids(fetched: &[Fetched]) -> Vec<&str> {
    fetched.iter().map(|fetched| fetched.job.id.as_str()).collect()
}
