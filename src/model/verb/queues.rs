//! Verbs about queues.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Day, QueueName, name_fault};

/// Counts all queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Queues {}

/// Stops fetching from a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// The queue's name.
    pub queue: QueueName,
    /// Why, for those who look at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Pause {
    /// The longest reason, in bytes.
    pub const REASON_MAX: usize = 1000;

    /// Why no broker could carry it out.
    pub fn fault(&self) -> Option<String> {
        name_fault("a queue's name", self.queue.as_str()).or_else(|| reason_fault(self.reason.as_deref()))
    }
}

/// Why a reason cannot be accepted.
pub fn reason_fault(reason: Option<&str>) -> Option<String> {
    let long = reason.map_or(0, str::len);
    (long > Pause::REASON_MAX)
        .then(|| format!("a reason of {long} bytes is too long: {} are the most", Pause::REASON_MAX))
}

/// Ends the pause of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resume {
    /// The queue's name.
    pub queue: QueueName,
}

/// Removes a queue that has no jobs, or with them if they have ended: a stretch of them at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Forget {
    /// The queue's name.
    pub queue: QueueName,
    /// Its complete, failed and canceled jobs first. Refused before the first of them if anything else keeps the queue.
    #[serde(default)]
    pub discard: bool,
    /// Where to go on: `next` of the answer before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<i64>,
}

/// Tells how the jobs of a queue fared on a day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stats {
    /// The queue's name.
    pub queue: QueueName,
    /// On this day; today if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day: Option<Day>,
}

/// Statistics of a queue on a day.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueDay {
    /// The queue's name.
    pub queue: QueueName,
    /// The day, in UTC.
    pub day: Day,
    /// From the moment a job could have been given out to the moment it was.
    pub wait: Times,
    /// How long attempts ran that completed their jobs: from their begin in a worker to their end, without a wait for it.
    pub run: Times,
    /// Attempts that failed and were tried again.
    pub retries: u64,
    /// Jobs that failed.
    pub failures: u64,
    /// Those of them that still are.
    pub failed: u64,
}

/// Statistics of a duration, in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Times {
    /// Number of measurements.
    pub count: u64,
    /// The mean, in seconds.
    pub mean: f64,
    /// The standard deviation; 0 of fewer than two.
    pub std: f64,
    /// How often it took so many seconds, or more up to the next bucket: of a second up to a minute, then of a minute, an hour, a
    /// day, and the last for six days or more. Those with none are left out.
    pub histogram: BTreeMap<u32, u64>,
}
