//! SQS as a source of jobs. SQS alone decides who may run a job; the ledger has the history.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant as Moment, timeout_at};

use super::buffer::Buffered;
use super::client::{Client, JOB, Outgoing};
use super::fault::Fault;
use super::queue::Queue;
use super::shared::{Held, LONGEST, Shared, SourceQueue, lock};
use super::{body::Bodies, poll, settle};
use crate::broker::ledger::{Adopted, Delivery, Ledger};
use crate::broker::{Error, Fetch, Health, Notice, Renewal, Settling, Source};
use crate::clock;
use crate::model::{Fence, Fetched, JobId, Lease, NewJob, Progress, Revocation, Settlement, WorkerId};
use crate::select::Turns;

/// A renewal waits for its answer for this part of the lease at most, so that a slow one does not delay the others.
const PATIENCE: u32 = 6;

/// A broker whose jobs wait in Amazon SQS.
pub struct Sqs {
    pub(super) shared: Arc<Shared>,
    polls: std::sync::Mutex<Vec<JoinHandle<()>>>,
}

impl Sqs {
    pub(super) fn new(client: Client, bodies: Bodies, ledger: Ledger) -> Sqs {
        Sqs { shared: Shared::new(client, bodies, ledger), polls: Default::default() }
    }

    /// A queue, which is polled from now on.
    fn source(&self, name: &crate::model::QueueName) -> Arc<SourceQueue> {
        self.shared.source(name, |source| {
            lock(&self.polls).push(tokio::spawn(poll::poll(self.shared.clone(), source)));
        })
    }

    /// Stops polling, and gives the buffered messages back.
    pub(super) async fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        lock(&self.polls).drain(..).for_each(|poll| poll.abort());
        let mut back = Vec::new();
        for source in self.shared.sources() {
            let all = lock(&source.buffer).drain();
            back.push(self.shared.give_back(&source, all));
        }
        for done in back {
            done.await.ok();
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
        let mut given: Vec<(Arc<SourceQueue>, Buffered, WorkerId)> = Vec::new();
        let now = clock::now();
        let mut counts = vec![0; sources.len()];
        let mut turns = Turns::new(request.take, 0..sources.len());
        while workers.len() > 0
            && let Some(&at) = turns.queue()
        {
            let is_given = |job: &JobId| given.iter().any(|(_, one, _)| one.job.id.as_ref() == Some(job));
            let runs = |job: &JobId| self.shared.runs(job) || is_given(job);
            let taken = lock(&sources[at].buffer).take((&request.pool, &request.filter), now, runs);
            match taken {
                Some(one) => {
                    counts[at] += 1;
                    given.extend(workers.next().map(|worker| (sources[at].clone(), one, worker)));
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
        let answers = in_time(asked, by / PATIENCE);
        let (answers, noted) = tokio::join!(answers, self.shared.ledger.renew(leases.clone(), by));
        let mut renewals = Vec::with_capacity(leases.len());
        for ((lease, answer), noted) in leases.into_iter().zip(answers).zip(noted) {
            let Some(answer) = answer else {
                let why = format!(
                    "SQS has not answered for {:?} whether job '{}' is renewed",
                    by / PATIENCE,
                    lease.job
                );
                renewals.push(Renewal::Failed(Error::Unanswered(why)));
                continue;
            };
            renewals.push(match answer {
                Ok(Ok(hidden)) => {
                    let lease = Lease { expires_at: now + hidden, ..lease };
                    match noted {
                        Some(Renewal::Canceling(_)) => Renewal::Canceling(lease),
                        _ => Renewal::Renewed(lease),
                    }
                }
                // A lost job is not settled: if the message comes again, that is another delivery.
                Ok(Err(Fault::NotOurs | Fault::NoQueue)) => {
                    self.shared.let_go(&lease.job, lease.fence, false);
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
            .into_iter()
            .map(|settlement| {
                let shared = self.shared.clone();
                tokio::spawn(async move { settle::settle_and_note(&shared, settlement).await })
            })
            .collect();
        let mut answers = Vec::with_capacity(asked.len());
        for asked in asked {
            let failed = |error: tokio::task::JoinError| Settling::Failed(Error::Failed(error.to_string()));
            answers.push(asked.await.unwrap_or_else(failed));
        }
        Ok(answers)
    }

    async fn put(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<JobId, Error>>, Error> {
        let asked: Vec<_> = jobs
            .into_iter()
            .map(|job| {
                let body = self.shared.bodies.write(&job);
                let queue = self.shared.queue_of(&job.queue);
                self.shared.forget_count(&job.queue);
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
    /// Records the deliveries in the ledger, and gives the jobs to run.
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
                ending: false,
                sent: false,
                attempt: one.message.received,
                received_at: one.since,
            };
            self.shared.hold(one.message.job.as_str().into(), held);
            let (job, attempt) = (one.job.clone(), one.message.received);
            let (is_own_id, handle) = (one.message.job == one.message.id, one.message.handle.clone());
            deliveries.push((Delivery { job, is_own_id, fence, attempt, handle }, *worker));
        }
        let fences: Vec<Fence> = deliveries.iter().map(|(delivery, _)| delivery.fence).collect();
        let adopted = self.shared.ledger.adopt(request, deliveries).await;
        let mut fetched = Vec::with_capacity(adopted.len());
        for ((adopted, fence), (source, one, _)) in adopted.into_iter().zip(fences).zip(given) {
            match adopted {
                Adopted::Runs(mut job) => {
                    self.shared.is_attempt(&job.job.id, fence, job.job.attempt);
                    // SQS counts from the moment at which it delivered the message.
                    job.lease.expires_at = one.since + one.lease;
                    fetched.push(job);
                }
                // SQS may deliver a message twice. The supervisor must fetch again: the poller counts this worker as
                // busy, and would send no further poll.
                Adopted::Complete => {
                    self.shared.let_go(&one.message.job.as_str().into(), fence, true);
                    self.shared.ledger.say(Notice::Wake);
                    tokio::spawn(async move { source.queue.delete(&one.message.handle).await.ok() });
                }
                Adopted::Held(failure) => {
                    self.shared.let_go(&one.message.job.as_str().into(), fence, true);
                    self.shared.ledger.say(Notice::Wake);
                    let why = format!("{}: {}", failure.group, failure.message);
                    tokio::spawn(poll::discard(self.shared.clone(), source, one.message, why));
                }
            }
        }
        fetched
    }
}

/// The answers that come within this time, each in its place. Slow requests go on without a waiter.
async fn in_time<T>(asked: Vec<JoinHandle<T>>, patience: Duration) -> Vec<Option<Result<T, JoinError>>> {
    let end = Moment::now() + patience;
    let mut answers = Vec::with_capacity(asked.len());
    for one in asked {
        answers.push(timeout_at(end, one).await.ok());
    }
    answers
}

/// Hides a message. Gives for how long it is hidden now.
async fn hide_for(shared: &Shared, held: Option<Held>, time: Duration) -> Result<Duration, Fault> {
    let held = held.ok_or(Fault::NotOurs)?;
    let time = time.min(held.room(clock::now()));
    if time.is_zero() {
        return Err(Fault::NotOurs);
    }
    shared.queue_of(&held.source).hide(&held.handle, time).await.map(|_| time)
}

async fn put(queue: &Queue, job: NewJob, body: String) -> Result<JobId, Error> {
    let is_fifo = queue.is_fifo();
    if is_fifo && !job.delay.is_zero() {
        return Err(Error::Refused("a FIFO queue of SQS cannot delay a single job".into()));
    }
    let outgoing = Outgoing {
        body,
        delay: job.delay,
        // One message group, so that SQS keeps the order of the puts.
        group: is_fifo.then(|| "taskvisor".to_owned()),
        once: is_fifo.then(|| job.token.clone().unwrap_or_else(|| uuid::Uuid::now_v7().simple().to_string())),
        notes: job.id.iter().map(|id| (JOB, id.to_string())).collect(),
    };
    match queue.send(&outgoing).await {
        Ok(id) => Ok(job.id.unwrap_or_else(|| id.as_str().into())),
        Err(fault) => Err(fault.error("put a job into", &queue.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn missing_answer_does_not_delay_the_others() {
        let asked =
            vec![tokio::spawn(async { 1 }), tokio::spawn(std::future::pending()), tokio::spawn(async { 3 })];
        let answers = in_time(asked, Duration::from_millis(50)).await;
        let answers: Vec<Option<i32>> = answers.into_iter().map(|answer| answer?.ok()).collect();
        assert_eq!(answers, [Some(1), None, Some(3)]);
    }
}
