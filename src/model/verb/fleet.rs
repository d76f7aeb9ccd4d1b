//! Verbs about the supervisors that share a broker.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Shows all supervisors that share the broker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowFleet {
    /// With the jobs that each runs.
    #[serde(default)]
    pub jobs: bool,
}
