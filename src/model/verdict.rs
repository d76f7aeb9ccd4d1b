//! What the supervisor reports to the broker on a job, and what that is for the job.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::outcome::Next;
use super::{Failure, Fence, Forensics, JobId};

/// Our report to the broker on a job whose lease we hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The job is done.
    Complete {
        /// The worker's result as JSON text.
        result: Option<String>,
        /// Where the job goes on, if it does: then it is complete in its first queue only.
        next: Option<Next>,
    },
    /// The attempt is spent; the job waits, then runs again.
    Retry {
        /// How long to wait.
        after: Duration,
        /// Why the attempt failed.
        failure: Failure,
    },
    /// The attempt is spent and was the last one.
    Fail {
        /// Why the attempt failed.
        failure: Failure,
    },
    /// Back to its place in the queue; the attempt is unspent.
    Release {
        /// How long to wait.
        after: Duration,
        /// As what this release counts, if it counts.
        counts: Option<Count>,
    },
    /// A person must decide; the job is kept with the reason until `job retry`.
    Hold {
        /// Why a person must decide.
        failure: Failure,
    },
    /// The job was canceled, and its processes are proven dead.
    Canceled,
}

impl Verdict {
    /// Its word in the scripts of brokers.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Complete { next: None, .. } => "complete",
            Verdict::Complete { next: Some(_), .. } => "advance",
            Verdict::Retry { .. } => "retry",
            Verdict::Fail { .. } => "fail",
            Verdict::Release { .. } => "release",
            Verdict::Hold { .. } => "hold",
            Verdict::Canceled => "canceled",
        }
    }

    /// How long the job waits before it runs again, or goes on in another queue.
    pub fn after(&self) -> Duration {
        match self {
            Verdict::Complete { next: Some(next), .. } => next.delay,
            Verdict::Retry { after, .. } | Verdict::Release { after, .. } => *after,
            Verdict::Complete { next: None, .. }
            | Verdict::Fail { .. }
            | Verdict::Hold { .. }
            | Verdict::Canceled => Duration::ZERO,
        }
    }
}

/// Why an unspent attempt is counted all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Count {
    /// The supervisor or its host died, or the lease ended: it is one interruption more.
    Interrupted,
    /// It was ended by a stop, or as the broker did not answer. Only the history has it.
    Stopped,
    /// No worker knew its class.
    UnknownClass,
}

impl Count {
    /// Whether the job was interrupted, so that it is not to blame for its end.
    pub fn is_interruption(self) -> bool {
        match self {
            Count::Interrupted | Count::Stopped => true,
            Count::UnknownClass => false,
        }
    }
}

/// One verdict for one lease. The broker applies it by compare-and-set on (job, fence), so exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// Id of the job.
    pub job: JobId,
    /// The fence that proves our lease.
    pub fence: Fence,
    /// The verdict on the job.
    pub verdict: Verdict,
    /// Whether its worker died while it ran: the broker adds 1 to its crashes.
    pub crashed: bool,
    /// How it ended, for people. None if it was not begun.
    pub forensics: Option<Forensics>,
}

impl Settlement {
    /// Whether the job has begun under this lease: where the attempt is not spent, its number does not say so. One of
    /// a class that no worker knows has not.
    pub fn has_begun(&self) -> bool {
        match &self.verdict {
            Verdict::Release { counts: Some(counts), .. } => counts.is_interruption(),
            Verdict::Release { counts: None, .. }
            | Verdict::Complete { .. }
            | Verdict::Retry { .. }
            | Verdict::Fail { .. }
            | Verdict::Hold { .. }
            | Verdict::Canceled => self.forensics.is_some(),
        }
    }
}
