//! Events: the facts that the supervisor decides on.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{
    Change, Classes, Excess, Exit, Fence, Fetched, JobId, JobState, Lease, Outcome, QueueName, Revocation,
    Settings, Stop, Waiting, WorkerId,
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
    /// The life has ended, and nothing of its tree lives.
    Exited {
        /// Whose life it was.
        worker: WorkerId,
        /// How it ended.
        exit: Exit,
        /// Whether the keeper makes the next one by itself, by `Follow`: `Spawned` then `Ready`, or `SpawnFailed`.
        followed: bool,
    },
    /// It was killed and does not die; the cause, for people.
    Stuck(WorkerId, String),
    /// The worker says how a job ended. For a program: its exit code is 0 or another one; a signal says nothing.
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
    /// The worker broke the protocol: it cannot be trusted with anything any more. A line that says how.
    Faulty(WorkerId, String),
    /// The job has taken more than it may. What a worker with several jobs takes is told of one of them.
    Exceeded {
        /// The worker that runs it.
        worker: WorkerId,
        /// The job that is over its limit.
        job: JobId,
        /// The number of its lease.
        fence: Fence,
        /// Which limit, and by how much.
        excess: Excess,
    },
    /// The workers of the pool know these classes, says one of them or their template.
    Knows(u16, Arc<Classes>),
    /// The answer to the pool's `AskWaiting`: whether jobs wait that it could take.
    Waiting(u16, bool),
    /// The answer to the pool's `Fetch`: at most as many as asked for.
    Fetched(u16, Vec<Fetched>),
    /// The other answer to the pool's `Fetch`.
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
        /// How it was lost.
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
    /// The other answer to `Settle`: nothing is known to have changed; it is tried again.
    SettleFailed(JobId, Fence),
    /// Jobs may be waiting: fetch.
    Woken,
    /// The queues were counted for another reason: what waits in each. One that is left out is empty.
    Counted(BTreeMap<QueueName, Waiting>),
    /// The broker has nothing in these queues that could be done here (only asked for in burst mode); what is left all the
    /// same, in words.
    Idle(Option<String>),
    /// Keep up other pools from now on, or the same in another way.
    Reload(Settings),
    /// A rule of its settings gives the pool of this name another size, for now.
    Resized(String, u16),
    /// A person asks this of the pool, or of all.
    Change(Option<String>, Change),
    /// The worker has grown beyond the size at which its pool exchanges it.
    Outgrown(WorkerId),
    /// Stop the whole service.
    Stop(Stop),
}
