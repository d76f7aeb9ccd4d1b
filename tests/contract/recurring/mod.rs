//! Recurring jobs, with clocks that the test sets.

mod of_redis;
mod times;
mod verbs;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::contract::Kind;
use crate::support::*;
use broker::{Broker, Error, Notice};
use model::verb::{
    Forget, ListRecurring, PauseRecurring, RemoveRecurring, ResumeRecurring, RunRecurring, SetOption,
    ShowRecurring,
};
use model::*;
use qless::Qless;
use sqlite::{Options, Sqlite, World};

/// The initial wall clock: Wednesday, 14 January 2026, 10:17:30 UTC.
const START: i64 = 1_768_385_850_000;
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// A store with a clock, and a wall clock that follows it until the test sets it. In Redis all times are the server's.
struct Scene {
    clock: Clock,
    set_by: Arc<AtomicI64>,
    place: Place,
    store: Option<Arc<Broker>>,
}

impl Scene {
    fn new(place: Place) -> Self {
        let mut scene = Scene { clock: Clock::default(), set_by: Arc::default(), place, store: None };
        scene.store = Some(scene.another());
        scene
    }

    fn over(kind: Kind) -> Self {
        match kind {
            Kind::Memory => Scene::memory(),
            Kind::File => Scene::file(),
            Kind::Redis => Scene::redis(),
            Kind::Bare | Kind::Sqs | Kind::Reliable | Kind::Rq => {
                unreachable!("it puts no jobs by a schedule")
            }
        }
    }

    fn memory() -> Self {
        Scene::new(Place::Memory)
    }

    fn file() -> Self {
        Scene::new(Place::File(tempfile::tempdir().unwrap()))
    }

    fn redis() -> Self {
        Scene::new(Place::Redis(RedisServer::start()))
    }

    fn world(&self) -> World {
        let world = self.clock.world();
        let (now, set_by) = (world.now.clone(), self.set_by.clone());
        let wall = move || {
            START - 1_000_000 + i64::try_from(now().as_millis()).unwrap() + set_by.load(Ordering::SeqCst)
        };
        World { wall_millis: Arc::new(wall), ..world }
    }

    /// Opens the same store again; for a store in memory it is a new one.
    fn another(&self) -> Arc<Broker> {
        let world = self.world();
        match &self.place {
            Place::Memory => Arc::new(Sqlite::memory_in(world).unwrap().into()),
            Place::File(_) => {
                let options = Options { world, ..Options::default() };
                Arc::new(Sqlite::open(self.file_of_it(), options).unwrap().into())
            }
            Place::Redis(server) => {
                let ahead = START - 1_000_000 + self.set_by.load(Ordering::SeqCst);
                let options =
                    qless::Options { now: world.now, ahead: Some(ahead * 1000), ..Default::default() };
                Arc::new(Qless::open(&server.url(), "the test's", options).unwrap().into())
            }
            Place::Elsewhere(_) => unreachable!("see Scene::over"),
        }
    }

    /// The path of a store in a file.
    fn file_of_it(&self) -> PathBuf {
        let Place::File(directory) = &self.place else { panic!("there is no file") };
        directory.path().join("store.db")
    }

    /// Closes the store for this time.
    fn closed_for(&mut self, time: Duration) {
        let outlives = !matches!(self.place, Place::Memory);
        self.store = self.store.take().filter(|_| !outlives);
        self.clock.forward(time);
        self.store = self.store.take().or_else(|| Some(self.another()));
    }

    fn set_wall_clock(&mut self, by_hours: i64) {
        self.set_by.fetch_add(by_hours * 3_600_000, Ordering::SeqCst);
        if matches!(self.place, Place::Redis(_)) {
            self.closed_for(Duration::ZERO);
        }
    }

    async fn recur(&self, recurring: Recurring) -> RecurringRecord {
        self.tell(recurring, "uid 7").await.unwrap()
    }

    async fn known(&self, name: &str) -> RecurringRecord {
        self.tell(ShowRecurring { name: name.into() }, "").await.unwrap()
    }

    /// Takes all jobs that are available now.
    async fn taken(&self) -> Vec<Fetched> {
        self.fetch(request(&["q"], 50)).await.unwrap()
    }

    async fn taken_ids(&self) -> Vec<String> {
        ids(&self.taken().await).into_iter().map(String::from).collect()
    }

    /// Takes and completes all available jobs; returns their ids.
    async fn done(&self) -> Vec<String> {
        let taken = self.taken().await;
        let settlements = taken.iter().map(|one| settlement(&one.lease, complete())).collect();
        self.settle(settlements).await.unwrap();
        ids(&taken).into_iter().map(String::from).collect()
    }

    async fn record(&self, id: &str) -> JobRecord {
        self.get(id.into()).await.unwrap().unwrap()
    }
}

impl std::ops::Deref for Scene {
    type Target = Broker;

    fn deref(&self) -> &Self::Target {
        self.store.as_deref().unwrap()
    }
}

fn recurring(schedule: Schedule) -> Recurring {
    let job = NewJob { id: None, ..job("") };
    let (overlap, catch_up) = (Overlap::Skip, Duration::ZERO);
    Recurring { name: "n".into(), schedule, overlap, catch_up, backlog: 1, job }
}

fn every(interval: Duration) -> Recurring {
    recurring(Schedule::Every { interval, offset: interval })
}

fn cron(line: &str, zone: &str) -> Recurring {
    recurring(Schedule::Cron { line: line.parse().unwrap(), zone: zone.into() })
}

fn allow(recurring: Recurring) -> Recurring {
    Recurring { overlap: Overlap::Allow, ..recurring }
}
