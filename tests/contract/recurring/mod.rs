//! Recurring jobs, in a world whose clocks a test sets.

mod times;
mod verbs;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::support::*;
use taskvisor::broker::sqlite::{Options, World};
use taskvisor::broker::{Broker, Error, Notice, Sqlite, Verbs};
use taskvisor::model::verb::{ListRecurring, RemoveRecurring, RunRecurring, ShowRecurring};
use taskvisor::model::*;

/// Wednesday, 14 January 2026, 10:17:30 UTC: when a wall clock here begins.
const START: i64 = 1_768_385_850_000;
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// A store with a clock, and a wall clock that goes with it until it is set.
struct Scene {
    clock: Clock,
    set_by: Arc<AtomicI64>,
    directory: Option<tempfile::TempDir>,
    store: Option<Sqlite>,
}

impl Scene {
    fn memory() -> Self {
        let mut scene =
            Scene { clock: Clock::default(), set_by: Arc::default(), directory: None, store: None };
        scene.store = Some(Sqlite::memory_in(scene.world()).unwrap());
        scene
    }

    fn file() -> Self {
        let directory = Some(tempfile::tempdir().unwrap());
        let mut scene = Scene { clock: Clock::default(), set_by: Arc::default(), directory, store: None };
        scene.store = scene.another();
        scene
    }

    fn world(&self) -> World {
        let world = self.clock.world();
        let (now, set_by) = (world.now.clone(), self.set_by.clone());
        let wall = move || {
            START - 1_000_000 + i64::try_from(now().as_millis()).unwrap() + set_by.load(Ordering::SeqCst)
        };
        World { wall_millis: Arc::new(wall), ..world }
    }

    /// Another opening of the same file.
    fn another(&self) -> Option<Sqlite> {
        let path = self.directory.as_ref()?.path().join("store.db");
        Some(Sqlite::open(path, Options { world: self.world(), ..Options::default() }).unwrap())
    }

    /// Nobody serves the store for so long.
    fn closed_for(&mut self, time: Duration) {
        if self.directory.is_some() {
            self.store = None;
            self.clock.forward(time);
            self.store = self.another();
        } else {
            self.clock.forward(time);
        }
    }

    fn set_wall_clock(&self, by_hours: i64) {
        self.set_by.fetch_add(by_hours * 3_600_000, Ordering::SeqCst);
    }

    async fn recur(&self, recurring: Recurring) -> RecurringRecord {
        self.tell(recurring, "uid 7").await.unwrap()
    }

    async fn known(&self, name: &str) -> RecurringRecord {
        self.tell(ShowRecurring { name: name.into() }, "").await.unwrap()
    }

    /// The ids of what can be taken now.
    async fn taken(&self) -> Vec<Fetched> {
        self.fetch(request(&["q"], 50)).await.unwrap()
    }

    async fn taken_ids(&self) -> Vec<String> {
        ids(&self.taken().await).into_iter().map(String::from).collect()
    }

    /// Takes what is there and completes it; gives the ids.
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
    type Target = Sqlite;

    fn deref(&self) -> &Sqlite {
        self.store.as_ref().unwrap()
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
