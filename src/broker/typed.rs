//! Verbs of a broker with their own types.

use std::collections::BTreeMap;

use super::{Broker, Error};
use model::verb::{Cancel, Each, Fate, Get, Pause, Queues, Resume, Retry, VerbRequest};
use model::{Filter, JobId, JobRecord, JobState, QueueCounts, QueueName};

impl Broker {
    /// Carries out one verb and gives its answer.
    pub async fn tell<V: VerbRequest>(&self, verb: V, by: impl Into<String>) -> Result<V::Answer, Error> {
        let answer = self.ask(verb.verb(), by.into()).await?;
        V::answer(answer).ok_or_else(|| Error::Failed("the broker answered something else".into()))
    }

    /// One job with all its fields.
    pub async fn get(&self, id: JobId) -> Result<Option<JobRecord>, Error> {
        match self.tell(Get { job: id }, "").await {
            Ok(job) => Ok(Some(job)),
            Err(Error::NoJob(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Jobs by filter, newest first, without payloads.
    pub async fn list(&self, filter: Filter) -> Result<Vec<JobRecord>, Error> {
        let mut page = self.page(&filter, None).await?;
        let mut jobs = page.jobs;
        while page.next.is_some() {
            page = self.page(&filter, page.next).await?;
            jobs.append(&mut page.jobs);
        }
        Ok(jobs)
    }

    /// Counts of all existing queues.
    pub async fn counts(&self) -> Result<BTreeMap<QueueName, QueueCounts>, Error> {
        self.tell(Queues {}, "").await
    }

    /// Cancels a job; if it runs, its supervisor gets a [`Notice::Revoked`](crate::Notice::Revoked).
    pub async fn cancel(&self, id: JobId, by: String) -> Result<JobState, Error> {
        let asked = Cancel { jobs: vec![id], dependents: false, reason: None };
        // One job was named, so there is one answer.
        match self.tell(asked, by).await?.pop() {
            Some(Each { fate: Fate::State(state), .. }) => Ok(state),
            Some(Each { job, fate: Fate::Refused(why), .. }) => Err(Error::refused(job, why, "canceled")),
            None => Err(Error::Failed("the broker did not say what became of the job".into())),
        }
    }

    /// Puts an ended job back to waiting.
    pub async fn retry(&self, id: JobId, by: String) -> Result<(), Error> {
        self.tell(Retry { job: id }, by).await.map(drop)
    }

    /// Stops fetching from a queue.
    pub async fn pause(&self, queue: QueueName, by: String, reason: Option<String>) -> Result<(), Error> {
        self.tell(Pause { queue, reason }, by).await.map(drop)
    }

    /// Ends a pause.
    pub async fn resume(&self, queue: QueueName) -> Result<(), Error> {
        self.tell(Resume { queue }, "").await.map(drop)
    }
}
