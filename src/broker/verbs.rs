//! Verbs by name, for whoever holds a broker.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::{Broker, Error};
use crate::model::verb::{Cancel, Each, Fate, Get, Pause, Queues, Resume, Retry, VerbRequest};
use crate::model::{Filter, JobId, JobRecord, JobState, QueueCounts, QueueName};

/// What every broker can be asked, with the types of each verb.
#[async_trait]
pub trait Verbs: Broker {
    /// Asks for one verb and gives its own answer.
    async fn tell<V: VerbRequest>(&self, verb: V, by: impl Into<String> + Send) -> Result<V::Answer, Error> {
        let answer = self.ask(verb.verb(), by.into()).await?;
        V::answer(answer).ok_or_else(|| Error::Failed("the broker answered something else".into()))
    }

    /// One job, whole.
    async fn get(&self, id: JobId) -> Result<Option<JobRecord>, Error> {
        match self.tell(Get { job: id }, "").await {
            Ok(job) => Ok(Some(job)),
            Err(Error::NoJob(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Jobs by filter, newest first, without payloads.
    async fn list(&self, filter: Filter) -> Result<Vec<JobRecord>, Error> {
        let mut page = self.page(&filter, None).await?;
        let mut jobs = page.jobs;
        while page.next.is_some() {
            page = self.page(&filter, page.next).await?;
            jobs.append(&mut page.jobs);
        }
        Ok(jobs)
    }

    /// All queues that exist, counted.
    async fn counts(&self) -> Result<BTreeMap<QueueName, QueueCounts>, Error> {
        self.tell(Queues {}, "").await
    }

    /// Ends a job; when it runs, its supervisor gets a [`Notice::Revoked`](super::Notice::Revoked).
    async fn cancel(&self, id: JobId, by: String) -> Result<JobState, Error> {
        let asked = Cancel { jobs: vec![id], dependents: false, reason: None };
        match self.tell(asked, by).await?.pop() {
            Some(Each { fate: Fate::State(state), .. }) => Ok(state),
            Some(Each { job, fate: Fate::Refused(why), .. }) => Err(Error::refused(job, why, "canceled")),
            None => Err(Error::Failed("the broker did not say what became of the job".into())),
        }
    }

    /// Puts an ended job back to waiting.
    async fn retry(&self, id: JobId, by: String) -> Result<(), Error> {
        self.tell(Retry { job: id }, by).await.map(drop)
    }

    /// Stops fetching from a queue.
    async fn pause(&self, queue: QueueName, by: String, reason: Option<String>) -> Result<(), Error> {
        self.tell(Pause { queue, reason }, by).await.map(drop)
    }

    /// Ends a pause.
    async fn resume(&self, queue: QueueName) -> Result<(), Error> {
        self.tell(Resume { queue }, "").await.map(drop)
    }
}

impl<B: Broker + ?Sized> Verbs for B {}
