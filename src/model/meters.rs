//! Data for `/metrics`: the status, and counters.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Millis, Status};

/// All values at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Meters {
    /// The status, without the trees of processes.
    pub status: Status,
    /// Counters since the supervisor started.
    pub counters: Counters,
    /// The wall clock, to compute ages.
    pub now: Millis,
    /// Descriptors that the keeper has open.
    pub keeper_descriptors: Option<u64>,
    /// Descriptors that the supervisor has open.
    pub supervisor_descriptors: Option<u64>,
    /// Size of the store's WAL in bytes, if it has one.
    pub wal_bytes: Option<u64>,
    /// What has failed for a while, and for how long.
    pub failing: Vec<(String, Duration)>,
    /// Number of jobs in the outbox, if the supervisor has one.
    pub outbox: Option<u64>,
    /// The recurring jobs by name, a hundred at most.
    pub recurring: BTreeMap<String, RecurringMeter>,
    /// The disks of `store` and `outputs`, as far as they answer.
    pub disks: BTreeMap<&'static str, Disk>,
}

/// The room on a disk, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// What is free for this user.
    pub free: u64,
    /// All of it.
    pub size: u64,
}

/// What metrics tell of a recurring job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecurringMeter {
    /// When its latest job was due that is known to be complete.
    pub last_success: Option<Millis>,
    /// Number of jobs that it has put.
    pub put: u64,
    /// How often it was due and the job before had not ended.
    pub skipped: u64,
    /// What it missed last and did not make up.
    pub missed_at: Option<Millis>,
    /// Whether it is due and cannot be put.
    pub stuck: bool,
}

/// Counters of a pool name, also over several pools that had it one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCounters {
    /// Jobs that fetches have brought.
    pub fetched: u64,
    /// Lives that have begun.
    pub spawned: u64,
    /// Lives ended by exit code 0.
    pub ended_well: u64,
    /// Lives ended by another exit code.
    pub ended_badly: u64,
    /// Lives ended by a signal.
    pub killed: u64,
}

/// What the supervisor counts for a pool name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Lives that ended unexpectedly.
    pub restarts: u64,
    /// Jobs settled, by verdict.
    pub settled: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// One more job was settled.
    pub fn settled(&mut self, verdict: &'static str) {
        *self.settled.entry(verdict).or_default() += 1;
    }
}

/// Attempts of the jobs of a class that are over, and their total time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// The number of attempts.
    pub count: u64,
    /// Total time from the order to the worker to the end of the job.
    pub time: Duration,
}

/// Durations by size, in the classes of [`Histogram::BOUNDS`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Number of durations up to each bound and above the one before; the last is of all longer ones.
    pub counts: [u64; Histogram::BOUNDS.len() + 1],
    /// Sum of the durations.
    pub sum: Duration,
}

impl Histogram {
    /// Upper bounds in seconds: from what nobody notices to what nobody waits for.
    pub const BOUNDS: [f64; 11] = [0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0];

    /// Adds one duration.
    pub fn add(&mut self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        // A duration that is equal to a bound counts below it, as `le` of Prometheus says.
        self.counts[Histogram::BOUNDS.partition_point(|bound| *bound < seconds)] += 1;
        self.sum = self.sum.saturating_add(duration);
    }

    /// Number of them.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Sums since the supervisor started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Answers to fetches.
    pub fetches: u64,
    /// Fetches that failed or had no answer.
    pub fetches_failed: u64,
    /// Sum of their durations.
    pub fetch_time: Duration,
    /// By the name of the pool, also of pools that are gone.
    pub pools: BTreeMap<String, PoolCounters>,
    /// The supervisor's own counters, by pool.
    pub tallies: BTreeMap<String, Tally>,
    /// By class: the first hundred classes, the others as `other`.
    pub classes: BTreeMap<String, Ran>,
    /// Number of leases renewed.
    pub renewed: u64,
    /// Renewals without an answer.
    pub renewals_failed: u64,
    /// Number of leases lost, canceled jobs included.
    pub revoked: u64,
    /// Number of settlements that were answered.
    pub settled: u64,
    /// Settlements without an answer, which are sent again.
    pub settles_failed: u64,
    /// How long jobs had waited that began here, by queue: the first hundred, the others as `other`.
    pub waits: BTreeMap<String, Histogram>,
    /// How long attempts ran, by queue.
    pub runs: BTreeMap<String, Histogram>,
    /// Attempts that failed, by class.
    pub failed: BTreeMap<String, u64>,
    /// Attempts ended by a limit, a crash, a want of memory or a lost lease, by which of them.
    pub kills: BTreeMap<&'static str, u64>,
}
