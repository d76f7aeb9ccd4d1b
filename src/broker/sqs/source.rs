//! SQS as a source of jobs. SQS is the truth about who may run; the ledger has the history.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinHandle;

use super::buffer::Buffered;
use super::client::{Client, JOB, Outgoing};
use super::fault::Fault;
use super::queue::Queue;
use super::shared::{DELAY_MAX, Dead, Held, LONGEST, Shared, SourceQueue, lock};
use super::{body::Bodies, poll};
use crate::broker::ledger::{Adopted, Delivery, Ledger};
use crate::broker::{Error, Fetch, Health, Notice, Renewal, Settling, Source};
use crate::clock;
use crate::model::{
    Failure, Fence, Fetched, JobId, JobState, Lease, NewJob, Progress, Revocation, Settlement, Verdict,
    WorkerId,
};
use crate::select::Turns;

/// Amazon SQS.
pub struct Sqs {
    pub(super) shared: Arc<Shared>,
    polls: std::sync::Mutex<Vec<JoinHandle<()>>>,
}

impl Sqs {
    pub(super) fn new(client: Client, bodies: Bodies, ledger: Ledger) -> Sqs {
        Sqs { shared: Shared::new(client, bodies, ledger), polls: Default::default() }
    }

    /// A queue that is polled from now on.
    fn source(&self, name: &crate::model::QueueName) -> Arc<SourceQueue> {
        self.shared.source(name, |source| {
            lock(&self.polls).push(tokio::spawn(poll::poll(self.shared.clone(), source)));
        })
    }

    /// No poll goes on; what waits in buffers goes back.
    pub(super) async fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        lock(&self.polls).drain(..).for_each(|poll| poll.abort());
        for source in self.shared.sources() {
            let waiting = lock(&source.buffer).drain();
            let back = waiting.iter().map(|one| {
                let (queue, handle) = (source.queue.clone(), one.message.handle.clone());
                tokio::spawn(async move { queue.hide(&handle, Duration::ZERO).await })
            });
            for done in back.collect::<Vec<_>>() {
                done.await.ok();
            }
        }
    }
}

impl Drop for Sqs {
    fn drop(&mut self) {
        lock(&self.polls).drain(..).for_each(|poll| poll.abort());
    }
}

#[async_trait]
impl Source for Sqs {
    async fn fetch(&self, request: Fetch) -> Result<Vec<Fetched>, Error> {
        let sources: Vec<Arc<SourceQueue>> = request.queues.iter().map(|name| self.source(name)).collect();
        let mut workers = request.workers.iter().copied();
        let mut given = Vec::new();
        let mut counts = vec![0; sources.len()];
        let mut turns = Turns::new(request.take, 0..sources.len());
        while workers.len() > 0
            && let Some(&at) = turns.queue()
        {
            let runs = |job: &JobId| self.shared.runs(job);
            match lock(&sources[at].buffer).take(&request.filter, runs) {
                Some(one) => {
                    counts[at] += 1;
                    given.extend(workers.next().map(|worker| (sources[at].clone(), one, worker)));
                    turns.gave();
                }
                None => turns.had_none(),
            }
        }
        let now = clock::now();
        for (source, count) in sources.iter().zip(counts) {
            lock(&source.wanted).took(count, workers.len(), request.lease.min(LONGEST), now);
            source.wants.notify_one();
        }
        Ok(self.adopt(&request, given).await)
    }

    async fn renew(&self, leases: Vec<Lease>, by: Duration) -> Result<Vec<Renewal>, Error> {
        let now = clock::now();
        let asked: Vec<_> = leases
            .iter()
            .map(|lease| {
                let held = self.shared.held(&lease.job, lease.fence);
                let shared = self.shared.clone();
                tokio::spawn(async move { hide_for(&shared, held, by).await })
            })
            .collect();
        let noted = self.shared.ledger.renew(leases.clone(), by).await;
        let mut renewals = Vec::with_capacity(leases.len());
        for ((lease, asked), noted) in leases.into_iter().zip(asked).zip(noted) {
            let lease = Lease { expires_at: now + by, ..lease };
            renewals.push(match asked.await {
                Ok(Ok(())) if matches!(noted, Some(Renewal::Canceling(_))) => Renewal::Canceling(lease),
                Ok(Ok(())) => Renewal::Renewed(lease),
                Ok(Err(Fault::NotOurs | Fault::NoQueue)) => {
                    self.shared.let_go(&lease.job, false);
                    Renewal::Lost(Revocation::LockLost)
                }
                Ok(Err(fault)) => Renewal::Failed(fault.error("renew a message of", "")),
                Err(error) => Renewal::Failed(Error::Failed(error.to_string())),
            });
        }
        Ok(renewals)
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settling>, Error> {
        let asked: Vec<_> = settlements
            .iter()
            .map(|settlement| {
                let (shared, settlement) = (self.shared.clone(), settlement.clone());
                tokio::spawn(async move { settle(&shared, &settlement).await })
            })
            .collect();
        let (mut answers, mut ended) = (Vec::with_capacity(asked.len()), Vec::new());
        for (settlement, asked) in settlements.into_iter().zip(asked) {
            let answer =
                asked.await.unwrap_or_else(|error| Settling::Failed(Error::Failed(error.to_string())));
            if let Settling::Settled(state) = &answer {
                self.shared.let_go(&settlement.job, is_deleted(*state));
                ended.push(settlement);
            } else if answer == Settling::NotOurs {
                self.shared.let_go(&settlement.job, false);
            }
            answers.push(answer);
        }
        self.shared.ledger.settle(ended).await;
        Ok(answers)
    }

    async fn put(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<JobId, Error>>, Error> {
        let asked: Vec<_> = jobs
            .into_iter()
            .map(|job| {
                let body = self.shared.bodies.write(&job);
                let queue = self.shared.queue(&self.shared.client.place.name(job.queue.as_str()));
                tokio::spawn(async move { put(&queue, job, body?).await })
            })
            .collect();
        let mut answers = Vec::with_capacity(asked.len());
        for asked in asked {
            answers.push(asked.await.unwrap_or_else(|error| Err(Error::Failed(error.to_string()))));
        }
        Ok(answers)
    }

    async fn next_notice(&self) -> Notice {
        let notice = self.shared.ledger.next_notice().await;
        // Nobody settles what is lost: when the message comes again it is another delivery.
        if let Notice::Revoked(job, fence, Revocation::LockLost) = &notice
            && self.shared.held(job, *fence).is_some()
        {
            self.shared.let_go(job, false);
        }
        notice
    }

    fn health(&self) -> Health {
        let troubles: Vec<String> =
            self.shared.sources().iter().filter_map(|source| lock(&source.trouble).clone()).collect();
        Health {
            trouble: (!troubles.is_empty()).then(|| troubles.join("; ")),
            concern: self.shared.ledger.concern(),
            ..self.shared.ledger.health()
        }
    }

    async fn progress(&self, notes: Vec<(JobId, Fence, Progress)>) -> Result<(), Error> {
        self.shared.ledger.progress(notes).await;
        Ok(())
    }
}

impl Sqs {
    /// Writes down what was taken, and gives what is to run.
    async fn adopt(
        &self,
        request: &Fetch,
        given: Vec<(Arc<SourceQueue>, Buffered, WorkerId)>,
    ) -> Vec<Fetched> {
        if given.is_empty() {
            return Vec::new();
        }
        let mut deliveries = Vec::with_capacity(given.len());
        for (source, one, worker) in &given {
            let fence = self.shared.next_fence();
            let held = Held {
                message: one.message.id.clone(),
                fence,
                handle: one.message.handle.clone(),
                source: source.name.clone(),
                group: one.message.group.clone(),
                body: Some(one.message.body.as_str().into()),
                next_body: None,
                attempt: one.message.received,
                received_at: one.since,
            };
            self.shared.hold(one.message.job.as_str().into(), held);
            let (job, attempt) = (one.read.job.clone(), one.message.received);
            deliveries.push((Delivery { job, fence, attempt, handle: one.message.handle.clone() }, *worker));
        }
        let adopted = self.shared.ledger.adopt(request, deliveries).await;
        let mut fetched = Vec::with_capacity(adopted.len());
        for (adopted, (source, one, _)) in adopted.into_iter().zip(given) {
            match adopted {
                Adopted::Runs(job) => fetched.push(job),
                // SQS has given it a second time, which it may.
                Adopted::Complete => {
                    self.shared.let_go(&one.message.job.as_str().into(), true);
                    tokio::spawn(async move { source.queue.delete(&one.message.handle).await.ok() });
                }
            }
        }
        fetched
    }
}

async fn hide_for(shared: &Shared, held: Option<Held>, time: Duration) -> Result<(), Fault> {
    let held = held.ok_or(Fault::NotOurs)?;
    let time = time.min(held.room(clock::now()));
    if time.is_zero() {
        return Err(Fault::NotOurs);
    }
    let queue = shared.queue(&shared.client.place.name(held.source.as_str()));
    queue.hide(&held.handle, time).await.map(drop)
}

/// Whether a job that is in this state now has no message any more.
fn is_deleted(state: JobState) -> bool {
    match state {
        JobState::Complete | JobState::Failed | JobState::Held | JobState::Canceled => true,
        JobState::Waiting
        | JobState::Delayed
        | JobState::Depends
        | JobState::Running
        | JobState::Canceling => false,
    }
}

async fn settle(shared: &Arc<Shared>, settlement: &Settlement) -> Settling {
    let Some(held) = shared.held(&settlement.job, settlement.fence) else { return Settling::NotOurs };
    let queue = shared.queue(&shared.client.place.name(held.source.as_str()));
    let later = |after: Duration| after.min(held.room(clock::now()));
    let done = match &settlement.verdict {
        Verdict::Complete { next: Some(next), .. } => match go_on(shared, &held, next).await {
            Ok(()) => queue.delete(&held.handle).await.map(|_| JobState::Complete),
            Err(fault) => Err(fault),
        },
        Verdict::Complete { next: None, .. } => queue.delete(&held.handle).await.map(|_| JobState::Complete),
        Verdict::Canceled => queue.delete(&held.handle).await.map(|_| JobState::Canceled),
        Verdict::Retry { after, .. } | Verdict::Release { after, .. } => {
            let state = if after.is_zero() { JobState::Waiting } else { JobState::Delayed };
            let waits = match &held.next_body {
                None => queue.hide(&held.handle, later(*after)).await.map(drop),
                Some(body) => replace(&queue, settlement, &held, body, *after).await,
            };
            waits.map(|()| state)
        }
        Verdict::Fail { failure } => {
            bury(shared, settlement, &held, failure).await.map(|()| JobState::Failed)
        }
        Verdict::Hold { failure } => bury(shared, settlement, &held, failure).await.map(|()| JobState::Held),
    };
    match done {
        Ok(state) => Settling::Settled(state),
        Err(Fault::NotOurs | Fault::NoQueue) => Settling::NotOurs,
        Err(fault) => Settling::Failed(fault.error("settle a message of", &queue.name)),
    }
}

/// Sends the job as a new message, and then deletes the old one: between the two it is there twice, and never not at all.
async fn replace(
    queue: &Queue,
    settlement: &Settlement,
    held: &Held,
    body: &str,
    after: Duration,
) -> Result<(), Fault> {
    let is_fifo = queue.name.ends_with(".fifo");
    let outgoing = Outgoing {
        body: body.to_owned(),
        delay: if is_fifo { Duration::ZERO } else { after.min(DELAY_MAX) },
        group: held.group.clone(),
        once: is_fifo.then(|| uuid::Uuid::now_v7().simple().to_string()),
        notes: vec![(JOB, settlement.job.to_string())],
    };
    queue.send(&outgoing).await?;
    queue.delete(&held.handle).await.map(drop)
}

/// The dead letters have it before the queue loses it: nothing is lost in between.
async fn bury(
    shared: &Arc<Shared>,
    settlement: &Settlement,
    held: &Held,
    failure: &Failure,
) -> Result<(), Fault> {
    let queue = shared.queue(&shared.client.place.name(held.source.as_str()));
    // What an earlier supervisor took is not here any more: it comes again, and ends then.
    let Some(body) = &held.body else { return queue.hide(&held.handle, Duration::ZERO).await.map(drop) };
    let error = format!("{}: {}", failure.group, failure.message);
    let dead = Dead {
        id: settlement.job.as_str(),
        body,
        group: held.group.as_deref(),
        error: &error,
        class: None,
        attempt: held.attempt,
    };
    shared.bury(&held.source, dead).await?;
    queue.delete(&held.handle).await.map(drop)
}

/// The job goes on in another queue: as a message there.
async fn go_on(shared: &Arc<Shared>, held: &Held, next: &crate::model::Next) -> Result<(), Fault> {
    let Some(body) = &held.body else { return Err(Fault::Other("its message is not known here".into())) };
    let name = shared.client.place.name(next.queue.as_str());
    let is_fifo = name.ends_with(".fifo");
    let outgoing = Outgoing {
        body: body.to_string(),
        delay: if is_fifo { Duration::ZERO } else { next.delay },
        group: held.group.clone().or_else(|| is_fifo.then(|| "taskvisor".to_owned())),
        once: is_fifo.then(|| uuid::Uuid::now_v7().simple().to_string()),
        ..Outgoing::default()
    };
    shared.queue(&name).send(&outgoing).await.map(drop)
}

async fn put(queue: &Queue, job: NewJob, body: String) -> Result<JobId, Error> {
    let is_fifo = queue.name.ends_with(".fifo");
    if is_fifo && !job.delay.is_zero() {
        return Err(Error::Refused("a FIFO queue of SQS cannot delay a single job".into()));
    }
    let outgoing = Outgoing {
        body,
        delay: job.delay,
        // One group: the order of the puts holds.
        group: is_fifo.then(|| "taskvisor".to_owned()),
        once: is_fifo.then(|| job.token.clone().unwrap_or_else(|| uuid::Uuid::now_v7().simple().to_string())),
        notes: job.id.iter().map(|id| (JOB, id.to_string())).collect(),
    };
    match queue.send(&outgoing).await {
        Ok(id) => Ok(job.id.unwrap_or_else(|| id.as_str().into())),
        Err(fault) => Err(fault.error("put a job into", &queue.name)),
    }
}
