//! Verbs about recurring jobs. The verb to put one is the recurring job itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Lists all recurring jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListRecurring {}

/// Shows one recurring job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowRecurring {
    /// The recurring job's name.
    pub name: String,
}

/// Puts the job of a recurring job now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunRecurring {
    /// The recurring job's name.
    pub name: String,
}

/// Has a recurring job make no jobs for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseRecurring {
    /// The recurring job's name.
    pub name: String,
}

/// Ends the pause of a recurring job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeRecurring {
    /// The recurring job's name.
    pub name: String,
}

/// Ends the recurrence of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveRecurring {
    /// The recurring job's name.
    pub name: String,
}
