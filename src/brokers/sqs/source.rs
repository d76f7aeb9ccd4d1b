//! SQS as a source of jobs. SQS alone decides who may run a job; the ledger has the history.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::address::LONGEST;
use super::buffer::Buffered;
use super::client::{Client, JOB, Outgoing};
use super::fault::Fault;
use super::held::Held;
use super::queue::Queue;
use super::regain::regain;
use super::shared::Shared;
use super::source_queue::SourceQueue;
use super::{body::Bodies, poll, settle};
use broker::{Error, Fetch, Health, Notice, Peers, Renewal, Settling};
use common::lock;
use ledger::{Adopted, BareSource, Delivery, Handle, Ledger, WaitingJobs};
use model::verb::{Answer, Verb};
use model::{
    ClassFilter, Fence, Instance, JobId, JobState, Lease, NewJob, Next, QueueName, QueueSet, Revocation,
    Settlement, Take,
};
use select::{Here, Wish};

/// A renewal waits for its answer for this part of the lease at most, so that a slow one does not delay the others.
const PATIENCE: u32 = 6;

/// A broker whose jobs wait in Amazon SQS.
pub(crate) struct Sqs {
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
impl BareSource for Sqs {
    fn ledger(&self) -> &Ledger {
        &self.shared.ledger
    }

    async fn take(&self, request: &Fetch) -> Result<Vec<Delivery>, Error> {
        let sources: Vec<Arc<SourceQueue>> = request.queues.iter().map(|name| self.source(name)).collect();
        let now = self.shared.now();
        let wish = Wish {
            pool: &request.pool,
            queues: &request.queues,
            take: request.take,
            // A pool that takes only some classes waits for no answer: it may bring jobs of other classes alone.
            is_ordered: request.take == Take::InOrder && request.filter == ClassFilter::default(),
            most: request.workers.len(),
            lease: request.lease.min(LONGEST),
        };
        let runs = |job: &JobId| self.shared.held.contains(job);
        let given = lock(&self.shared.plan).take(&wish, now, |at| {
            let mut buffer = lock(&sources[at].buffer);
            match buffer.take((&request.pool, &request.filter), now, runs) {
                Some(one) => Here::Gave(self.hold(&sources[at], one)),
                None if buffer.total() > 0 => Here::Blocked,
                None => Here::Nothing,
            }
        });
        self.shared.look_again();
        Ok(given)
    }

    fn adopted(&self, lease: &Lease, answer: &Adopted) {
        let failure = match answer {
            Adopted::Runs(run) => {
                self.shared.held.with(&lease.job, lease.fence, |held| held.attempt = run.job.attempt);
                return;
            }
            Adopted::Ended => None,
            Adopted::Held(failure) => Some(format!("{}: {}", failure.group, failure.message)),
        };
        let held = self.shared.held.with(&lease.job, lease.fence, |held| held.clone());
        self.shared.let_go(&lease.job, lease.fence, true);
        // The supervisor must fetch again: the poller counts this worker as busy, and would send no further poll.
        self.shared.ledger.say(Notice::Wake(QueueSet::All));
        let Some(Held { source, message: Some(message), .. }) = held else { return };
        match failure {
            Some(why) => tokio::spawn(poll::discard(self.shared.clone(), source, message, why)),
            // SQS may deliver a message twice.
            None => tokio::spawn(async move { source.queue.delete(&message.handle).await.map_or((), drop) }),
        };
    }

    async fn renew(&self, leases: &[Lease], by: Duration) -> Result<Vec<Renewal>, Error> {
        let asked = leases.iter().cloned().map(|lease| renew(self.shared.clone(), lease, by));
        Ok(all(asked).await.into_iter().map(|renewal| renewal.unwrap_or_else(Renewal::Failed)).collect())
    }

    fn refuses(&self, next: &Next) -> Option<String> {
        (!next.depends.is_empty()).then(|| "SQS cannot have a job wait for others".into())
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

    fn take_over(&self, held: &[Handle]) {
        // What this process has received itself it knows better.
        for one in held.iter().filter(|one| !self.shared.held.contains(&one.job)) {
            let held = Held::left_behind(one, self.shared.source(&one.queue), self.shared.now());
            self.shared.held.insert(one.job.clone(), held);
        }
    }

    async fn release(
        &self,
        _instance: &Instance,
        lost: Vec<Handle>,
        _keep: &[(JobId, Fence)],
    ) -> Result<u64, Error> {
        let count = lost.len() as u64;
        for one in lost {
            self.shared.let_go(&one.job, one.fence, false);
            let queue = self.shared.queue_of(&one.queue);
            let until = self.shared.now() + one.lasts;
            tokio::spawn(async move {
                // A job that was to be canceled does not run again.
                match one.is_canceling {
                    true => queue.delete(&one.handle).await.ok(),
                    false => queue.hide(&one.handle, Duration::ZERO, until).await.ok(),
                }
            });
        }
        Ok(count)
    }

    async fn ask(&self, verb: Verb, by: String) -> Result<Answer, Error> {
        if let Verb::SetData(asked) = verb {
            return self.set_data(asked, by).await;
        }
        if let Verb::Bulk(asked) = verb {
            return self.sweep(asked, by).await.map(Answer::Bulk);
        }
        let mut answer = self.shared.ledger.ask(verb, by).await?;
        if let Answer::Get(job) = &mut answer {
            let titles = self.shared.bodies.titles();
            job.title = job.payload.as_ref().and_then(|payload| titles.whole(payload));
            job.dead_letter = self.shared.fate(job).await;
        }
        Ok(answer)
    }

    async fn waiting(&self) -> Result<Vec<WaitingJobs>, Error> {
        let mut counts = Vec::new();
        for source in self.shared.sources() {
            let count = self.shared.visible(&source).await;
            let since = *lock(&source.waits_since);
            counts.push(WaitingJobs { queue: source.name.clone(), count, since });
        }
        Ok(counts)
    }

    fn peers(&self) -> Option<&dyn Peers> {
        Some(self)
    }

    fn health(&self) -> Health {
        let sources = self.shared.sources();
        // A complaint must be true: else nobody may read the attributes of an idle queue for minutes.
        for source in sources.iter().filter(|source| source.queue.is_to_be_read()).cloned() {
            let client = self.shared.client.clone();
            tokio::spawn(async move { source.queue.attributes(client.counts(&source.queue.name).await) });
        }
        let troubles: Vec<String> = sources.iter().filter_map(|source| source.unread()).collect();
        let trouble = (!troubles.is_empty()).then(|| troubles.join("; "));
        Health {
            trouble: trouble.or_else(|| self.shared.client.silence()),
            concern: sources.iter().find_map(|source| source.concern()),
            ..Health::default()
        }
    }
}

impl Sqs {
    /// Holds a message for its job, and gives the delivery for the ledger.
    fn hold(&self, source: &Arc<SourceQueue>, one: Buffered) -> Delivery {
        let (message, fence) = (one.message, self.shared.next_fence());
        let job: JobId = message.job.as_str().into();
        let delivery = Delivery {
            job: one.job,
            // SQS counts from the moment at which it delivered the message.
            lease: Lease { job: job.clone(), fence, expires_at: one.since + one.lease },
            message: message.id.clone(),
            attempt: message.received,
            put_at: one.put_at,
            handle: message.handle.clone(),
        };
        self.shared.held.insert(job, Held::received(message, source.clone(), fence, one.since, one.lease));
        delivery
    }
}

/// The answers of tasks that run side by side, in order. They run to their ends, whatever becomes of the caller.
pub(super) async fn all<T: Send + 'static>(
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
    let time = by.max(held.source.lease).min(held.room(now));
    let queue = &held.source.queue;
    let patience = by / PATIENCE;
    let hidden = async {
        // SQS keeps no message hidden for longer than 12 hours.
        if time.is_zero() {
            return Err(Fault::NotOurs);
        }
        // Before the request: one whose answer is lost may have hidden it for longer all the same.
        let ask = |held: &mut Held| held.maybe_until = held.maybe_until.max(now + time);
        shared.held.with(&lease.job, lease.fence, ask);
        match queue.hide(&held.handle, time, held.maybe_until).await {
            // After a silence of SQS, or of this host: nobody else has it. This runs to its end, also if the answer to
            // the renewal comes too late: what a receive brings must not be lost.
            Err(Fault::Visible) if held.message.is_some() => {
                let (shared, held, lease) = (shared.clone(), held.clone(), lease.clone());
                let regained = tokio::spawn(async move {
                    regain(&shared, &held.source, (&lease.job, lease.fence), &held.handle, time).await
                });
                let is_back = regained.await.unwrap_or(Ok(false))?;
                if is_back { Ok(String::new()) } else { Err(Fault::Visible) }
            }
            outcome => outcome,
        }
    };
    let is_new =
        || shared.held.with(&lease.job, lease.fence, |now| now.handle != held.handle).unwrap_or(false);
    match timeout(patience, hidden).await.map(|done| done.map_err(|fault| shared.fault(fault, &held))) {
        // Its message has come again meanwhile: the next renewal has the new handle.
        Ok(Err(Fault::NotOurs | Fault::Visible)) if is_new() => Renewal::Failed(Error::Unanswered(format!(
            "the message of job '{}' has just come again",
            lease.job
        ))),
        Err(_) => Renewal::Failed(Error::Unanswered(format!(
            "SQS has not answered for {patience:?} whether job '{}' is renewed",
            lease.job
        ))),
        Ok(Ok(_)) => {
            let expires_at = now + time;
            shared.held.with(&lease.job, lease.fence, |now| {
                // A newer delivery has a time of its own.
                if now.handle == held.handle {
                    now.is_hidden_until(expires_at);
                }
            });
            Renewal::Renewed(Lease { expires_at, ..lease })
        }
        Ok(Err(fault @ (Fault::NotOurs | Fault::Visible | Fault::NoQueue))) => {
            // A lost job is not settled: if the message comes again, that is another delivery.
            shared.let_go(&lease.job, lease.fence, false);
            if fault == Fault::NoQueue {
                let (job, fence, verdict) = (lease.job, lease.fence, settle::gone(&held));
                let gone = Settlement { job, fence, verdict, crashed: false, forensics: None };
                shared.ledger.settle(vec![gone], &[Settling::Settled(JobState::Failed)]).await;
            }
            Renewal::Lost(Revocation::LockLost)
        }
        Ok(Err(fault)) => Renewal::Failed(queue.error("renew a message of", &fault)),
    }
}

async fn put(queue: &Queue, job: NewJob, body: String) -> Result<JobId, Error> {
    if queue.is_fifo() && !job.delay.is_zero() {
        return Err(Error::Refused("a FIFO queue of SQS cannot delay a single job".into()));
    }
    // A repeated put has the same token, so a FIFO queue drops its message.
    let once = job.token.clone().unwrap_or_else(|| uuid::Uuid::now_v7().simple().to_string());
    let notes = job.id.iter().map(|id| (JOB, id.to_string())).collect();
    let outgoing = Outgoing { notes, ..queue.message(body, None, job.delay, &once) };
    match queue.send(&outgoing).await {
        Ok(id) => Ok(job.id.unwrap_or_else(|| id.as_str().into())),
        Err(fault) => Err(queue.error("put a job into", &fault)),
    }
}
