//! The states of a job.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Ready to run.
    Waiting = 0,
    /// Waits for its time.
    Delayed = 1,
    // The stores keep these numbers, and this state came last.
    /// Waits for the jobs it needs.
    Depends = 8,
    /// A supervisor holds a lease on it.
    Running = 2,
    /// Canceled while it ran; `canceled` when its processes are proven dead.
    Canceling = 3,
    /// The job is done.
    Complete = 4,
    /// Out of tries.
    Failed = 5,
    /// Needs a person; kept with its reason.
    Held = 6,
    /// Ended by a person.
    Canceled = 7,
}

impl JobState {
    /// Every state, in the order of a job's life.
    pub const ALL: [JobState; 9] = [
        JobState::Waiting,
        JobState::Delayed,
        JobState::Depends,
        JobState::Running,
        JobState::Canceling,
        JobState::Complete,
        JobState::Failed,
        JobState::Held,
        JobState::Canceled,
    ];

    /// Whether the job has ended: it changes only if a person acts.
    pub fn has_ended(self) -> bool {
        match self {
            JobState::Complete | JobState::Failed | JobState::Held | JobState::Canceled => true,
            JobState::Waiting
            | JobState::Delayed
            | JobState::Depends
            | JobState::Running
            | JobState::Canceling => false,
        }
    }

    /// Whether a lease on the job is held.
    pub fn is_leased(self) -> bool {
        matches!(self, JobState::Running | JobState::Canceling)
    }

    /// The word people type and read.
    pub fn as_str(self) -> &'static str {
        match self {
            JobState::Waiting => "waiting",
            JobState::Delayed => "delayed",
            JobState::Depends => "depends",
            JobState::Running => "running",
            JobState::Canceling => "canceling",
            JobState::Complete => "complete",
            JobState::Failed => "failed",
            JobState::Held => "held",
            JobState::Canceled => "canceled",
        }
    }
}

impl std::fmt::Display for JobState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl std::str::FromStr for JobState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        JobState::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| format!("no job state is called '{text}'"))
    }
}
