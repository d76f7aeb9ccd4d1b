//! The bodies that both sides of the API speak.

use serde::{Deserialize, Serialize};

use crate::model::{JobId, JobState, NewJob, Stop};

/// `POST /v1/jobs`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Put {
    pub jobs: Vec<NewJob>,
}

/// The answer to [`Put`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ids {
    pub ids: Vec<JobId>,
}

/// `POST /v1/jobs/{id}/cancel`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cancel {
    #[serde(default)]
    pub wait: bool,
}

/// The answer to a cancel or a wait.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct State {
    pub state: JobState,
}

/// `POST /v1/queues/{queue}/pause`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pause {
    #[serde(default)]
    pub reason: Option<String>,
}

/// `POST /v1/stop`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StopOrder {
    pub how: Stop,
}

/// `POST /v1/reload`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reload {
    #[serde(default)]
    pub rehearsal: bool,
}

/// Nothing to say.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Done {}

/// Every answer that is not 2xx.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Refusal {
    pub error: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}
