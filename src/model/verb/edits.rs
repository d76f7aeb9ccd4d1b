//! Verbs that change a job.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::format::JsonText;
use crate::{Bytes, Fence, JobId};

/// Has a job wait for others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DependOn {
    /// The job's id.
    pub job: JobId,
    /// Ids of further jobs that it needs.
    pub jobs: Vec<JobId>,
}

/// Has a job wait for others no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DependOff {
    /// The job's id.
    pub job: JobId,
    /// Ids of jobs that it needs no more; left out = all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<Vec<JobId>>,
}

/// Gives a job another priority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Prioritize {
    /// The job's id.
    pub job: JobId,
    /// Higher runs first.
    pub priority: i32,
}

/// Gives a job other data while it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetData {
    /// The job's id.
    pub job: JobId,
    /// The fence of its lease, the proof of the right to run it.
    pub fence: Fence,
    /// The new data of the job.
    #[serde(with = "JsonText")]
    pub data: Bytes,
}

/// Adds tags to a job and removes others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tag {
    /// The job's id.
    pub job: JobId,
    /// Tags to add.
    #[serde(default)]
    pub add: Vec<String>,
    /// Tags to remove.
    #[serde(default)]
    pub remove: Vec<String>,
}

impl Tag {
    /// The tags that a job with `before` has then, in the order in which it got them.
    pub fn applied(&self, before: &[String]) -> Vec<String> {
        let is_new = |(n, tag): &(usize, &String)| !before.contains(tag) && !self.add[..*n].contains(tag);
        let added = self.add.iter().enumerate().filter(is_new).map(|(_, tag)| tag);
        before.iter().chain(added).filter(|tag| !self.remove.contains(tag)).cloned().collect()
    }
}

/// Follows a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Track {
    /// The job's id.
    pub job: JobId,
}

/// Follows a job no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Untrack {
    /// The job's id.
    pub job: JobId,
}

/// Forgets a job that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Discard {
    /// The job's id.
    pub job: JobId,
}
