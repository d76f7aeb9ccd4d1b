//! What the commands say: a page says it in the same words.

use model::{JobId, JobRecord, Millis, Why};

/// A line of a job's timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// When it happened.
    pub at: Millis,
    /// What happened then.
    pub what: String,
    /// More about it, a line each.
    pub below: Vec<String>,
}

/// The sentences of the commands `job show` and `why`.
pub trait Words: Send + Sync + 'static {
    /// What happened to a job, in order.
    fn timeline(&self, job: &JobRecord) -> Vec<Line>;
    /// Why a job is in its state. `has_supervisor` says whether one has answered.
    fn why_job(&self, id: &JobId, why: &Why, has_supervisor: bool) -> Vec<String>;
    /// Why a pool is as it is.
    fn why_pool(&self, why: &Why) -> Vec<String>;
    /// Why a slot is as it is.
    fn why_slot(&self, slot: &str, why: &Why) -> Vec<String>;
}
