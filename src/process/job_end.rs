//! The end of a job, as its process leaves it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use model::{Fence, Job, Outcome};

/// The end of a job in its process: the outcome, and what is left to see.
#[derive(Debug)]
pub struct JobEnd {
    /// The job that ended.
    pub job: Arc<Job>,
    /// The fence of its lease.
    pub fence: Fence,
    /// The reported outcome; None = none: a crash.
    pub outcome: Option<Outcome>,
    /// The last of its stderr.
    pub stderr_tail: String,
    /// Bytes of output that are not in the log.
    pub output_dropped: u64,
    /// Answers once the job's output is written, if it printed any, with the number of bytes that could not be written.
    pub written: Option<oneshot::Receiver<u64>>,
    /// Processes it left behind in a worker that lives on, in words.
    pub left: Vec<String>,
    /// CPU time that the job used, as its worker reports, or as is known of one that died under its first job.
    pub cpu: Option<Duration>,
    /// Whether it ran in a worker: what that process took is not the job's alone.
    pub in_worker: bool,
}

impl JobEnd {
    /// With what the end of its process says.
    pub(super) fn with(self, in_worker: bool, cpu: Option<Duration>) -> JobEnd {
        JobEnd { in_worker, cpu, ..self }
    }
}
