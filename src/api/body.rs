//! Request and answer bodies, for both sides of the API.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Problem;
use model::{JobId, NewJob, Stop, batch};

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

/// The answer of `GET /readyz`.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(super) struct Ready {
    /// Why the service is not healthy although it takes jobs, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub degraded: Vec<String>,
}

/// Every answer that is not 2xx.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Refusal {
    pub error: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// If some jobs of a put were put and others not: the id of each that was, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub put: Vec<Option<JobId>>,
    /// Which of the others may have been put, as their broker has not answered: their numbers in the request, from 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_doubt: Vec<usize>,
}

impl From<Problem> for Refusal {
    fn from(Problem { message, hint, put, in_doubt, .. }: Problem) -> Refusal {
        Refusal { error: message, hint, put, in_doubt }
    }
}

impl Refusal {
    /// The problem that it tells of, with this HTTP status.
    pub(crate) fn problem(self, code: u16) -> Problem {
        Problem { code, message: self.error, hint: self.hint, put: self.put, in_doubt: self.in_doubt }
    }
}
