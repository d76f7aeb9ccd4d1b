//! A job on its way to a worker, and the lease on it.

use std::sync::Arc;
use std::time::Duration;

use super::{Class, Fence, Instant, JobId, Payload, QueueName, Retry};

/// A job as it is handed to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The job's id.
    pub id: JobId,
    /// The queue it was fetched from.
    pub queue: QueueName,
    /// The class of the job, which names the code that runs it.
    pub class: Class,
    /// The program to run, or the data for a worker.
    pub payload: Payload,
    /// Higher runs first.
    pub priority: i32,
    /// Tags of the job: free words.
    pub tags: Vec<String>,
    /// Which attempt this is, starting at 1. An unspent attempt is counted again.
    pub attempt: u32,
    /// How often a worker died under it.
    pub crashes: u32,
    /// How often the supervisor or its host died, or the lease ended, while it ran.
    pub interrupted: u32,
    /// How often no worker knew its class.
    pub unknown: u32,
    /// The retry policy; None = that of the pool.
    pub retry: Option<Retry>,
    /// Time limit of this attempt; None = that of the pool.
    pub time_limit: Option<Duration>,
}

/// A lease: our right to run a job, until `expires_at`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The id of the job.
    pub job: JobId,
    /// The number of the lease, which proves it.
    pub fence: Fence,
    /// End of the lease on our clock, counted from the moment at which the request was *sent*.
    pub expires_at: Instant,
}

/// A job with its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The job to run.
    pub job: Arc<Job>,
    /// The lease on it.
    pub lease: Lease,
    /// How long it had waited since it could have run; None if the broker does not say.
    pub waited: Option<Duration>,
}
