//! How far a job has come.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Progress of a job, as its worker reports it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// From 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fraction: Option<f64>,
    /// A line for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
