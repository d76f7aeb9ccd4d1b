//! What every broker does.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Error, EventBus};
use crate::model::verb::{Answer, Verb};
use crate::model::{
    ClassFilter, Cursor, Fence, Fetched, Filter, Instance, JobId, JobState, Lease, NewJob, Page, Presence,
    Progress, QueueName, Revocation, Settlement, Take, WorkerId,
};

/// A place where jobs wait. Calls may overlap; each is one batch and one round trip where the broker allows.
#[async_trait]
pub trait Broker: Send + Sync {
    /// What this broker can do; the rest is refused with a clear error.
    fn capabilities(&self) -> Capabilities;

    /// Takes at most one job for each of `workers`, from the queues as `take` says and as far as `filter` lets them through,
    /// and gives them in the order they were taken. Not durable: a lease lost with the power is a job that waits again.
    async fn fetch(&self, request: Fetch) -> Result<Vec<Fetched>, Error>;

    /// Extends leases, answering each in order.
    async fn renew(&self, leases: Vec<Lease>, by: Duration) -> Result<Vec<Renewal>, Error>;

    /// Applies verdicts, answering each in order. The answer comes when it is durable. A second settlement of the same
    /// lease is `Settling::NotOurs`.
    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settling>, Error>;

    /// Puts jobs, all or none, and gives their ids when they are durable.
    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<JobId>, Error>;

    /// Waits for the next thing the broker has to say on its own. Cancel-safe.
    async fn next_notice(&self) -> Notice;

    /// Refused if somebody else goes by the name of `instance` and lives: what that one runs is not ours to release.
    async fn admit(&self, _instance: &Instance) -> Result<(), Error> {
        Ok(())
    }

    /// Releases, unspent and counted as interrupted, what `instance` held when it died: called once at start, after the
    /// proof that nothing of it runs. A job interrupted 5 times is held, or 3 times if it is the only one released: it ran
    /// alone. Jobs in `keep` are left for the caller to settle.
    /// A job that was `canceling` becomes canceled. Gives the number released.
    async fn recover(&self, instance: Instance, keep: Vec<(JobId, Fence)>) -> Result<u64, Error>;

    /// The jobs `instance` holds leases on, as (job, fence, worker).
    async fn held_by(&self, instance: Instance) -> Result<Vec<(JobId, Fence, WorkerId)>, Error>;

    /// Where to tell what happens to jobs, each once it is durable, while somebody listens there. Asked for once, by the
    /// supervisor.
    fn publish(&self, room: EventBus);

    /// Comes back when those who listen now are told all that happens from now on, or else that some of it is lost. Who
    /// begins to listen waits for it.
    async fn hear(&self);

    /// What this supervisor is from now on, for all who share the broker: it is told by and by, and again and again, until
    /// the supervisor leaves. Where nobody shares it nothing is told.
    fn sign(&self, _sign: Presence) {}

    /// This supervisor stops in order: nobody is to take it for dead.
    async fn leave(&self) -> Result<(), Error> {
        Ok(())
    }

    /// What keeps the broker from doing what it is asked, if anything. Answers at once.
    fn trouble(&self) -> Option<String>;

    /// What somebody should see to, though it keeps the broker from nothing yet. Answers at once.
    fn concern(&self) -> Option<String> {
        None
    }

    /// The size of the WAL, where there is one: what has not been brought into the main file, or was the largest of it.
    fn wal_bytes(&self) -> Option<u64> {
        None
    }

    /// The size of all its files, where it has any.
    fn store_bytes(&self) -> Option<u64> {
        None
    }

    /// Notes how far running jobs have come; what is no lease any more is left alone. Not durable. The next attempt begins
    /// without.
    async fn progress(&self, notes: Vec<(JobId, Fence, Progress)>) -> Result<(), Error>;

    /// Does what a person asks; `by` says who, e.g. `uid 1000`, and is kept in the history of what it changes. What
    /// changes something is durable when it is answered. A job's history has each attempt that ended other than complete
    /// or unspent and uncounted.
    async fn ask(&self, verb: Verb, by: String) -> Result<Answer, Error>;

    /// The first stretch of a list, or the one at the cursor that came with the stretch before: a list of any length is made
    /// of short looks, with other requests in between, and holds for jobs that go meanwhile.
    async fn page(&self, filter: &Filter, at: Option<Cursor>) -> Result<Page, Error>;

    /// Waits until the job has ended and says how. Cancel-safe.
    async fn ended(&self, id: JobId) -> Result<JobState, Error>;
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
    /// Extended.
    Renewed(Lease),
    /// Extended, and the job is being canceled: it is ours until its processes are proven dead.
    Canceling(Lease),
    /// Not ours any more.
    Lost(Revocation),
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
    Revoked(JobId, Fence, Revocation),
}

/// What a broker can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Tells us when a lease is lost.
    pub revocations: bool,
    /// The longest lease it grants.
    pub longest_lease: Duration,
    /// The largest batch.
    pub batch: usize,
    /// Can cancel a job.
    pub cancel: bool,
    /// Runs higher priority first.
    pub priorities: bool,
    /// Tells what other processes do with its jobs, too, and not only what this one does.
    pub news_of_all: bool,
    /// Supervisors of several hosts can share it.
    pub shared: bool,
    /// Can release a job without spending an attempt.
    pub release_unspent: bool,
}
