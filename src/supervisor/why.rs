//! Why workers and jobs are ended, and how long that may take.

use std::time::Duration;

use crate::wear::Wear;
use model::{EndedFor, Excess, PoolSettings, Revocation};

/// Why we end a worker or a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The worker was not ready in time.
    Boot,
    /// It has run all the jobs of its life.
    Spent,
    /// The supervisor was ordered to stop.
    Stop,
    /// The keeper made the life before the backoff of an earlier one was over.
    Backoff,
    /// The job exceeded a limit.
    Limit(Excess),
    /// The lease of the job is lost.
    Lost(Revocation),
    /// Another job of the same worker could only be ended with the worker.
    Neighbour,
    /// The worker broke the protocol.
    Fault,
    /// No job can be begun in this life.
    Unfit,
    /// The worker has been idle for a while, and others are there.
    Idle,
    /// It has said so itself.
    OwnWord,
    /// It has run for long enough.
    Worn(Wear),
    /// It has, and the worker of an heir replaces it.
    Relieved(Wear),
    /// Its pool has fewer slots now.
    Scaled,
    /// The workers of an heir replace it.
    Replaced,
    /// The supervisor to which it belonged died.
    Orphaned,
}

impl Why {
    /// The words for people.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Why::Boot => "boot timeout",
            Why::Spent => "spent",
            Why::Stop => "stop",
            Why::Backoff => "backoff",
            Why::Limit(excess) => excess.name(),
            Why::Lost(revocation) => revocation.as_str(),
            Why::Neighbour => "neighbour",
            Why::Fault => "fault",
            Why::Unfit => "a job could not be begun",
            Why::Idle => "idle",
            Why::OwnWord => "its own word",
            Why::Worn(wear) | Why::Relieved(wear) => wear.as_str(),
            Why::Scaled => "scaled down",
            Why::Replaced => "replaced",
            Why::Orphaned => "supervisor died",
        }
    }
}

/// A worker with several jobs has at least this long to end a lost one: its KILL ends the others too.
const IN_COMPANY: Duration = Duration::from_secs(1);

impl Why {
    /// Whether somebody else may run the job already.
    pub(super) fn is_anothers(self) -> bool {
        matches!(self, Why::Lost(revocation) if revocation.is_anothers())
    }

    /// Time that a worker or job has to end for this reason before it is killed.
    pub(super) fn grace(self, pool: &PoolSettings) -> Duration {
        match (self.is_anothers(), pool.jobs_at_once) {
            (false, _) => pool.grace,
            (true, 2..) => pool.lost_grace.max(IN_COMPANY),
            (true, _) => pool.lost_grace,
        }
    }

    /// What counts of the reasons of several signals: a stop may come to a job that is ended for something else.
    pub(super) fn chief(all: impl Iterator<Item = Why> + Clone) -> Option<EndedFor> {
        let limit = |why| if let Why::Limit(excess) = why { Some(EndedFor::Limit(excess)) } else { None };
        let has = |this: Why| all.clone().any(|why| why == this);
        let lease = || has(Why::Lost(Revocation::SelfFenced)).then_some(EndedFor::Lease);
        let stop = || has(Why::Stop).then_some(EndedFor::Stop);
        all.clone().find_map(limit).or_else(lease).or_else(stop)
    }

    /// Whether no worker is wanted in the slot afterwards.
    pub(super) fn empties_the_place(self) -> bool {
        matches!(self, Why::Idle | Why::Scaled | Why::Relieved(_) | Why::Replaced)
    }
}
