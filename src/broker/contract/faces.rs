//! What a broker may be able to do besides. Each face is optional: the card says which there are, and who asks for what is
//! missing is refused with what to do instead.

use async_trait::async_trait;

use super::Error;
use crate::broker::EventBus;
use crate::model::verb::{Answer, Verb};
use crate::model::{Cursor, Fence, Filter, Instance, JobId, JobState, Page, Presence, WorkerId};

/// Knows which jobs a supervisor held when it died. A broker without it gives them back when their leases run out.
#[async_trait]
pub trait Recovery: Send + Sync {
    /// Refuses if another living supervisor has the name `instance`: its jobs are not ours to release.
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
}

/// Does what people ask of jobs and queues. Lists, and failures of a filter, are made of pages for all brokers alike, and are
/// never asked here.
#[async_trait]
pub trait Admin: Send + Sync {
    /// Does it; `by` says who, e.g. `uid 1000`, and is kept in the history of what it changes. What changes something is
    /// durable when it is answered. A job's history has each attempt that ended other than complete or unspent and uncounted.
    async fn ask(&self, verb: Verb, by: String) -> Result<Answer, Error>;
}

/// Shows jobs, and waits for their ends.
#[async_trait]
pub trait Browse: Send + Sync {
    /// The first stretch of a list, or the one at the cursor that came with the stretch before: a list of any length is made
    /// of short looks, with other requests in between, and holds for jobs that go meanwhile.
    async fn page(&self, filter: &Filter, at: Option<Cursor>) -> Result<Page, Error>;

    /// How many tasks have ids that begin so and are in any of these states (none = in any), without reading their data.
    async fn count_tasks(&self, begins: &str, states: &[JobState]) -> Result<u64, Error>;

    /// Waits until the job has ended and says how. Cancel-safe.
    async fn ended(&self, id: JobId) -> Result<JobState, Error>;
}

/// Tells what happens to jobs.
#[async_trait]
pub trait Feed: Send + Sync {
    /// Publishes job events on `room` from now on, each once it is durable, while somebody is subscribed. The supervisor
    /// calls it once.
    fn publish(&self, room: EventBus);

    /// Resolves once every current subscriber will receive all later events, or a notice that some were lost. A new
    /// subscriber waits for it.
    async fn hear(&self) {}
}

/// Tells the supervisors that share a broker of one another.
#[async_trait]
pub trait Peers: Send + Sync {
    /// Publishes this supervisor's presence to the others, periodically, until `leave`.
    fn sign(&self, sign: Presence);

    /// Takes this supervisor off the list on a clean stop, so that the others do not report it as lost.
    async fn leave(&self) -> Result<(), Error>;
}
