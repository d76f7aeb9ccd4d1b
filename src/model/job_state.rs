//! The states of a job.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

word_enum! {
    /// The state of a job.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum JobState {
        /// Ready to run.
        Waiting = 0 => "waiting",
        /// Waits for its time.
        Delayed = 1 => "delayed",
        // The stores keep these numbers, and this state came last.
        /// Waits for the jobs it needs.
        Depends = 8 => "depends",
        /// A supervisor holds a lease on it.
        Running = 2 => "running",
        /// Canceled while it ran; `canceled` when its processes are proven dead.
        Canceling = 3 => "canceling",
        /// The job is done.
        Complete = 4 => "complete",
        /// Out of tries.
        Failed = 5 => "failed",
        /// Needs a person; kept with its reason.
        Held = 6 => "held",
        /// Ended by a person.
        Canceled = 7 => "canceled",
    }
}

impl JobState {
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
