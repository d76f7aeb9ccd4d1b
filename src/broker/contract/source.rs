//! What every broker must be able to do: give jobs, extend leases, take verdicts and new jobs, and say what happens.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::Error;
use crate::model::{
    ClassFilter, Fence, Fetched, Instance, JobId, JobState, Lease, NewJob, Progress, QueueName, Revocation,
    Settlement, Take, WorkerId,
};

/// A place where jobs wait. Calls may overlap; each is one batch and one round trip where the broker allows. A call fails as a
/// whole only if nothing of it was done or nobody knows; else each entry has its own answer, in the order asked.
#[async_trait]
pub trait Source: Send + Sync {
    /// Takes at most one job for each of `workers`, from the queues as `take` says and as far as `filter` lets them through,
    /// and gives them in the order they were taken. Not durable: a lease lost with the power is a job that waits again.
    async fn fetch(&self, request: Fetch) -> Result<Vec<Fetched>, Error>;

    /// Extends leases, each to `by` from now.
    async fn renew(&self, leases: Vec<Lease>, by: Duration) -> Result<Vec<Renewal>, Error>;

    /// Applies verdicts. The answer comes when it is durable. A second settlement of the same lease is `Settling::NotOurs`.
    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settling>, Error>;

    /// Puts jobs and gives their ids when they are durable. A broker whose card says so puts all of them or none.
    async fn put(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<JobId, Error>>, Error>;

    /// Waits for the next thing the broker has to say on its own. Cancel-safe.
    async fn next_notice(&self) -> Notice;

    /// Whether the broker works. Answers at once, from what is already known.
    fn health(&self) -> Health {
        Health::default()
    }

    /// Notes how far running jobs have come; what is no lease any more is left alone. Not durable. The next attempt begins
    /// without. A broker that cannot show it forgets it.
    async fn progress(&self, _notes: Vec<(JobId, Fence, Progress)>) -> Result<(), Error> {
        Ok(())
    }
}

/// A request for jobs.
#[derive(Clone, Debug)]
pub struct Fetch {
    /// The owner of the leases.
    pub instance: Instance,
    /// The queues, in order.
    pub queues: Vec<QueueName>,
    /// How to go through them.
    pub take: Take,
    /// Which of their jobs.
    pub filter: ClassFilter,
    /// The name of the pool they are for.
    pub pool: Arc<str>,
    /// Who will run them: at most one each.
    pub workers: Vec<WorkerId>,
    /// Length of the leases.
    pub lease: Duration,
}

/// The answer to one renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The lease is extended.
    Renewed(Lease),
    /// Extended, and the job is being canceled: it is ours until its processes are proven dead.
    Canceling(Lease),
    /// Not ours any more.
    Lost(Revocation),
    /// This one could not be extended and is asked for again; others were.
    Failed(Error),
}

/// The answer to one settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settling {
    /// Applied, durably; what the job became, which may be another state than the verdict proposed: a job that is being
    /// canceled does not wait again. `Complete` also of a job that goes on in another queue.
    Settled(JobState),
    /// The lease was not ours any more; nothing was changed.
    NotOurs,
    /// This one could not be applied; the others were.
    Failed(Error),
}

/// What the broker says on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Jobs may be waiting.
    Wake,
    /// A lease of ours is lost.
    Revoked {
        /// The job that is lost.
        job: JobId,
        /// The number of the lost lease.
        fence: Fence,
        /// How it was lost.
        why: Revocation,
    },
}

/// How a broker is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// What keeps it from doing what it is asked, if anything.
    pub trouble: Option<String>,
    /// What somebody should see to, though it keeps the broker from nothing yet.
    pub concern: Option<String>,
    /// The size of all its files in bytes, where it has any on this machine.
    pub store_bytes: Option<u64>,
    /// The size of the store's write-ahead log in bytes, where there is one.
    pub wal_bytes: Option<u64>,
}
