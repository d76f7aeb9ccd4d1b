//! Counts of a queue's jobs, and its pause.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::format::{OldestWaitingAt, Since};
use super::{JobState, Millis, Today};

/// Jobs of one queue by state, and whether it is paused.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueCounts {
    /// Jobs in each state; a state without jobs is left out.
    pub jobs: BTreeMap<JobState, u64>,
    /// When the oldest waiting job was put.
    #[serde(flatten, with = "OldestWaitingAt::<Option<Millis>>")]
    pub oldest_waiting: Option<Millis>,
    /// Paused: since when, by whom, why.
    pub paused: Option<Pause>,
    /// How many of its jobs may run at a time, if that is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<u64>,
    /// Whether no pool takes jobs from it, of this supervisor or of another that shares the broker and lives. Only a
    /// supervisor can say: the store alone knows no pools.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unserved: bool,
    /// How its jobs have fared today, if any has.
    #[serde(default, skip_serializing_if = "Today::is_quiet")]
    pub today: Today,
}

impl QueueCounts {
    /// Number of its jobs that can run now or later.
    pub fn to_run(&self) -> u64 {
        let states = [JobState::Waiting, JobState::Delayed, JobState::Depends];
        states.iter().filter_map(|state| self.jobs.get(state)).sum()
    }
}

/// An order of a person about a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ordered {
    /// When it was given.
    #[serde(flatten, with = "Since::<Millis>")]
    pub since: Millis,
    /// The author of the order, e.g. `uid 1000`.
    pub by: String,
}

/// A pause of a queue or of a pool: nothing is fetched from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pause {
    /// When the pause began.
    #[serde(flatten, with = "Since::<Millis>")]
    pub since: Millis,
    /// The author of the request, e.g. `uid 1000`.
    pub by: String,
    /// Why, as given.
    pub reason: Option<String>,
}

impl Pause {
    /// The reason in words, to append to a sentence.
    pub fn because(&self) -> String {
        self.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default()
    }
}
