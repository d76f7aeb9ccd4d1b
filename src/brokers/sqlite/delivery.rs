//! What a broker has delivered, and what is known of it.

use std::time::Duration;

use model::{Failure, Fence, Fetched, JobId, Lease, Millis, NewJob, QueueName};

/// A job as its broker gave it.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The job, with its id.
    pub job: NewJob,
    /// The right to run it. The fence is greater than that of every earlier delivery.
    pub lease: Lease,
    /// The broker's id of its message, which may be the id of the job, too; empty = it has none.
    pub message: String,
    /// Number of this delivery, as the broker counts; 1 is the first. A broker that gives handles counts also those
    /// that were no attempts.
    pub attempt: u32,
    /// When the job was put, if its broker says so.
    pub put_at: Option<Millis>,
    /// The broker's handle for this delivery.
    pub handle: String,
}

impl Delivery {
    /// A delivery of a broker that gives no handles, and in which the same id may come again as another job.
    pub fn of(job: NewJob, lease: Lease, attempt: u32) -> Delivery {
        Delivery { job, lease, message: String::new(), attempt, put_at: None, handle: String::new() }
    }
}

/// The ledger's answer for a delivery.
#[derive(Clone, Debug)]
pub enum Adopted {
    /// It is recorded, and runs.
    Runs(Fetched),
    /// It has ended already: the broker has delivered the same message once more.
    Ended,
    /// Too many supervisors died while it ran. The broker is to keep it for a person.
    Held(Failure),
}

/// How a job ended at another host or in the broker, by the broker's word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Elsewhere {
    /// It is complete, with this result as JSON; None = it has none, or one that is no JSON or too long.
    Complete {
        /// The result, as the broker keeps it.
        result: Option<String>,
    },
    /// It has failed, and is not tried again.
    Failed(Failure),
}

/// A job that waits, and how often its broker has delivered it, as far as this host knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The job that waits.
    pub job: JobId,
    /// How often it was delivered; other hosts may have had it since.
    pub times: u32,
}

/// The broker's handle for a delivery, kept for the next supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handle {
    /// The job that ran.
    pub job: JobId,
    /// The fence of the job's latest delivery.
    pub fence: Fence,
    /// The broker's handle for that delivery.
    pub handle: String,
    /// The queue from which the job came.
    pub queue: QueueName,
    /// Whether a person was answered that it would be canceled.
    pub is_canceling: bool,
    /// How long its lease lasts from now on.
    pub lasts: Duration,
}

/// A receive that waits for messages at the broker, which goes on to give them to it even if its supervisor dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenReceive {
    /// Latest time of its end.
    pub until: Millis,
    /// For how long its messages are hidden from the moment at which it gets them.
    pub lease: Duration,
}
