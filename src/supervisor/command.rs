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
    /// Hand the job to the worker: `Finished`, and/or `Exited`, and `Exceeded` before.
    Assign {
        /// The worker that is to run it.
        worker: WorkerId,
        /// The job to run.
        job: Arc<Job>,
        /// The number of its lease.
        fence: Fence,
        /// What this attempt may take.
        limits: Limits,
        /// How often the job is tried again.
        retries: u32,
    },
    /// End one job of a worker that runs several: `Finished` once it has really stopped.
    Cancel {
        /// The worker that runs it.
        worker: WorkerId,
        /// The job to end.
        job: JobId,
        /// The reason, for the worker and for logs.
        why: &'static str,
    },
    /// End the worker: `Exited`.
    Signal {
        /// The worker to end.
        worker: WorkerId,
        /// TERM goes to its process group, KILL to its whole tree.
        signal: Signal,
        /// The reason, for logs.
        why: String,
    },
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
    /// The lease of a job is lost, and nothing is settled: log it and forget the job. No answer.
    LeaseLost {
        /// The job that is not ours any more.
        job: JobId,
        /// The number of the lost lease.
        fence: Fence,
        /// How it was lost.
        why: &'static str,
    },
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
    /// The supervisor ends, and the broker has not confirmed this verdict: log it. No answer.
    VerdictUnconfirmed {
        /// The job that has ended.
        job: JobId,
        /// The number of its lease.
        fence: Fence,
        /// The word for the verdict.
        verdict: &'static str,
    },
    /// The supervisor ends, and something of this worker lives: log it. No answer.
    LeftAlive {
        /// The worker of which something lives.
        worker: WorkerId,
        /// Why it does not die.
        cause: String,
        /// The jobs it has.
        jobs: Vec<JobId>,
    },
    /// The supervisor is done: no child lives and no verdict is unconfirmed, but for those that were named before. The last
    /// command.
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
