//! Request and answer bodies, for both sides of the API.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{NewJob, Stop, batch};

/// The body of `POST /v1/jobs`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Put {
    #[serde(deserialize_with = "batch")]
    pub jobs: Vec<NewJob>,
}

/// The body of `POST /v1/stop`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StopOrder {
    pub how: Stop,
}

/// The body of `POST /v1/reload`.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Reload {
    #[serde(default)]
    pub dry_run: bool,
}

/// Every answer that is not 2xx.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Refusal {
    pub error: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}
