//! The broker's contract, call by call.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::oneshot;

use super::call::Kind;
use super::handle::Sqlite;
use super::{admin, lease, put, read, settle};
use crate::broker::{Broker, Capabilities, Error, Fetch, Notice, Renewal, Settling};
use crate::model::{
    Fence, Fetched, Filter, Instance, JobId, JobRecord, JobState, Lease, NewJob, Progress, QueueCounts,
    QueueName, Settlement, Verdict, WorkerId,
};

#[async_trait]
impl Broker for Sqlite {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            revocations: true,
            longest_lease: Duration::from_secs(365 * 24 * 3600),
            batch: 1000,
            cancel: true,
            priorities: true,
            release_unspent: true,
        }
    }

    async fn fetch(&self, request: Fetch) -> Result<Vec<Fetched>, Error> {
        let now = self.now();
        self.ask(Kind::Fetch, move |store| lease::fetch(store, &request, now)).await
    }

    async fn renew(&self, leases: Vec<Lease>, by: Duration) -> Result<Vec<Renewal>, Error> {
        let now = self.now();
        self.ask(Kind::Lease, move |store| lease::renew(store, &leases, by, now)).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settling>, Error> {
        let now = self.now();
        // A person waits for the answer to a cancel.
        let is_awaited = settlements.iter().any(|one| one.verdict == Verdict::Canceled);
        let kind = if is_awaited { Kind::Durable } else { Kind::Settle };
        self.ask(kind, move |store| settle::settle(store, &settlements, now)).await
    }

    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<JobId>, Error> {
        let now = self.now();
        self.ask(Kind::Durable, move |store| put::enqueue(store, &jobs, now)).await
    }

    async fn progress(&self, notes: Vec<(JobId, Fence, Progress)>) -> Result<(), Error> {
        self.ask(Kind::Lease, move |store| lease::progress(store, &notes)).await
    }

    async fn next_notice(&self) -> Notice {
        self.notices.next().await
    }

    async fn recover(&self, instance: Instance, keep: Vec<(JobId, Fence)>) -> Result<u64, Error> {
        let now = self.now();
        self.ask(Kind::Durable, move |store| admin::recover(store, &instance, &keep, now)).await
    }

    async fn held_by(&self, instance: Instance) -> Result<Vec<(JobId, Fence, WorkerId)>, Error> {
        self.ask(Kind::Read, move |store| admin::held_by(store, &instance)).await
    }

    fn trouble(&self) -> Option<String> {
        self.notices.trouble()
    }

    async fn get(&self, id: JobId) -> Result<Option<JobRecord>, Error> {
        self.ask(Kind::Read, move |store| read::get(store, &id)).await
    }

    /// Page by page, with other requests in between: a list of a million jobs delays no fetch.
    async fn list(&self, filter: Filter) -> Result<Vec<JobRecord>, Error> {
        let limit = filter.limit as usize;
        let from = filter.clone();
        let start = self.ask(Kind::Read, move |store| read::start(store, &from)).await?;
        let states: Vec<_> = match filter.states.is_empty() {
            true => vec![None],
            false => filter.states.iter().copied().map(Some).collect(),
        };
        let mut jobs = Vec::new();
        for state in states {
            let mut before = Some(start);
            let mut found = Vec::new();
            while let Some(at) = before.filter(|_| found.len() < limit) {
                let filter = filter.clone();
                let page = self.ask(Kind::Read, move |store| read::page(store, &filter, state, at)).await?;
                before = page.before;
                found.extend(page.jobs);
            }
            jobs.extend(found);
        }
        jobs.sort_by_key(|(place, _)| std::cmp::Reverse(*place));
        jobs.dedup_by_key(|(place, _)| *place);
        jobs.truncate(limit);
        Ok(jobs.into_iter().map(|(_, job)| job).collect())
    }

    async fn before(&self, id: JobId) -> Result<u64, Error> {
        self.ask(Kind::Read, move |store| read::before(store, &id)).await
    }

    async fn counts(&self) -> Result<BTreeMap<QueueName, QueueCounts>, Error> {
        self.ask(Kind::Read, read::counts).await
    }

    async fn cancel(&self, id: JobId, by: String) -> Result<JobState, Error> {
        let now = self.now();
        self.ask(Kind::Durable, move |store| admin::cancel(store, &id, &by, now)).await
    }

    async fn retry(&self, id: JobId, by: String) -> Result<(), Error> {
        let now = self.now();
        self.ask(Kind::Durable, move |store| admin::retry(store, &id, &by, now)).await
    }

    async fn pause(&self, queue: QueueName, by: String, reason: Option<String>) -> Result<(), Error> {
        let now = self.now();
        self.ask(Kind::Durable, move |store| admin::pause(store, &queue, &by, reason.as_deref(), now)).await
    }

    async fn resume(&self, queue: QueueName) -> Result<(), Error> {
        self.ask(Kind::Durable, move |store| admin::resume(store, &queue)).await
    }

    async fn ended(&self, id: JobId) -> Result<JobState, Error> {
        let (waiter, told) = oneshot::channel();
        let mut waiter = Some(waiter);
        // A person waits for this, too.
        match self.ask(Kind::Durable, move |store| admin::ended(store, &id, &mut waiter)).await? {
            Some(state) => Ok(state),
            None => told.await.unwrap_or_else(|_| Err(Error::Failed("the store is closed".into()))),
        }
    }
}
