//! What every broker must do: give jobs, extend leases, take verdicts and new jobs, and send notices.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::Error;
use crate::Complaints;
use model::{
    ClassFilter, Fence, Fetched, Instance, JobId, JobState, Lease, NewJob, Progress, QueueName, QueueSet,
    Revocation, Settlement, Take, WorkerId,
};

/// A store in which jobs wait. Calls may overlap; each is one batch, and one round trip if the broker allows. A call
/// fails as a whole only if nothing of it was done, or if that is not known. Otherwise each entry has its own answer,
/// in the order of the request.
#[async_trait]
pub trait Source: Send + Sync {
    /// Takes at most one job for each of `workers` from the queues, in the order that `take` sets, and only jobs that
    /// `filter` allows. Gives them in the order taken. Not durable: if the power fails, a leased job waits again.
    async fn fetch(&self, request: Fetch) -> Result<Vec<Fetched>, Error>;

    /// Extends leases, each to `by` from now.
    async fn renew(&self, leases: Vec<Lease>, by: Duration) -> Result<Vec<Renewal>, Error>;

    /// Applies verdicts. The answer comes when it is durable. A second settlement of the same lease is `Settling::NotOurs`.
    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settling>, Error>;

    /// Puts jobs and gives their ids when they are durable. A broker whose card says so puts all of them or none.
    async fn put(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<JobId, Error>>, Error>;

    /// Waits for the next notice of the broker. Cancel-safe.
    async fn next_notice(&self) -> Notice;

    /// Current failures of the broker's background tasks. All clones share them.
    fn complaints(&self) -> Complaints {
        Complaints::default()
    }

    /// Whether the broker works. Answers at once, from what is already known.
    fn health(&self) -> Health {
        Health::default()
    }

    /// Stores the progress of running jobs; entries without a valid lease are ignored. Not durable, and cleared before
    /// the next attempt. A broker that cannot show progress drops it.
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
    /// The order in which to take from the queues.
    pub take: Take,
    /// The classes to fetch.
    pub filter: ClassFilter,
    /// The name of the pool that fetches.
    pub pool: Arc<str>,
    /// The workers that will run the jobs: at most one job each.
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
    /// This lease could not be extended, and is tried again; others were extended.
    Failed(Error),
}

/// The answer to one settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settling {
    /// Applied, durably. The state is that of the job now, perhaps not the one that the verdict proposed: a job that is
    /// being canceled does not wait again. It is `Complete` also for a job that goes on in another queue.
    Settled(JobState),
    /// Applied, and it was no job of its own: an order to run the callback of one. It counts as nothing.
    Aside,
    /// The lease was not ours any more; nothing was changed.
    NotOurs,
    /// This one could not be applied; the others were.
    Failed(Error),
}

impl Renewal {
    /// The answer of a script to the renewal of a lease, which holds to its new end if it was extended. A word that is
    /// not known proves no loss.
    pub fn read(lease: Lease, said: Option<&str>, refused: impl FnOnce(&str) -> Error) -> Renewal {
        match said {
            Some("renewed") => Renewal::Renewed(lease),
            // Its loss was reported; the lease stays ours until the end is settled.
            Some("canceling") => Renewal::Canceling(lease),
            Some("canceled") => Renewal::Lost(Revocation::Canceled),
            Some("lost") => Renewal::Lost(Revocation::LockLost),
            said => Renewal::Failed(refused(why(said.unwrap_or("no answer")))),
        }
    }
}

impl Settling {
    /// The answer of a script: `not_ours`, `aside`, or the state of the job now, or why this one was not settled.
    pub fn read(said: Option<&str>, refused: impl FnOnce(&str) -> Error) -> Settling {
        match said.map(|said| (said, said.parse())) {
            Some((_, Ok(state))) => Settling::Settled(state),
            Some(("not_ours", _)) => Settling::NotOurs,
            Some(("aside", _)) => Settling::Aside,
            said => Settling::Failed(refused(why(said.map_or("no answer", |(said, _)| said)))),
        }
    }
}

/// Why a script did not do something for one of several jobs: what stands behind `wrong: `.
fn why(said: &str) -> &str {
    said.strip_prefix("wrong: ").unwrap_or(said)
}

/// A notice that the broker sends on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Jobs may be waiting in these queues.
    Wake(QueueSet),
    /// A lease of ours is lost.
    Revoked {
        /// The job that is lost.
        job: JobId,
        /// The number of the lost lease.
        fence: Fence,
        /// The reason of the loss.
        why: Revocation,
    },
}

/// How well a broker works.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// The trouble that keeps the broker from its work, if any.
    pub trouble: Option<String>,
    /// A concern that does not keep the broker from its work yet.
    pub concern: Option<String>,
    /// The total size of its files in bytes, if it has any on this machine.
    pub store_bytes: Option<u64>,
    /// The size of the store's write-ahead log in bytes, where there is one.
    pub wal_bytes: Option<u64>,
}
