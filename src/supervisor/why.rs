//! Why workers and jobs are ended, and how long that may take.

use std::time::Duration;

use super::wear::Wear;
use crate::model::{Excess, PoolSettings, Revocation};

/// Why we end a worker or a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// Not ready in time.
    Boot,
    /// It has run all the jobs of its life.
    Spent,
    /// We were told to stop.
    Stop,
    /// It was made before the wait was over that follows a life which ended too early.
    Backoff,
    /// The job took more than it may.
    Limit(Excess),
    /// The right to run the job is lost.
    Lost(Revocation),
    /// Another job of the same worker could only be ended with the worker.
    Neighbour,
    /// The worker broke the protocol.
    Fault,
    /// It has had nothing to do for a while, and others are there.
    Idle,
    /// It has run for long enough.
    Worn(Wear),
    /// Its pool has fewer places now.
    Scaled,
    /// Others take the place of its pool.
    Replaced,
    /// The supervisor that had it died.
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
            Why::Idle => "idle",
            Why::Worn(wear) => wear.as_str(),
            Why::Scaled => "scaled down",
            Why::Replaced => "replaced",
            Why::Orphaned => "supervisor died",
        }
    }
}

/// A worker with several jobs has this long, at the least, to end one that is lost: its KILL ends the others too.
const IN_COMPANY: Duration = Duration::from_secs(1);

impl Why {
    /// Whether somebody else may run the job already.
    pub(super) fn is_anothers(self) -> bool {
        matches!(self, Why::Lost(revocation) if revocation.is_anothers())
    }

    /// How long what is ended for this may take to end by itself.
    pub(super) fn grace(self, pool: &PoolSettings) -> Duration {
        match (self.is_anothers(), pool.jobs_at_once) {
            (false, _) => pool.grace,
            (true, 2..) => pool.lost_grace.max(IN_COMPANY),
            (true, _) => pool.lost_grace,
        }
    }

    /// Whether nobody is to come after it.
    pub(super) fn empties_the_place(self) -> bool {
        matches!(self, Why::Idle | Why::Scaled | Why::Replaced)
    }
}
