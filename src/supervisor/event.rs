//! Facts in.

use crate::model::{Exit, Fence, Fetched, JobId, Lease, Outcome, Revocation, Stop, WorkerId};

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
    Exited(WorkerId, Exit),
    /// It was killed and does not die; the cause, for people.
    Stuck(WorkerId, String),
    /// The worker says how a job ended. For a program: its exit code is 0 or another one; a signal says nothing.
    Finished(WorkerId, JobId, Outcome),
    /// The answer to the pool's `Fetch`: at most as many as asked for.
    Fetched(u16, Vec<Fetched>),
    /// The other answer to the pool's `Fetch`.
    FetchFailed(u16),
    /// A renewal was granted.
    Renewed(Lease),
    /// A renewal got no answer; the lease may still be ours.
    RenewFailed(JobId, Fence),
    /// We have lost the right to run the job.
    Revoked(JobId, Fence, Revocation),
    /// The answer to `Settle`: it is durable, or it was not ours any more.
    Settled(JobId, Fence),
    /// The other answer to `Settle`: nothing is known to have changed; it is tried again.
    SettleFailed(JobId, Fence),
    /// Jobs may be waiting: fetch.
    Woken,
    /// The broker has nothing waiting, delayed or running in these queues (only asked for in burst mode).
    Idle,
    /// End.
    Stop(Stop),
}
