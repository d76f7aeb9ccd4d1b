//! The state of the store's thread: the connection, caches, and what to do after a transaction.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use rusqlite::{Connection, OptionalExtension, params};
use tokio::sync::mpsc::UnboundedSender;

use super::columns::state;
use super::count::{Count, Reached};
use super::empty_filter_cache::Barren;
use super::expiry_time::Expiry;
use super::gathered::Gathered;
use super::options::World;
use super::trouble::Trouble;
use broker::{Error, JobEnd, Notice};
use common::Notices;
use model::{
    Fence, Instant, JobId, JobState, OptionsInForce, PublishedEvent, QueueName, QueueSet, Revocation,
};

/// Limit of the jobs that one transaction handles because they are due, or because of another job.
pub(super) const STRETCH: usize = 500;

/// A caller that waits for a job's end.
pub(super) struct Waiter {
    pub(super) job: JobId,
    pub(super) told: UnboundedSender<JobEnd>,
}

impl Waiter {
    pub(super) fn tell(self, end: Result<JobState, Error>) {
        // It fails if the caller has gone.
        let _ = self.told.send((self.job, end));
    }
}

pub(super) struct Store {
    pub(super) conn: Connection,
    pub(super) world: World,
    pub(super) notices: Arc<Notices>,
    /// Store time minus time since boot, in milliseconds.
    pub(super) ahead: i64,
    /// A store time that is stored as reached.
    pub(super) seen: i64,
    /// Leases that this process was given, to report their revocation.
    pub(super) leases: HashMap<JobId, Fence>,
    pub(super) waiters: HashMap<JobId, Vec<Waiter>>,
    /// Number of awaited jobs from which on callers that have gone are removed.
    pub(super) waiters_checked_at: usize,
    pub(super) effects: Effects,
    /// How far the wall clock was ahead of store time when recurring jobs were last looked at.
    pub(super) wall_ahead: Option<i64>,
    /// Recurring jobs that are due and could not be put, by row: their names, and when to try again, in store time.
    pub(super) put_off: BTreeMap<i64, (String, i64)>,
    /// Whether this process fires recurring jobs and takes back expired leases.
    pub(super) serves: bool,
    /// Whether this is a ledger: it records another broker's jobs, and does not learn of ends elsewhere.
    pub(super) is_ledger: bool,
    /// When the disk last refused what keeps or ends a lease, in store time.
    pub(super) refused_at: Option<i64>,
    /// When a delayed job becomes due, a lease ends or a recurring job fires, in store time. May be early, never late.
    pub(super) next_due: Option<i64>,
    pub(super) queues: HashMap<QueueName, Queue>,
    /// Options that are set; None until they are first needed.
    pub(super) options: Option<OptionsInForce>,
    /// Queues with a limit of running jobs.
    pub(super) limited: HashSet<i64>,
    pub(super) barren: Barren,
    pub(super) data_version: i64,
    /// Whether another process has written since the bell was last handled.
    pub(super) foreign: bool,
    /// Statistics that are not on file yet, and when to write them.
    pub(super) figures: Gathered,
    pub(super) figures_due: Option<i64>,
    pub(super) expiry: Expiry,
    /// Pages in the WAL at the latest commit.
    pub(super) wal_pages: Arc<AtomicI32>,
    /// What the latest commit has reached.
    pub(super) reached: Reached,
    /// Number of rows that this connection had changed when it last looked.
    pub(super) changes_made: u64,
}

#[derive(Clone, Copy)]
pub(super) struct Queue {
    pub(super) id: i64,
    pub(super) paused: bool,
}

/// What to do after the commit; dropped after a rollback.
#[derive(Default)]
pub(super) struct Effects {
    counts: BTreeMap<i64, [i64; 9]>,
    /// Number of jobs put, by queue.
    puts: BTreeMap<i64, i64>,
    /// What this transaction adds to the count of the store.
    pub(super) counted: Count,
    /// The last job that was put.
    latest: Option<JobId>,
    pub(super) ended: Vec<(JobId, JobState)>,
    pub(super) granted: Vec<(JobId, Fence)>,
    pub(super) given_up: Vec<JobId>,
    pub(super) revoked: Vec<(JobId, Fence, Revocation)>,
    /// Events to publish.
    pub(super) news: Vec<PublishedEvent>,
    /// Queues in which jobs may be waiting, until their names are read.
    pub(super) awake: BTreeSet<i64>,
    /// Queues in which jobs may be waiting.
    pub(super) wake: QueueSet,
    /// Whether to ring the bell for other processes.
    pub(super) ring: bool,
    pub(super) due: Option<i64>,
    pub(super) figures: Gathered,
    pub(super) figures_written: bool,
    pub(super) expiry: Option<Expiry>,
}

impl Effects {
    /// By how much the number of a queue's jobs in a state has changed.
    pub(super) fn moves(&self, queue: i64, state: JobState) -> i64 {
        self.counts.get(&queue).map_or(0, |counts| counts[state as usize])
    }
}

impl Store {
    /// Whether it ends leases whose time is over. A short-lived client has not made sure that the processes of a dead
    /// supervisor are dead; the next supervisor has. To a ledger its broker says which leases are lost.
    pub(super) fn expires(&self) -> bool {
        self.serves && !self.is_ledger
    }

    /// Store time at `now`.
    pub(super) fn millis(&self, now: Instant) -> i64 {
        i64::try_from(now.as_millis()).unwrap_or(i64::MAX).saturating_add(self.ahead)
    }

    /// The moment at which the store is at work on a call.
    pub(super) fn now(&self) -> Instant {
        (self.world.now)()
    }

    /// How long a job has waited at `now` that could run since this store time.
    pub(super) fn waited(&self, since: i64, now: Instant) -> std::time::Duration {
        std::time::Duration::from_millis(u64::try_from(self.millis(now) - since).unwrap_or_default())
    }

    /// Store time now.
    pub(super) fn time(&self) -> i64 {
        self.millis(self.now())
    }

    /// Notes that a job changed its state; `None` means that it was put.
    pub(super) fn moved(&mut self, queue: i64, from: Option<JobState>, to: JobState) {
        let counts = self.effects.counts.entry(queue).or_default();
        if let Some(from) = from {
            counts[from as usize] -= 1;
        }
        counts[to as usize] += 1;
        // A put clears this by class itself.
        if to == JobState::Waiting && from.is_some() {
            self.barren.forget(queue);
        }
        // An end in a queue with a limit leaves room for the next job.
        let makes_room =
            !to.is_leased() && from.is_some_and(JobState::is_leased) && self.limited.contains(&queue);
        if to == JobState::Waiting || makes_room {
            self.effects.awake.insert(queue);
        }
        // Other processes serve the same queues.
        self.effects.ring |= makes_room;
        self.effects.ring |= to == JobState::Waiting || to == JobState::Delayed || to == JobState::Canceling;
    }

    /// Notes that a new job was put.
    pub(super) fn counted(&mut self, queue: i64, id: &JobId) {
        *self.effects.puts.entry(queue).or_default() += 1;
        self.effects.latest = Some(id.clone());
    }

    /// Notes that a job that ran in one queue goes on in another.
    pub(super) fn advanced(&mut self, from: i64, queue: i64, to: JobState) {
        self.moved(from, Some(JobState::Running), JobState::Complete);
        self.gone(from, JobState::Complete);
        self.moved(queue, None, to);
        self.barren.forget(queue);
    }

    /// Notes that a job in this state was removed.
    pub(super) fn gone(&mut self, queue: i64, from: JobState) {
        self.effects.counts.entry(queue).or_default()[from as usize] -= 1;
    }

    /// Notes that a job has ended: callers that wait for it are notified once that is on disk.
    pub(super) fn ended(&mut self, id: JobId, state: JobState) {
        self.effects.ring = true;
        self.effects.ended.push((id, state));
    }

    /// Adds a caller that waits for the end of a job, and now and then removes those that have gone.
    pub(super) fn wait(&mut self, waiter: Waiter) {
        const FEW: usize = 64;
        if self.waiters.len() >= self.waiters_checked_at {
            self.waiters.retain(|_, waiters| {
                waiters.retain(|waiter| !waiter.told.is_closed());
                !waiters.is_empty()
            });
            // Doubled, so that a caller costs a constant number of steps on average.
            self.waiters_checked_at = FEW.max(2 * self.waiters.len());
        }
        self.waiters.entry(waiter.job.clone()).or_default().push(waiter);
    }

    /// Notes that something becomes due at `at`.
    pub(super) fn expect(&mut self, at: i64) {
        self.effects.due = Some(self.effects.due.map_or(at, |due| due.min(at)));
    }

    /// The queue, if it exists.
    pub(super) fn queue(&mut self, name: &QueueName) -> Result<Option<Queue>, rusqlite::Error> {
        if let Some(queue) = self.queues.get(name) {
            return Ok(Some(*queue));
        }
        let found = self
            .conn
            .prepare_cached("SELECT id, paused_at IS NOT NULL FROM queue WHERE name = ?1")?
            .query_row([name.as_str()], |row| Ok(Queue { id: row.get(0)?, paused: row.get(1)? }))
            .optional()?;
        // That there is none is not kept: another process may make it.
        if let Some(queue) = found {
            self.queues.insert(name.clone(), queue);
        }
        Ok(found)
    }

    /// The queue, or an error if it does not exist.
    pub(super) fn queue_there(&mut self, name: &QueueName) -> Result<Queue, Trouble> {
        self.queue(name)?.ok_or_else(|| Error::NoQueue(name.clone()).into())
    }

    /// The row of the queue, which is made if it does not exist.
    pub(super) fn queue_made(&mut self, name: &QueueName) -> Result<i64, rusqlite::Error> {
        if let Some(queue) = self.queue(name)? {
            return Ok(queue.id);
        }
        self.conn.execute("INSERT INTO queue (name) VALUES (?1)", [name.as_str()])?;
        Ok(self.conn.last_insert_rowid())
    }

    /// Writes the counters to the file, and reads the names of queues in which jobs may be waiting: at the commit, and
    /// before the counters are read.
    pub(super) fn write_counts(&mut self) -> Result<(), rusqlite::Error> {
        for (queue, c) in std::mem::take(&mut self.effects.counts) {
            let puts = self.effects.puts.remove(&queue).unwrap_or(0);
            let name = self
                .conn
                .prepare_cached(
                    "UPDATE queue SET waiting = waiting + ?2, delayed = delayed + ?3, running = running + ?4,
                     canceling = canceling + ?5, complete = complete + ?6, failed = failed + ?7, held = held + ?8,
                     canceled = canceled + ?9, depends = depends + ?10, puts = puts + ?11, changes = changes + 1
                     WHERE id = ?1 RETURNING name",
                )?
                .query_row(params![queue, c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8], puts], |row| {
                    row.get::<_, String>(0)
                })
                .optional()?;
            if name.is_some() {
                self.effects.counted += Count { puts, changes: 1 };
            }
            if self.effects.awake.remove(&queue) {
                self.effects.wake.add(name.map_or(QueueSet::All, |name| QueueName::from(name).into()));
            }
        }
        Ok(())
    }

    /// When something becomes due by itself, in store time.
    pub(super) fn next_timer(&self) -> Option<i64> {
        [self.next_due, self.figures_due, Some(self.expiry.next())].into_iter().flatten().min()
    }

    /// Whether the due work needs a transaction like those of calls.
    pub(super) fn is_due(&self, time: i64) -> bool {
        [self.next_due, self.figures_due].into_iter().flatten().any(|due| due <= time)
    }

    /// After the commit: updates leases, sends notices, and gives the callers that waited for an end.
    pub(super) fn take_effect(&mut self) -> (bool, Vec<(Waiter, JobState)>) {
        let effects = std::mem::take(&mut self.effects);
        self.reached.count += effects.counted;
        if let Some(id) = effects.latest {
            self.reached.latest = Some((id, self.time()));
        }
        for id in effects.given_up {
            self.leases.remove(&id);
        }
        for (id, fence, why) in effects.revoked {
            if self.leases.get(&id) == Some(&fence) {
                if why == Revocation::LockLost {
                    self.leases.remove(&id);
                }
                self.notices.push(Notice::Revoked { job: id, fence, why });
            }
        }
        // After what was given up and revoked: the job may have been handed out again in the same transaction.
        self.leases.extend(effects.granted);
        self.next_due = [self.next_due, effects.due].into_iter().flatten().min();
        if effects.figures_written {
            (self.figures, self.figures_due) = Default::default();
        }
        let due = self.figures.merge(effects.figures, self.time());
        self.figures_due = self.figures_due.or(due);
        self.expiry = effects.expiry.unwrap_or(self.expiry);
        self.expiry.count_ended(effects.ended.len(), self.time());
        if !effects.wake.is_empty() {
            self.notices.push(Notice::Wake(effects.wake));
        }
        let mut told = Vec::new();
        for (id, state) in effects.ended {
            told.extend(
                self.waiters.remove(&id).unwrap_or_default().into_iter().map(|waiter| (waiter, state)),
            );
        }
        (effects.ring, told)
    }

    /// Pages in the WAL at the latest commit.
    pub(super) fn wal_pages(&self) -> i32 {
        self.wal_pages.load(Ordering::Relaxed)
    }

    /// The row, the queue and the state of a job.
    pub(super) fn place(&self, id: &JobId) -> Result<(i64, i64, JobState), Trouble> {
        let place = self
            .conn
            .prepare_cached("SELECT id, queue, state FROM job WHERE jid = ?1")?
            .query_row([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?, state(row.get(2)?))))
            .optional()?;
        place.ok_or_else(|| Error::NoJob(id.clone()).into())
    }
}
