//! Commands: what the supervisor orders others to do.

use std::sync::Arc;
use std::time::Duration;

use crate::model::{
    Class, ClassFilter, Fence, Follow, Instant, Job, JobId, Lease, Limits, PoolSettings, QueueName,
    Settlement, Signal, Take, WorkerId,
};

/// Something to be done outside. Every order is answered by an event, as said with each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Make a worker: `Spawned` then `Ready`, or `SpawnFailed`.
    Spawn(WorkerId),
    /// Have the template of its pool make a worker: answered as `Spawn` is.
    Fork(WorkerId, WorkerId),
    /// Hand the job to the worker, and say what it may take and how often it is tried again: `Finished`, and/or `Exited`, and `Exceeded` before.
    Assign(WorkerId, Arc<Job>, Fence, Limits, u32),
    /// End one job of a worker that runs several: `Finished` once it has really stopped. The text says why.
    Cancel(WorkerId, JobId, &'static str),
    /// End the worker: `Exited`. The text says why, for logs.
    Signal(WorkerId, Signal, String),
    /// The self-fence: the keeper kills the worker at that moment by itself; None disarms. No answer.
    KillAt(WorkerId, Option<Instant>),
    /// When this life has ended, the keeper makes the next one of its slot by itself, and so on, so many lives in all:
    /// `Exited` says so, and then it is as after `Spawn`. Each is armed as by `KillAt`, so long after it was made. What the
    /// supervisor signals has no such follower.
    Follow(WorkerId, Follow),
    /// Take jobs: `Fetched` or `FetchFailed`. One for each pool is under way at a time.
    Fetch {
        /// For which pool.
        pool: u16,
        /// The queues in order.
        queues: Vec<QueueName>,
        /// How to go through them.
        take: Take,
        /// Which of their jobs.
        filter: ClassFilter,
        /// How many at most: the workers that will take one each, in the order they will. A worker with room for
        /// several is listed as often.
        workers: Vec<WorkerId>,
    },
    /// Extend leases: `Renewed`, `RenewFailed` or `Revoked` for each.
    Renew(Vec<Lease>),
    /// Report how a job ended: `Settled` or `SettleFailed`.
    Settle(Settlement),
    /// Whether anything is left to do in these queues, but for jobs of these classes, which no worker here knows: `Idle` when
    /// not (burst mode). No answer while there is.
    AskIdle(Vec<QueueName>, Vec<Class>),
    /// A burst ends though something is left to do: log it, and end with a code that says so. No answer.
    GiveUp(GaveUp),
    /// Whether jobs wait in the pool's queues, though it has no room: `Waiting`.
    AskWaiting(u16, Vec<QueueName>),
    /// From here on the lives of this pool number are made by these settings. No answer.
    Equip(u16, Box<PoolSettings>),
    /// A lease was lost with the job: log and drop. No answer.
    Dropped(JobId, Fence, &'static str),
    /// A life has ended other than as planned: log it. No answer.
    Died {
        /// The life that ended.
        worker: WorkerId,
        /// How, in words.
        why: String,
        /// Whether it had ever taken jobs.
        booted: bool,
        /// After which wait the next one is made; None = no other is wanted there.
        next: Option<Duration>,
        /// Jobs it ran.
        jobs: usize,
    },
    /// The end has come, and the broker is not known to have heard this verdict: log it. No answer.
    Untold(JobId, Fence, &'static str),
    /// The end has come, and something of this worker lives: why, and the jobs it has. Log it. No answer.
    LeftAlive(WorkerId, String, Vec<JobId>),
    /// No child lives but those that were said to be left alive, and nothing is unsettled that was not said to be: the supervisor is done. The last command.
    Exit,
}

/// Why a burst ends though something is left to do; the text is for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GaveUp {
    /// What is left cannot be done here: no worker comes up, or none knows it.
    Undone(String),
    /// The broker does not answer.
    NoBroker(String),
}
