//! Verbs about failures, and about many jobs at a time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::format::{MaybeTime, NewestAt};
use crate::{Class, JobId, JobState, Millis, QueueName};

/// Counts the jobs that failed or are held, by what their failure is called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Failed {
    /// Only jobs of this class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// Only jobs of this queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueName>,
    /// That ended at this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "MaybeTime")]
    pub since: Option<Millis>,
}

/// Jobs whose failures have one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailureGroup {
    /// The name: `exit 1`, `ValueError`.
    pub group: String,
    /// Number of failed jobs.
    pub failed: u64,
    /// Number of held jobs.
    pub held: u64,
    /// Time of the latest of these failures.
    #[serde(flatten, with = "NewestAt::<Millis>")]
    pub newest: Millis,
    /// Id of the newest job.
    pub job: JobId,
    /// The message of its failure.
    pub message: String,
}

/// Does something with all ended jobs that match, a stretch of them at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bulk {
    /// The action on the jobs.
    pub act: Act,
    /// In this state, one of those that jobs end in.
    pub state: JobState,
    /// Only jobs of this failure group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Only jobs of this class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// Only jobs of this queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueName>,
    /// That ended at this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "MaybeTime")]
    pub since: Option<Millis>,
    /// Limit of the jobs; those that were put first come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Change nothing; say what would be done.
    #[serde(default)]
    pub dry_run: bool,
    /// Where to go on: `next` of the answer before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<i64>,
}

impl Bulk {
    /// Why the request cannot be carried out; None if it can.
    pub fn fault(&self) -> Option<String> {
        let state = self.state;
        let why =
            || format!("jobs that are {state} cannot be retried or discarded: name a state that jobs end in");
        (!state.has_ended()).then(why)
    }
}

/// An action on many jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Put them back to waiting.
    Retry,
    /// Remove them with all that is kept of them.
    Discard,
}

/// The result for a stretch of jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "BulkAnswer")]
pub struct Swept {
    /// With how many it was done.
    pub count: u64,
    /// Number of jobs that stay because others depend on them.
    pub needed: u64,
    /// The first few of those it was done with.
    pub jobs: Vec<JobId>,
    /// How many stay because they cannot be read as jobs: dead letters of SQS.
    #[serde(default)]
    pub unread: u64,
    /// The dead-letter queues that they came from, where the broker has such.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<String>,
    /// Where to go on; absent when there are no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}
