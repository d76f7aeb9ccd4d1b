//! Events: the facts that the supervisor decides on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::{
    Change, Classes, Excess, Exit, Fence, Fetched, JobId, JobState, Lease, Outcome, QueueName, QueueSet,
    Revocation, Settings, Stop, Waiting, WorkerId,
};

/// Something that happened outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The keeper made the child.
    Spawned(WorkerId),
    /// The keeper could not make the child: a line that says why.
    SpawnFailed(WorkerId, String),
    /// The worker takes jobs.
    Ready(WorkerId),
    /// The life has ended, and no process of its tree lives.
    Exited {
        /// The worker whose life ended.
        worker: WorkerId,
        /// How it ended.
        exit: Exit,
        /// Whether the keeper makes the next life by itself, by `Follow`: `Spawned` then `Ready`, or `SpawnFailed` come
        /// next.
        followed: bool,
    },
    /// The worker was killed and does not die; the text says why, for people.
    Stuck(WorkerId, String),
    /// The worker reports how a job ended. For a program the exit code gives the outcome; a program that died by a
    /// signal gives none.
    Finished {
        /// The worker that ran it.
        worker: WorkerId,
        /// The job that ended.
        job: JobId,
        /// The number of its lease.
        fence: Fence,
        /// How it ended.
        outcome: Outcome,
    },
    /// The worker broke the protocol and cannot be trusted any more. The line says how.
    Faulty(WorkerId, String),
    /// The job exceeds a limit. Of a worker that runs several jobs, the event names one of them.
    Exceeded {
        /// The worker that runs it.
        worker: WorkerId,
        /// The job that is over its limit.
        job: JobId,
        /// The number of its lease.
        fence: Fence,
        /// The limit, and the larger figure that was found.
        excess: Excess,
    },
    /// The first process of the worker was stopped by a signal when it was looked at.
    Stands {
        /// The worker whose process it is.
        worker: WorkerId,
        /// The time since the look before.
        stood: Duration,
        /// For how long it has stood in all; None = it goes on.
        since: Option<Duration>,
    },
    /// A worker or the template of the pool reports the classes that the pool's workers know.
    Knows(u16, Arc<Classes>),
    /// The answer to the pool's `AskWaiting`: whether jobs wait that it could take.
    Waiting(u16, bool),
    /// The answer to the pool's `Fetch`: at most as many as asked for.
    Fetched(u16, Vec<Fetched>),
    /// The answer to the pool's `Fetch` when it failed.
    FetchFailed(u16),
    /// A renewal was granted.
    Renewed(Lease),
    /// A renewal got no answer; the lease may still be ours.
    RenewFailed(JobId, Fence),
    /// We have lost the right to run the job.
    Revoked {
        /// The job that is lost.
        job: JobId,
        /// The number of the lost lease.
        fence: Fence,
        /// The reason of the loss.
        why: Revocation,
    },
    /// The answer to `Settle`: the verdict is durable, or was refused.
    Settled {
        /// The job that was settled.
        job: JobId,
        /// The number of its lease.
        fence: Fence,
        /// Its state now; `None` = the lease was not ours any more.
        became: Option<JobState>,
    },
    /// The answer to `Settle` when it failed: the supervisor sends the settlement again.
    SettleFailed(JobId, Fence),
    /// Jobs may be waiting in these queues: the pools that take from them fetch.
    Woken(QueueSet),
    /// The broker was asked for counts for another reason: the jobs that wait in each queue. A queue that is left out
    /// is empty.
    Counted(BTreeMap<QueueName, Waiting>),
    /// No job is left in these queues that could run here (only asked for in burst mode); the text names the jobs that
    /// are left all the same.
    Idle(Option<String>),
    /// Run by these settings from now on.
    Reload(Settings),
    /// A size rule gives the pool of this name another size, for now.
    Resized(String, u16),
    /// A person asks for this change of the pool, or of all pools.
    Change(Option<String>, Change),
    /// The worker has outgrown the size at which its pool recycles it.
    Outgrown(WorkerId),
    /// The worker says that it is to be replaced, and may end by itself: a line that says why.
    Leaving(WorkerId, String),
    /// Stop the whole service.
    Stop(Stop),
}
