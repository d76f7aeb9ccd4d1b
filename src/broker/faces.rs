//! The optional faces of a broker. The card says which ones a broker has; a request for a missing one is refused with
//! what to do instead.

use async_trait::async_trait;
use tokio::sync::mpsc::UnboundedSender;

use super::Error;
use crate::EventBus;
use model::verb::{Answer, Verb};
use model::{Cursor, Fence, Filter, Instance, JobCounts, JobId, JobState, Millis, Page, Presence, WorkerId};

/// Knows which jobs a supervisor held when it died. Without this face leases expire by themselves.
#[async_trait]
pub trait Recovery: Send + Sync {
    /// Refuses if another living supervisor uses the name `instance`: its jobs are not ours to release.
    async fn admit(&self, _instance: &Instance) -> Result<(), Error> {
        Ok(())
    }

    /// Releases, unspent and counted as interrupted, the jobs that `instance` held when it died. It is called once at
    /// start, after the proof that no process of them runs. A job interrupted 5 times is held, or 3 times if it is the
    /// only one released: it ran alone. Jobs in `keep` are left for the caller to settle. A job that was `canceling`
    /// becomes canceled. Gives the number released.
    async fn recover(&self, instance: Instance, keep: Vec<(JobId, Fence)>) -> Result<u64, Error>;

    /// The jobs `instance` holds leases on, as (job, fence, worker).
    async fn held_by(&self, instance: Instance) -> Result<Vec<(JobId, Fence, WorkerId)>, Error>;
}

/// Carries out verbs. Lists, and failures of a filter, are made from pages for all brokers alike, and never come here.
#[async_trait]
pub trait Admin: Send + Sync {
    /// Carries out a verb. `by` says who asked, e.g. `uid 1000`, and goes into the history of changed jobs. Changes are
    /// durable before the answer. A job's history has each attempt, apart from those that completed and those released
    /// without a count.
    async fn ask(&self, verb: Verb, by: String) -> Result<Answer, Error>;
}

/// Lists jobs, and waits for their ends.
#[async_trait]
pub trait Browse: Send + Sync {
    /// The first page of a list, or the page at the cursor of the page before. A long list is made of short reads with
    /// other requests in between, so some jobs may leave meanwhile.
    async fn page(&self, filter: &Filter, at: Option<Cursor>) -> Result<Page, Error>;

    /// Counts on among the next jobs that a filter selects, the newest first, up to its limit, and says where to go
    /// on. None if it can do no better than read their pages.
    async fn tally(
        &self,
        _filter: &Filter,
        _at: Option<Cursor>,
        _counts: &JobCounts,
        _now: Millis,
    ) -> Result<Option<(JobCounts, Option<Cursor>)>, Error> {
        Ok(None)
    }

    /// How many tasks have ids that begin so and are in any of these states (none = in any), without reading their data.
    async fn count_tasks(&self, begins: &str, states: &[JobState]) -> Result<u64, Error>;

    /// Waits until the job has ended and gives its state. Cancel-safe.
    async fn ended(&self, id: JobId) -> Result<JobState, Error>;

    /// Sends the end of each of these jobs as it comes, or its error, until the receiver is gone.
    /// False if it cannot: then each is to be asked for by [`ended`](Browse::ended).
    async fn tell_ends(&self, _jobs: &[JobId], _told: &UnboundedSender<JobEnd>) -> Result<bool, Error> {
        Ok(false)
    }
}

/// A job, and how it has ended or why that cannot be said.
pub type JobEnd = (JobId, Result<JobState, Error>);

/// Publishes events of jobs.
#[async_trait]
pub trait Feed: Send + Sync {
    /// Publishes job events on `room` from now on, each once it is durable, while somebody is subscribed. The supervisor
    /// calls it once.
    fn publish(&self, room: EventBus);

    /// Resolves once every current subscriber will receive all later events, or a notice that some were lost. A new
    /// subscriber waits for it.
    async fn hear(&self) {}
}

/// Publishes the presence of the supervisors that share a broker.
#[async_trait]
pub trait Peers: Send + Sync {
    /// Publishes this supervisor's presence to the others, periodically, until `leave`.
    fn sign(&self, sign: Presence);

    /// Takes this supervisor off the list on a clean stop, so that the others do not report it as lost.
    async fn leave(&self) -> Result<(), Error>;

    /// This supervisor stops: it fetches no more, and what comes from now on goes back.
    fn stopping(&self) {}

    /// Whether no request is open that may yet bring jobs. `leave` waits for that, until the stop deadline.
    fn is_rested(&self) -> bool {
        true
    }
}
