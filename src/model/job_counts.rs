//! Counts of the jobs that a filter selects.

use std::collections::{BTreeMap, VecDeque};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::format::{EndedAt, PutAt};
use super::{Ends, JobId, JobRecord, JobState, Millis};

/// How many jobs a filter selects, and how far they are. They are counted from the newest on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobCounts {
    /// Number of jobs by their state.
    pub states: BTreeMap<JobState, u64>,
    /// Whether there are more, which were not counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// When the oldest of them was put.
    #[serde(flatten, with = "PutAt::<Option<Millis>>")]
    pub put_at: Option<Millis>,
    /// When the last of them ended.
    #[serde(flatten, with = "EndedAt::<Option<Millis>>")]
    pub ended_at: Option<Millis>,
    /// Number of those that ended within the last minute.
    #[serde(default)]
    pub ended_in_minute: u64,
    /// When they ended.
    #[serde(default, skip_serializing_if = "Ends::is_empty")]
    pub ends: Ends,
    /// Those that failed or are held, five at most: the first that were put.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub failures: VecDeque<FirstFailure>,
}

/// A job that failed or is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FirstFailure {
    /// Id of the job.
    pub job: JobId,
    /// Its failure group.
    pub group: String,
    /// The message of its failure, 300 bytes at most.
    pub message: String,
}

/// What is counted of a job.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// Its state now.
    pub state: JobState,
    /// When it was put.
    pub put_at: Millis,
    /// When it ended, if it did.
    pub ended_at: Option<Millis>,
}

impl Counted {
    /// Whether it failed or is held, and so is named.
    pub fn has_failed(&self) -> bool {
        matches!(self.state, JobState::Failed | JobState::Held)
    }
}

impl JobCounts {
    /// Limit of the jobs that are counted at a time.
    pub const MOST: u32 = 100_000;
    /// Number of failures that are named.
    pub const FAILURES: usize = 5;
    /// Longest message of a failure, in bytes.
    const MESSAGE: usize = 300;

    /// Counts one job more: an older one than those before. One that failed is then named by
    /// [`add_failure`](JobCounts::add_failure).
    pub fn add(&mut self, job: &Counted, now: Millis) {
        *self.states.entry(job.state).or_default() += 1;
        self.put_at = Some(self.put_at.map_or(job.put_at, |at| at.min(job.put_at)));
        if let Some(at) = job.ended_at.filter(|_| job.state.has_ended()) {
            self.ended_at = Some(self.ended_at.map_or(at, |last| last.max(at)));
            self.ended_in_minute += u64::from(at.0 > now.0 - 60_000);
            self.ends.add(at, job.state);
        }
    }

    /// Names a job that failed or is held: an older one than those before.
    pub fn add_failure(&mut self, job: &JobRecord) {
        let (group, message) = job.cause().map_or(("", ""), |why| (why.group.as_str(), why.message.as_str()));
        let message = message[..message.floor_char_boundary(JobCounts::MESSAGE)].to_owned();
        // Each is older than those before it, and the oldest are named: the newest makes room.
        self.failures.truncate(JobCounts::FAILURES - 1);
        self.failures.push_front(FirstFailure { job: job.id.clone(), group: group.into(), message });
    }

    /// Counts one job more by its record: an older one than those before.
    pub fn add_record(&mut self, job: &JobRecord, now: Millis) {
        let counted = Counted { state: job.state, put_at: job.put_at, ended_at: job.ended_at };
        self.add(&counted, now);
        if counted.has_failed() {
            self.add_failure(job);
        }
    }

    /// Number of all that were counted.
    pub fn count(&self) -> u64 {
        self.states.values().sum()
    }

    /// Number of those that have ended.
    pub fn ended(&self) -> u64 {
        self.states.iter().filter(|(state, _)| state.has_ended()).map(|(_, count)| count).sum()
    }

    /// Number of those that have ended, per second: over the last minute, or since the first was put.
    pub fn rate(&self, now: Millis) -> f64 {
        let since = self.put_at.map_or(0, |at| now.0.saturating_sub(at.0)).clamp(1_000, 60_000);
        self.ended_in_minute as f64 * 1000.0 / since as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn job(n: u32, state: &str, ended: Option<i64>) -> JobRecord {
        let mut job = json!({
            "id": format!("j{n}"), "queue": "mail", "class": "send", "state": state, "priority": 0, "tags": [],
            "attempt": 0, "crashes": 0, "interruptions": 0, "put_at_ms": 1000 - n, "fence": 0,
        });
        if let Some(ended) = ended {
            job["ended_at_ms"] = ended.into();
        }
        serde_json::from_value(job).unwrap()
    }

    #[test]
    fn jobs_are_counted_by_state_with_their_rate_and_first_failures() {
        let mut tally = JobCounts::default();
        let now = Millis(100_000);
        for n in 0..8 {
            tally.add_record(&job(n, "failed", Some(50_000 + i64::from(n))), now);
        }
        tally.add_record(&job(8, "complete", Some(30_000)), now);
        tally.add_record(&job(9, "waiting", None), now);
        assert_eq!((tally.count(), tally.ended(), tally.ended_in_minute), (10, 9, 8));
        assert_eq!((tally.put_at, tally.ended_at), (Some(Millis(991)), Some(Millis(50_007))));
        let first: Vec<&str> = tally.failures.iter().map(|failure| failure.job.as_str()).collect();
        assert_eq!(first, ["j7", "j6", "j5", "j4", "j3"]);
        assert_eq!((tally.rate(now) * 60.0).round() as u64, 8);
        assert_eq!(tally.rate(Millis(2_991)) as u64, 4, "since the first was put");
    }
}
