//! Answers to `why`: facts and the latest decisions, from which sentences are made.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::format::{MaybeSeconds, Seconds};
use super::json::Fits;
use super::{Class, Fit, JobId, JobRecord, PoolStatus, QueueCounts, QueueName, SlotName, Snapshot, Stop};

/// The subject of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A job, by its id.
    Job(JobId),
    /// A slot: `POOL.N`.
    Slot(String),
    /// A pool, by its name.
    Pool(String),
}

/// The facts about it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Why {
    /// The job, if it was asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobRecord>,
    /// If the job waits: how many of its queue come before it, counted up to 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// The slot, if one was asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<SlotName>,
    /// The pools concerned, and, for a job, what each of them makes of its class.
    #[serde(with = "Fits")]
    pub pools: Vec<(PoolStatus, Fit)>,
    /// The classes that the workers of these pools know, if none of them knows the job's, or if a pool was asked about;
    /// 100 at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<Class>,
    /// The queues concerned.
    pub queues: BTreeMap<QueueName, QueueCounts>,
    /// How long ago they were counted, if the broker did not do so when it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "MaybeSeconds")]
    pub queues_age: Option<Duration>,
    /// Stage of the stop, if it was ordered.
    pub stopping: Option<Stop>,
    /// What is wrong with the broker, if anything.
    pub broker_trouble: Option<String>,
    /// Concerns about a broker that works, as `reasons` of the status has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broker_concerns: Vec<String>,
    /// What its processes did before they were last ended for a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Snapshot>,
    /// The latest decisions about it, oldest first.
    pub decisions: Vec<Decision>,
}

impl Why {
    /// Limit of the classes in `known`.
    pub const KNOWN_MAX: usize = 100;
}

/// One decision, or the fact that led to one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    /// Age of the decision, in seconds.
    #[serde(with = "Seconds")]
    pub ago: Duration,
    /// The decision in words.
    pub what: String,
}
