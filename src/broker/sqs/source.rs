//! SQS as a source of jobs. SQS alone decides who may run a job; the ledger has the history.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::buffer::Buffered;
use super::client::{Client, JOB, Outgoing};
use super::fault::Fault;
use super::held::{Held, LONGEST};
use super::queue::Queue;
use super::shared::Shared;
use super::source_queue::SourceQueue;
use super::{body::Bodies, poll, settle};
use crate::broker::ledger::{Adopted, Delivery, Ledger};
use crate::broker::lock::lock;
use crate::broker::{Error, Fetch, Health, Notice, Renewal, Settling, Source};
use crate::model::{Fence, Fetched, JobId, Lease, NewJob, Progress, QueueName, Revocation, Settlement};
use crate::select::Turns;

/// A renewal waits for its answer for this part of the lease at most, so that a slow one does not delay the others.
const PATIENCE: u32 = 6;

/// A broker whose jobs wait in Amazon SQS.
pub struct Sqs {
    pub(super) shared: Arc<Shared>,
    /// The polls of all queues. They end with this value.
    polls: Mutex<JoinSet<()>>,
}

impl Sqs {
    pub(super) fn new(client: Client, bodies: Bodies, ledger: Ledger) -> Sqs {
        Sqs { shared: Shared::new(client, bodies, ledger), polls: Mutex::default() }
    }

    /// A queue, which is polled from now on.
    fn source(&self, name: &QueueName) -> Arc<SourceQueue> {
        let source = self.shared.source(name);
        if !source.is_polled.swap(true, Ordering::Relaxed) {
            lock(&self.polls).spawn(poll::poll(self.shared.clone(), source.clone()));
        }
        source
    }

    /// Stops polling, and gives the buffered messages back.
    pub(super) async fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        lock(&self.polls).abort_all();
        let sources = self.shared.sources().into_iter();
        let back: Vec<_> =
            sources.map(|source| self.shared.give_back(&source, lock(&source.buffer).drain())).collect();
        for done in back {
            done.await.ok();
        }
    }
}

#[async_trait]
impl Source for Sqs {
    async fn fetch(&self, request: Fetch) -> Result<Vec<Fetched>, Error> {
        let sources: Vec<Arc<SourceQueue>> = request.queues.iter().map(|name| self.source(name)).collect();
        let mut workers = request.workers.iter().copied();
        let (mut given, mut deliveries) = (Vec::new(), Vec::new());
        let now = self.shared.now();
        let mut counts = vec![0; sources.len()];
        let mut turns = Turns::new(request.take, 0..sources.len());
        while workers.len() > 0
            && let Some(&at) = turns.queue()
        {
            let runs = |job: &JobId| self.shared.held.contains(job);
            let taken = lock(&sources[at].buffer).take((&request.pool, &request.filter), now, runs);
            match taken {
                Some(one) => {
                    counts[at] += 1;
                    let delivery = self.hold(&sources[at], &one);
                    deliveries.extend(workers.next().map(|worker| (delivery, worker)));
                    given.push((sources[at].clone(), one));
                    turns.gave();
                }
                None => turns.had_none(),
            }
        }
        for (source, count) in sources.iter().zip(counts) {
            let ready = (&request.pool, workers.len());
            lock(&source.wanted).took(count, ready, request.lease.min(LONGEST), now);
            source.wants.notify_one();
        }
        if given.is_empty() {
            return Ok(Vec::new());
        }
        let fences: Vec<Fence> = deliveries.iter().map(|(delivery, _)| delivery.fence).collect();
        let adopted = self.shared.ledger.adopt(&request, deliveries).await;
        let all = adopted.into_iter().zip(fences).zip(given);
        Ok(all
            .filter_map(|((adopted, fence), (source, one))| self.run(adopted, fence, source, one))
            .collect())
    }

    async fn renew(&self, leases: Vec<Lease>, by: Duration) -> Result<Vec<Renewal>, Error> {
        let asked = leases.iter().cloned().map(|lease| renew(self.shared.clone(), lease, by));
        let (renewals, noted) = tokio::join!(all(asked), self.shared.ledger.renew(leases.clone(), by));
        let in_force = |(renewal, noted)| match renewal {
            Ok(Renewal::Renewed(lease)) => Ledger::renewal(lease, noted),
            Ok(renewal) => renewal,
            Err(error) => Renewal::Failed(error),
        };
        Ok(renewals.into_iter().zip(noted).map(in_force).collect())
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settling>, Error> {
        let asked = settlements.into_iter().map(|settlement| {
            let shared = self.shared.clone();
            async move { settle::settle(&shared, settlement).await }
        });
        Ok(all(asked).await.into_iter().map(|answer| answer.unwrap_or_else(Settling::Failed)).collect())
    }

    async fn put(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<JobId, Error>>, Error> {
        let asked = jobs.into_iter().map(|job| {
            let body = self.shared.bodies.write(&job);
            let queue = self.shared.queue_of(&job.queue);
            self.shared.forget_count(&job.queue);
            async move { put(&queue, job, body?).await }
        });
        Ok(all(asked).await.into_iter().map(Result::flatten).collect())
    }

    async fn next_notice(&self) -> Notice {
        self.shared.ledger.next_notice().await
    }

    fn health(&self) -> Health {
        let troubles: Vec<String> =
            self.shared.sources().iter().filter_map(|source| lock(&source.trouble).clone()).collect();
        Health {
            trouble: (!troubles.is_empty()).then(|| troubles.join("; ")),
            concern: self.shared.ledger.concern().or_else(|| {
                self.shared.sources().iter().find_map(|source| lock(&source.no_dead_letters).clone())
            }),
            ..self.shared.ledger.health()
        }
    }

    async fn progress(&self, notes: Vec<(JobId, Fence, Progress)>) -> Result<(), Error> {
        self.shared.ledger.progress(notes).await;
        Ok(())
    }
}

impl Sqs {
    /// Holds a message for its job, and gives the delivery for the ledger.
    fn hold(&self, source: &Arc<SourceQueue>, one: &Buffered) -> Delivery {
        let (message, fence) = (&one.message, self.shared.next_fence());
        let held = Held::received(message.clone(), source.clone(), fence, one.since);
        self.shared.held.insert(message.job.as_str().into(), held);
        Delivery {
            job: one.job.clone(),
            is_own_id: message.job == message.id,
            fence,
            attempt: message.received,
            handle: message.handle.clone(),
        }
    }

    /// The job to run, if the ledger knows nothing against it.
    fn run(
        &self,
        adopted: Adopted,
        fence: Fence,
        source: Arc<SourceQueue>,
        one: Buffered,
    ) -> Option<Fetched> {
        let failure = match adopted {
            Adopted::Runs(mut job) => {
                self.shared.held.with(&job.job.id, fence, |held| held.attempt = job.job.attempt);
                // SQS counts from the moment at which it delivered the message.
                job.lease.expires_at = one.since + one.lease;
                return Some(job);
            }
            Adopted::Complete => None,
            Adopted::Held(failure) => Some(format!("{}: {}", failure.group, failure.message)),
        };
        self.shared.let_go(&one.message.job.as_str().into(), fence, true);
        // The supervisor must fetch again: the poller counts this worker as busy, and would send no further poll.
        self.shared.ledger.say(Notice::Wake);
        match failure {
            Some(why) => tokio::spawn(poll::discard(self.shared.clone(), source, one.message, why)),
            // SQS may deliver a message twice.
            None => {
                tokio::spawn(async move { source.queue.delete(&one.message.handle).await.map_or((), drop) })
            }
        };
        None
    }
}

/// The answers of tasks that run side by side, in order. They run to their ends, whatever becomes of the caller.
async fn all<T: Send + 'static>(
    asked: impl Iterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<Result<T, Error>> {
    let tasks: Vec<_> = asked.map(tokio::spawn).collect();
    let mut answers = Vec::with_capacity(tasks.len());
    for task in tasks {
        answers.push(task.await.map_err(|error| Error::Failed(error.to_string())));
    }
    answers
}

/// Hides the message of a running job for longer.
async fn renew(shared: Arc<Shared>, lease: Lease, by: Duration) -> Renewal {
    let now = shared.now();
    let held = shared.held.with(&lease.job, lease.fence, |held| held.clone());
    let Some(held) = held else { return Renewal::Lost(Revocation::LockLost) };
    let time = by.min(held.room(now));
    let queue = &held.source.queue;
    let hidden =
        async { if time.is_zero() { Err(Fault::NotOurs) } else { queue.hide(&held.handle, time).await } };
    let patience = by / PATIENCE;
    match timeout(patience, hidden).await.map(|done| done.map_err(|fault| shared.fault(fault, &held))) {
        Err(_) => Renewal::Failed(Error::Unanswered(format!(
            "SQS has not answered for {patience:?} whether job '{}' is renewed",
            lease.job
        ))),
        Ok(Ok(_)) => Renewal::Renewed(Lease { expires_at: now + time, ..lease }),
        Ok(Err(fault @ (Fault::NotOurs | Fault::NoQueue))) => {
            // A lost job is not settled: if the message comes again, that is another delivery.
            shared.let_go(&lease.job, lease.fence, false);
            if fault == Fault::NoQueue {
                let (job, fence, verdict) = (lease.job, lease.fence, settle::gone(&held));
                let gone = Settlement { job, fence, verdict, crashed: false, forensics: None };
                shared.ledger.settle(vec![gone]).await;
            }
            Renewal::Lost(Revocation::LockLost)
        }
        Ok(Err(fault)) => Renewal::Failed(fault.error("renew a message of", &queue.name)),
    }
}

async fn put(queue: &Queue, job: NewJob, body: String) -> Result<JobId, Error> {
    if queue.is_fifo() && !job.delay.is_zero() {
        return Err(Error::Refused("a FIFO queue of SQS cannot delay a single job".into()));
    }
    let once = job.token.clone().unwrap_or_else(|| uuid::Uuid::now_v7().simple().to_string());
    let notes = job.id.iter().map(|id| (JOB, id.to_string())).collect();
    let outgoing = Outgoing { notes, ..queue.message(body, None, job.delay, &once) };
    match queue.send(&outgoing).await {
        Ok(id) => Ok(job.id.unwrap_or_else(|| id.as_str().into())),
        Err(fault) => Err(fault.error("put a job into", &queue.name)),
    }
}
