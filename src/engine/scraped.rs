//! What a scrape of the metrics asks for beside the loop: the recurring jobs, and the room on the disks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::statvfs;

use super::count_cache::HANGS;
use super::effects::Effects;
use broker::{Broker, Error};
use model::verb::{Ability, ListRecurring};
use model::{Disk, JobRecord, JobState, Millis, RecurringMeter, RecurringRecord};

/// Limit of the recurring jobs with metrics of their own.
const RECURRING: usize = 100;

/// Limit of the jobs before the latest one that are looked at for a success.
const LOOKS: usize = 10;

/// What is asked for, and what is known of it.
pub(super) struct Scraped {
    /// The directories whose disks can be full, and what is kept there.
    dirs: Vec<(&'static str, PathBuf)>,
    /// What is known of each recurring job.
    known: Mutex<BTreeMap<String, Known>>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    /// When its latest complete job was due.
    success: Option<Millis>,
    /// The number of its jobs and the state of the latest one when that was found out.
    seen: (u64, Option<JobState>),
}

impl Scraped {
    pub(super) fn new(effects: &Effects) -> Scraped {
        let store = ("store", effects.failing.state_dir().to_owned());
        let outputs = ("outputs", effects.logs.outputs().dir().to_owned());
        Scraped { dirs: vec![store, outputs], known: Mutex::default() }
    }

    /// The first hundred recurring jobs by name; none if the broker has none or does not answer soon.
    pub(super) async fn recurring(&self, broker: &Broker) -> BTreeMap<String, RecurringMeter> {
        if broker.card().require(Ability::Recur).is_err() {
            return BTreeMap::new();
        }
        let asked = tokio::time::timeout(HANGS, broker.tell(ListRecurring {}, ""));
        let Ok(Ok(mut found)) = asked.await else { return BTreeMap::new() };
        found.truncate(RECURRING);
        self.learned().retain(|name, _| found.iter().any(|record| record.recurring.name == *name));
        // What is not found out by then is asked for by the next scrape.
        tokio::time::timeout(HANGS, self.learn(broker, &found)).await.ok();
        let known = self.learned();
        found.into_iter().map(|record| meter(record, &known)).collect()
    }

    fn learned(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the successes of those that have changed. The latest job may have failed or run, so those before count, too.
    async fn learn(&self, broker: &Broker, found: &[RecurringRecord]) {
        for record in found {
            let name = &record.recurring.name;
            let seen = (record.count, record.latest.as_ref().map(|latest| latest.state));
            let before = self.learned().get(name).copied();
            if before.is_some_and(|known| known.seen == seen) {
                continue;
            }
            let success = match &record.latest {
                Some(latest) if latest.state == JobState::Complete => Ok(Some(latest.at)),
                Some(_) | None => success_before(broker, record).await,
            };
            let Ok(success) = success else { return };
            // The success that is known may lie further back than this look reached.
            let success = success.max(before.and_then(|known| known.success));
            self.learned().insert(name.clone(), Known { success, seen });
        }
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

/// When the newest complete job was due among those just before the latest one, by their ids.
async fn success_before(broker: &Broker, record: &RecurringRecord) -> Result<Option<Millis>, Error> {
    let name = &record.recurring.name;
    for number in (1..record.count).rev().take(LOOKS) {
        let job = broker.get(format!("{name}-{number}").into()).await?;
        // Anybody may put a job with such an id.
        let is_success = |job: &JobRecord| {
            job.state == JobState::Complete && job.recurring.as_deref() == Some(name.as_str())
        };
        if let Some(job) = job.filter(is_success) {
            return Ok(Some(job.put_at));
        }
    }
    Ok(None)
}

fn meter(record: RecurringRecord, known: &BTreeMap<String, Known>) -> (String, RecurringMeter) {
    let last_success = known.get(&record.recurring.name).and_then(|known| known.success);
    let RecurringRecord { count, skipped, missed_at, stuck, .. } = record;
    let meter = RecurringMeter { last_success, put: count, skipped, missed_at, stuck: stuck.is_some() };
    (record.recurring.name, meter)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use broker::Fetch;
    use model::verb::RunRecurring;
    use model::{
        ClassFilter, NewJob, Overlap, Payload, Recurring, Schedule, Settlement, SlotId, Take, Verdict,
        WorkerId,
    };
    use sqlite::Sqlite;

    #[tokio::test]
    async fn success_before_the_latest_job_is_found_by_a_supervisor_that_has_just_started() {
        let broker = Broker::from(Sqlite::memory().unwrap());
        let day = Duration::from_secs(24 * 3600);
        let recurring = Recurring {
            name: "nightly".into(),
            schedule: Schedule::Every { interval: day, offset: day },
            overlap: Overlap::Allow,
            catch_up: Duration::ZERO,
            backlog: 1,
            job: NewJob::new("q".into(), "c".into(), Payload::Data("1".into())),
        };
        broker.tell(recurring, "me").await.unwrap();
        let run = || broker.tell(RunRecurring { name: "nightly".into() }, "me");
        let scraped = || Scraped { dirs: Vec::new(), known: Mutex::default() };
        let success = async |scraped: &Scraped| scraped.recurring(&broker).await["nightly"].last_success;
        let first = run().await.unwrap();
        let early = scraped();
        assert_eq!(success(&early).await, None);
        let worker = WorkerId { slot: SlotId { pool: 0, index: 1 }, generation: 1 };
        let request = Fetch {
            pool: "default".into(),
            instance: "me".into(),
            queues: vec!["q".into()],
            take: Take::InOrder,
            filter: ClassFilter::default(),
            workers: vec![worker],
            lease: Duration::from_secs(60),
        };
        let lease = broker.fetch(request).await.unwrap().remove(0).lease;
        let verdict = Verdict::Complete { result: None, next: None };
        let settlement =
            Settlement { job: lease.job, fence: lease.fence, verdict, crashed: false, forensics: None };
        broker.settle(vec![settlement]).await.unwrap();
        // None has looked while it was the latest.
        for _ in 0..LOOKS {
            run().await.unwrap();
        }
        assert_eq!((success(&early).await, success(&scraped()).await), (Some(first.at), Some(first.at)));
        run().await.unwrap();
        assert_eq!((success(&early).await, success(&scraped()).await), (Some(first.at), None));
    }
}
