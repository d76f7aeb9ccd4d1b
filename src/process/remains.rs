//! What remains of a life that has ended.

use super::job_end::JobEnd;
use super::life::WorkerEvent;

/// What remains of a life that has ended.
#[derive(Debug, Default)]
pub struct Remains {
    /// Messages that it sent before its end and that were not read yet.
    pub words: Vec<WorkerEvent>,
    /// The ends of its jobs.
    pub jobs: Vec<JobEnd>,
    /// If it never took jobs: the end of its stderr, or why it did not start.
    pub stillborn: Option<String>,
    /// Number of processes that earlier jobs had left in it. Its last job did not leave them.
    pub earlier: u32,
}
