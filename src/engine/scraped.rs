//! What a scrape of the metrics asks for beside the loop: the recurring jobs, and the room on the disks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::statvfs;

use super::count_cache::HANGS;
use super::effects::Effects;
use broker::Broker;
use model::verb::{Ability, ListRecurring};
use model::{Disk, JobState, Millis, RecurringMeter, RecurringRecord};

/// Limit of the recurring jobs that are told apart.
const RECURRING: usize = 100;

/// What is asked for, and what is known of it.
pub(super) struct Scraped {
    /// The directories whose disks can be full, and what is kept there.
    dirs: Vec<(&'static str, PathBuf)>,
    /// When each recurring job was due whose latest job was seen to be complete.
    successes: Mutex<BTreeMap<String, Millis>>,
}

impl Scraped {
    pub(super) fn new(effects: &Effects) -> Scraped {
        let store = ("store", effects.failing.state_dir().to_owned());
        let outputs = ("outputs", effects.logs.outputs().dir().to_owned());
        Scraped { dirs: vec![store, outputs], successes: Mutex::default() }
    }

    /// The first hundred recurring jobs by name; none if the broker has none or does not answer soon.
    pub(super) async fn recurring(&self, broker: &Broker) -> BTreeMap<String, RecurringMeter> {
        if broker.card().require(Ability::Recur).is_err() {
            return BTreeMap::new();
        }
        let asked = tokio::time::timeout(HANGS, broker.tell(ListRecurring {}, ""));
        let Ok(Ok(mut found)) = asked.await else { return BTreeMap::new() };
        found.truncate(RECURRING);
        let mut known = self.successes.lock().unwrap_or_else(PoisonError::into_inner);
        *known = successes(std::mem::take(&mut *known), &found);
        found.into_iter().map(|record| meter(record, &known)).collect()
    }

    /// Free and whole size of the disks. One that does not answer soon, such as that of a server that is away, is left out.
    pub(super) async fn disks(&self) -> BTreeMap<&'static str, Disk> {
        let mut disks = BTreeMap::new();
        for (what, dir) in &self.dirs {
            let dir: Arc<Path> = dir.as_path().into();
            let looked = tokio::task::spawn_blocking(move || disk(&dir));
            if let Ok(Ok(Some(disk))) = tokio::time::timeout(HANGS, looked).await {
                disks.insert(*what, disk);
            }
        }
        disks
    }
}

fn disk(dir: &Path) -> Option<Disk> {
    let found = statvfs(dir).ok()?;
    Some(Disk { free: found.f_bavail * found.f_frsize, size: found.f_blocks * found.f_frsize })
}

/// What was known, and what the latest jobs say: of those that are still there.
fn successes(known: BTreeMap<String, Millis>, found: &[RecurringRecord]) -> BTreeMap<String, Millis> {
    let of = |record: &RecurringRecord| {
        let name = &record.recurring.name;
        let latest = record.latest.as_ref().filter(|latest| latest.state == JobState::Complete);
        let at = latest.map(|latest| latest.at).or(known.get(name).copied())?;
        Some((name.clone(), at))
    };
    found.iter().filter_map(of).collect()
}

fn meter(record: RecurringRecord, known: &BTreeMap<String, Millis>) -> (String, RecurringMeter) {
    let last_success = known.get(&record.recurring.name).copied();
    let RecurringRecord { count, skipped, missed_at, stuck, .. } = record;
    let meter = RecurringMeter { last_success, put: count, skipped, missed_at, stuck: stuck.is_some() };
    (record.recurring.name, meter)
}
