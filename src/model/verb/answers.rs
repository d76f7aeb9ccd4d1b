//! Answers that several verbs share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{JobId, JobState};

/// Nothing to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Done {}

/// The state of a job after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct State {
    /// The job's state.
    pub state: JobState,
}

/// A number of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Number {
    /// Number of jobs.
    pub count: u64,
}

/// The result for one of the jobs that were named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CancelAnswer")]
pub struct Each {
    /// The job's id.
    pub job: JobId,
    /// Its new state, or why it was left as it was.
    #[serde(flatten)]
    pub fate: Fate,
    /// The worker of another program that ran it. It was told to end the job, and nobody knows whether it has.
    #[serde(default, rename = "told_worker", skip_serializing_if = "Option::is_none")]
    pub told: Option<String>,
}

/// The result for a job that was named with others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// The request was carried out: the new state of the job.
    State(JobState),
    /// Nothing was changed, and why.
    Refused(Refusal),
}

/// Why a job was left as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum Refusal {
    /// There is none of that id.
    NoJob,
    /// Its state does not allow it.
    State {
        /// The state it is in.
        state: JobState,
    },
    /// Others wait for it.
    #[serde(rename = "has_dependents")]
    NeededBy {
        /// Those that were not named, or were left as they are themselves.
        jobs: Vec<JobId>,
    },
}

/// The tags of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tags {
    /// In the order in which they were added.
    pub tags: Vec<String>,
}
