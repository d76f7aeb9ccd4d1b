//! Verbs about queues.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::QueueName;

/// Counts all queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Queues {}

/// Stops fetching from a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// Which.
    pub queue: QueueName,
    /// Why, for those who look at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Ends the pause of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resume {
    /// Which.
    pub queue: QueueName,
}
