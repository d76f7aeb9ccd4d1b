//! What `/metrics` shows: the status, and what is only counted.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Millis, Status};

/// All of it, at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Meters {
    /// The whole picture, without the trees of processes.
    pub status: Status,
    /// What was counted since the supervisor started.
    pub counters: Counters,
    /// The wall clock, for ages.
    pub now: Millis,
    /// Descriptors that the keeper has open.
    pub keeper_descriptors: Option<u64>,
    /// Descriptors that the supervisor has open.
    pub supervisor_descriptors: Option<u64>,
    /// The size of the store's WAL, if it has one.
    pub wal_bytes: Option<u64>,
    /// New jobs that wait until their broker is back, if it is a supervisor that keeps them.
    pub outbox: Option<u64>,
}

/// The same of the pools that have had a name, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCounters {
    /// Jobs that came with the answers to fetches.
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

/// What the supervisor counts of the pools that have had a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Lives that ended otherwise than as planned.
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

/// Attempts of the jobs of a class that are over, and how long they ran together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// The number of attempts.
    pub count: u64,
    /// From the order to a worker to the end of the job.
    pub time: Duration,
}

/// Sums since the supervisor started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Answers to fetches.
    pub fetches: u64,
    /// Fetches without an answer.
    pub fetches_failed: u64,
    /// How long all of them took.
    pub fetch_time: Duration,
    /// By the name of the pool, also of one that is there no more.
    pub pools: BTreeMap<String, PoolCounters>,
    /// The same, as the supervisor counts.
    pub tallies: BTreeMap<String, Tally>,
    /// By class: the first hundred classes, and the rest as `other`.
    pub classes: BTreeMap<String, Ran>,
    /// Number of leases renewed.
    pub renewed: u64,
    /// Renewals without an answer.
    pub renewals_failed: u64,
    /// Number of leases lost, canceled jobs included.
    pub revoked: u64,
    /// Answers to settlements.
    pub settled: u64,
    /// Settlements without an answer, which are sent again.
    pub settles_failed: u64,
}
