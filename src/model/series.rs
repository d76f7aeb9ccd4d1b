//! Series: what happened to jobs in each step of the last hour or the last day.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::format::{FromTime, MaybeTime, Now, Seconds};
use super::{Class, Millis, QueueName};

/// The query of `GET /v1/series`; without `queue`, `class` and `each` it is about all jobs together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SeriesQuery {
    /// Of the jobs of this queue, or of `others`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueName>,
    /// Of the jobs of this class, or of `others`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// Of each queue or of each class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub each: Option<SeriesBy>,
    /// The length of a step.
    #[serde(default)]
    pub step: SeriesStep,
    /// From this time on; else as far as the steps go back.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "MaybeTime")]
    pub since: Option<Millis>,
}

/// What a series is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SeriesBy {
    /// The jobs of a queue.
    Queue,
    /// The jobs of a class.
    Class,
}

/// The length of a step, and with it how far a series goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SeriesStep {
    /// Ten seconds, of the last hour.
    #[default]
    #[serde(rename = "10s")]
    TenSeconds,
    /// A minute, of the last day.
    #[serde(rename = "1m")]
    Minute,
}

impl SeriesStep {
    /// How long a step is.
    pub const fn length(self) -> Duration {
        match self {
            SeriesStep::TenSeconds => Duration::from_secs(10),
            SeriesStep::Minute => Duration::from_secs(60),
        }
    }

    /// Number of steps that are kept.
    pub fn kept(self) -> i64 {
        match self {
            SeriesStep::TenSeconds => 360,
            SeriesStep::Minute => 1_440,
        }
    }
}

/// The answer of `GET /v1/series`. All arrays are as long, one number for each step; the last step goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimeSeries {
    /// The length of a step.
    #[serde(with = "Seconds")]
    pub step: Duration,
    /// When the first step began.
    #[serde(flatten, with = "FromTime::<Millis>")]
    pub from: Millis,
    /// When it was read.
    #[serde(flatten, with = "Now::<Millis>")]
    pub now: Millis,
    /// The series; none if nothing has happened to jobs of that name.
    pub series: Vec<OneSeries>,
}

/// A series of this supervisor since its start; what has happened on other hosts is not in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OneSeries {
    /// The queue, if it is that of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueName>,
    /// The class, if it is that of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// Jobs that were put by way of this supervisor.
    pub put: Vec<u32>,
    /// Attempts that began.
    pub begun: Vec<u32>,
    /// Attempts that completed their jobs.
    pub complete: Vec<u32>,
    /// Attempts that failed, with or without a retry.
    pub failed: Vec<u32>,
    /// Half of the jobs that began had waited no longer, in seconds; null if none began, or if the broker does not say.
    pub wait_p50: Vec<Option<f64>>,
    /// 95 % of them had waited no longer.
    pub wait_p95: Vec<Option<f64>>,
    /// Half of the attempts that ended had run no longer, in seconds.
    pub run_p50: Vec<Option<f64>>,
    /// 95 % of them had run no longer.
    pub run_p95: Vec<Option<f64>>,
    /// Jobs that waited when the queues were counted last, on all hosts; null for classes, and before the first count.
    pub waiting: Vec<Option<u32>>,
    /// Most jobs that ran at once.
    pub busy: Vec<u32>,
}
