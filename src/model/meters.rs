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
}
