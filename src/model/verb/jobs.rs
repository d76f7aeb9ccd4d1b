//! Verbs about one job.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::queues::reason_fault;
use crate::JobId;

/// Shows one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Get {
    /// The job's id.
    pub job: JobId,
}

/// Finds jobs by the beginning of their ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FindJobs {
    /// How their ids begin; a whole id finds that job first.
    pub prefix: String,
}

impl FindJobs {
    /// Limit of the ids in an answer.
    pub const MOST: usize = 10;
}

/// Asks how many jobs come before a waiting one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Before {
    /// The job's id.
    pub job: JobId,
}

/// Ends jobs. One that others wait for is left as it is unless all of those are ended with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cancel {
    /// The jobs' ids.
    pub jobs: Vec<JobId>,
    /// Also all that wait for them, and for those, and so on.
    #[serde(default)]
    pub dependents: bool,
    /// Why, for those who look at the jobs: 1000 bytes at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Cancel {
    /// Why no broker could carry it out.
    pub fn fault(&self) -> Option<String> {
        reason_fault(self.reason.as_deref())
    }
}

/// Puts an ended job back to waiting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// The job's id.
    pub job: JobId,
}
