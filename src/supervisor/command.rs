//! Commands: what the supervisor orders the rest of the process to do.

use std::sync::Arc;
use std::time::Duration;

use model::{
    Class, ClassFilter, Fence, Follow, Instant, Job, JobId, Lease, Limits, PoolSettings, QueueName,
    Settlement, Signal, Take, WorkerId,
};

/// An order to the engine. Each variant names the events that answer it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Make a worker: `Spawned` then `Ready`, or `SpawnFailed`.
    Spawn(WorkerId),
    /// Have the template (the second id) fork a worker of its pool: answered as `Spawn` is.
    Fork(WorkerId, WorkerId),
    /// Hand the job to the worker: `Finished` or `Exited` or both, and before them perhaps `Exceeded`.
    Assign {
        /// The worker that is to run it.
        worker: WorkerId,
        /// The job to run.
        job: Arc<Job>,
        /// The number of its lease.
        fence: Fence,
        /// Limits of this attempt.
        limits: Limits,
        /// How often the job may be retried.
        retries: u32,
    },
    /// Cancel one job of a worker that runs several: `Finished` once it has really stopped.
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
    /// Set the self-fence: the keeper kills the worker by itself at that moment; None clears it. No answer.
    KillAt(WorkerId, Option<Instant>),
    /// When this life has ended, the keeper makes the next one of its slot by itself, and so on, up to the given number
    /// of lives. `Exited` says so; after that come the events of `Spawn`. The keeper gives each of them a self-fence,
    /// at a fixed time after it was made. A life that the supervisor signals has no follower.
    Follow(WorkerId, Follow),
    /// Take jobs: `Fetched` or `FetchFailed`. Each pool has at most one fetch under way.
    Fetch {
        /// The number of the pool that fetches.
        pool: u16,
        /// The queues in order.
        queues: Vec<QueueName>,
        /// In which order to take from the queues.
        take: Take,
        /// The classes to fetch.
        filter: ClassFilter,
        /// The workers that will take one job each, in that order; their number is the most jobs to fetch. A worker
        /// with room for several is listed several times.
        workers: Vec<WorkerId>,
    },
    /// Extend leases: `Renewed`, `RenewFailed` or `Revoked` for each.
    Renew(Vec<Lease>),
    /// Report how a job ended: `Settled` or `SettleFailed`.
    Settle(Settlement),
    /// Ask whether jobs are left in these queues, apart from jobs of these classes, which no worker here knows: `Idle`
    /// when none is (burst mode). No answer while some are left.
    AskIdle(Vec<QueueName>, Vec<Class>),
    /// A burst ends with jobs left: log it, and exit with a code that says so. No answer.
    GiveUp(GaveUp),
    /// Ask whether jobs wait in the queues of a pool that has no room: `Waiting`.
    AskWaiting(u16, Vec<QueueName>),
    /// From here on make the lives of this pool number by these settings. No answer.
    Equip(u16, Box<PoolSettings>),
    /// The lease of a job is lost, and nothing is settled: log it and forget the job. No answer.
    LeaseLost {
        /// The job that is not ours any more.
        job: JobId,
        /// The number of the lost lease.
        fence: Fence,
        /// The reason of the loss.
        why: &'static str,
    },
    /// A life ended unexpectedly: log it. No answer.
    Died {
        /// The life that ended.
        worker: WorkerId,
        /// Its end, in words.
        why: String,
        /// Whether the life ever took jobs.
        booted: bool,
        /// How long to wait before the next life is made; None = no other is wanted there.
        next: Option<Duration>,
        /// Jobs it ran.
        jobs: usize,
    },
    /// The supervisor exits before the broker has confirmed this verdict: log it. No answer.
    VerdictUnconfirmed {
        /// The job that has ended.
        job: JobId,
        /// The number of its lease.
        fence: Fence,
        /// The word for the verdict.
        verdict: &'static str,
    },
    /// The supervisor exits while a process of this worker lives: log it. No answer.
    LeftAlive {
        /// The worker that left a process.
        worker: WorkerId,
        /// Why the process does not die.
        cause: String,
        /// The jobs of the worker.
        jobs: Vec<JobId>,
    },
    /// The supervisor is done: no child lives and no verdict is unconfirmed, apart from those logged before. The last
    /// command.
    Exit,
}

/// Why a burst ends with jobs left; the text is for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GaveUp {
    /// The jobs that are left cannot run here: no worker boots, or none knows the class.
    Undone(String),
    /// The broker does not answer.
    NoBroker(String),
}
