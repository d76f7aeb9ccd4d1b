//! Recurring jobs: a schedule, and the job that is put each time it is due.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::format::{DueAt, MissedAt, NextAt, PutAt, Seconds, ThenAt};
use super::object::object;
use super::{JobId, JobState, Millis, NewJob, Pause, Schedule};

/// A recurring job as it is put: a schedule, and the job that is put by it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recurring {
    /// The name of the recurring job; its jobs are NAME-1, NAME-2 and so on.
    pub name: String,
    /// When it is due.
    pub schedule: Schedule,
    /// When it is due and its latest job has not ended.
    #[serde(default)]
    pub overlap: Overlap,
    /// A missed occurrence is made up for within this time; one that is a minute late is not missed.
    #[serde(default, with = "Seconds")]
    pub catch_up: Duration,
    /// Limit of the occurrences put at a time, when several are due.
    #[serde(default = "one")]
    pub backlog: u32,
    /// The job that is put at each occurrence.
    #[serde(deserialize_with = "object")]
    pub job: NewJob,
}

fn one() -> u32 {
    1
}

/// The action on an occurrence while the latest job has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// The occurrence is left out.
    #[default]
    Skip,
    /// Its job is put all the same.
    Allow,
}

impl Overlap {
    /// The word people type and read.
    pub fn as_str(self) -> &'static str {
        match self {
            Overlap::Skip => "skip",
            Overlap::Allow => "allow",
        }
    }
}

impl std::str::FromStr for Overlap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Overlap::Skip, Overlap::Allow]
            .into_iter()
            .find(|overlap| overlap.as_str() == text)
            .ok_or_else(|| "it is skip or allow".into())
    }
}

impl Recurring {
    /// The longest name: with a number added it must be a valid id.
    pub const NAME_MAX: usize = 100;
    /// The longest time to catch up on.
    pub const CATCH_UP_MAX: Duration = Duration::from_secs(31 * 24 * 3600);
    /// Limit of the jobs put at a time.
    pub const BACKLOG_MAX: u32 = 1000;

    /// The error in it, apart from a time zone that may be unknown here.
    pub fn fault(&self) -> Option<String> {
        let job = &self.job;
        if !(1..=Self::NAME_MAX).contains(&self.name.len())
            || !self.name.bytes().all(|b| b.is_ascii_graphic())
        {
            return Some(format!("its name is 1 to {} visible ASCII characters", Self::NAME_MAX));
        }
        if self.catch_up > Self::CATCH_UP_MAX {
            return Some("31d is the longest time that is caught up with".into());
        }
        if !(1..=Self::BACKLOG_MAX).contains(&self.backlog) {
            return Some(format!("1 to {} jobs can be put at a time", Self::BACKLOG_MAX));
        }
        if job.id.is_some() || !job.delay.is_zero() || !job.depends.is_empty() {
            let why =
                "its jobs have ids made of its name, depend on nothing, and have no delay but its schedule";
            return Some(why.into());
        }
        if let Some(fault) = job.fault() {
            return Some(fault);
        }
        self.schedule.fault()
    }
}

/// What is known of a recurring job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecurringRecord {
    /// As it was put.
    pub recurring: Recurring,
    /// When it was put.
    #[serde(flatten, with = "PutAt::<Millis>")]
    pub put_at: Millis,
    /// By whom, e.g. `uid 1000`.
    pub put_by: String,
    /// When it is due next; none if never again.
    #[serde(flatten, with = "NextAt::<Option<Millis>>")]
    pub next_at: Option<Millis>,
    /// When it is due after that: the next few times. Left out in lists.
    #[serde(flatten, with = "ThenAt")]
    pub then_at: Vec<Millis>,
    /// How many jobs it has put, other recurring jobs of its name before it included.
    pub count: u64,
    /// How often it was due and the latest job had not ended.
    pub skipped: u64,
    /// What it missed last, and did not make up: nobody served the store, or the clock was put forward.
    #[serde(flatten, with = "MissedAt::<Option<Millis>>")]
    pub missed_at: Option<Millis>,
    /// Why it cannot be put although it is due: it is tried again all the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stuck: Option<String>,
    /// The latest job, if it is still known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest: Option<LatestJob>,
    /// Paused: since when, by whom. It stays due when it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
}

/// The latest job of a recurring job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LatestJob {
    /// The job's id.
    pub id: JobId,
    /// The job's state.
    pub state: JobState,
    /// When it was due.
    #[serde(flatten, with = "DueAt::<Millis>")]
    pub at: Millis,
}
