//! How a process ended, in public JSON.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ExitStatus;

/// How a process ended: by itself with a code, or by a signal.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ExitStatus")]
pub(crate) struct ExitStatusJson {
    /// The code it returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<i32>,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    /// Whether a core was dumped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    core_dumped: bool,
}

impl From<ExitStatus> for ExitStatusJson {
    fn from(status: ExitStatus) -> Self {
        match status {
            ExitStatus::Code(code) => ExitStatusJson { code: Some(code), signal: None, core_dumped: false },
            ExitStatus::Signal { signal, core } => {
                ExitStatusJson { code: None, signal: Some(signal), core_dumped: core }
            }
        }
    }
}

impl From<ExitStatusJson> for ExitStatus {
    fn from(status: ExitStatusJson) -> Self {
        match status.signal {
            Some(signal) => ExitStatus::Signal { signal, core: status.core_dumped },
            None => ExitStatus::Code(status.code.unwrap_or_default()),
        }
    }
}
