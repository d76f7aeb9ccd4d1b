//! State that the tasks of an SQS broker share: the queues, the buffers, the running jobs.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::{JoinHandle, JoinSet};

use super::body::Bodies;
use super::buffer::Buffered;
use super::client::{Client, JOB, Message, Outgoing};
use super::fault::Fault;
use super::held::{Held, Running};
use super::queue::Queue;
use super::source_queue::SourceQueue;
use broker::Notice;
use common::{host_name, lock};
use ledger::Ledger;
use model::{Fence, Instant, JobId, Millis, QueueName, QueueSet, Settlement};
use select::PollPlan;
use select::terms::COUNTED;

/// How long a message is hidden whose class no worker here takes: the first time, and at most.
const UNWANTED: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(300));
/// A larger body leaves no room for attributes beside it.
pub(super) const NOTED_MAX: usize = (1 << 20) - (8 << 10);

pub(super) struct Shared {
    pub client: Arc<Client>,
    pub bodies: Bodies,
    pub ledger: Ledger,
    pub host: String,
    /// Queues by their names in SQS.
    queues: Mutex<HashMap<String, Arc<Queue>>>,
    /// Queues from which jobs are taken, by their names here.
    sources: Mutex<BTreeMap<QueueName, Arc<SourceQueue>>>,
    pub held: Running,
    /// Which queue to receive from next. No buffer is locked by who waits for this lock.
    pub plan: Mutex<PollPlan>,
    fence: AtomicU64,
    /// Whether the supervisor stops: then no receive begins, and messages go back.
    pub stopping: AtomicBool,
    /// How many receives are open, and how many lots of messages go back.
    pub open: AtomicUsize,
}

impl Shared {
    pub(super) fn new(client: Client, bodies: Bodies, ledger: Ledger) -> Arc<Shared> {
        Arc::new(Shared {
            client: Arc::new(client),
            bodies,
            ledger,
            host: host_name(),
            queues: Mutex::default(),
            sources: Mutex::default(),
            held: Running::default(),
            plan: Mutex::default(),
            // Greater than the fences of every earlier supervisor.
            fence: AtomicU64::new(u64::try_from(clock::wall_millis()).unwrap_or(1) * 1000),
            stopping: AtomicBool::new(false),
            open: AtomicUsize::new(0),
        })
    }

    /// About how many messages are visible in a queue: none if the latest poll found none, else as SQS counts.
    pub(super) async fn visible(&self, source: &SourceQueue) -> Option<u64> {
        let known = *lock(&source.visible);
        // Messages in the buffer are invisible in SQS, but wait all the same.
        let here = lock(&source.buffer).len() as u64;
        if let Some((count, _)) = known.filter(|(_, until)| self.now() < *until) {
            return Some(count + here);
        }
        let counts = self.client.counts(&source.queue.name).await;
        let [count, ..] = source.queue.attributes(counts)?;
        if count > 0 {
            lock(&source.waits_since).get_or_insert(Millis(clock::wall_millis()));
        }
        *lock(&source.visible) = Some((count, self.now() + COUNTED));
        Some(count + here)
    }

    pub(super) fn now(&self) -> Instant {
        (self.client.now)()
    }

    pub(super) fn next_fence(&self) -> Fence {
        Fence(self.fence.fetch_add(1, Ordering::Relaxed))
    }

    /// A queue by its name in SQS.
    pub(super) fn queue(&self, name: &str) -> Arc<Queue> {
        let make = || Arc::new(Queue::new(name.to_owned(), &self.client));
        lock(&self.queues).entry(name.to_owned()).or_insert_with(make).clone()
    }

    /// A queue by its name here.
    pub(super) fn queue_of(&self, name: &QueueName) -> Arc<Queue> {
        self.queue(&self.client.place.name(name.as_str()))
    }

    /// The fault of a request about the message of a running job. It is not ours any more also if its queue was deleted,
    /// and another one made.
    pub(super) fn fault(&self, fault: Fault, held: &Held) -> Fault {
        let was_missing = || self.client.was_missing_since(&held.source.queue.name, held.received_at);
        if fault == Fault::NotOurs && was_missing() { Fault::NoQueue } else { fault }
    }

    /// A queue that jobs are taken from.
    pub(super) fn source(&self, name: &QueueName) -> Arc<SourceQueue> {
        let lease = self.client.place.lease(name.as_str());
        let make = || Arc::new(SourceQueue::new(name.clone(), self.queue_of(name), lease));
        lock(&self.sources).entry(name.clone()).or_insert_with(make).clone()
    }

    /// A message was sent to a queue: its last count is out of date.
    pub(super) fn forget_count(&self, name: &QueueName) {
        if let Some(source) = lock(&self.sources).get(name) {
            *lock(&source.visible) = None;
        }
    }

    pub(super) fn sources(&self) -> Vec<Arc<SourceQueue>> {
        lock(&self.sources).values().cloned().collect()
    }

    /// How many messages of a queue wait here that a worker would take.
    pub(super) fn here(&self, queue: &QueueName) -> usize {
        lock(&self.sources).get(queue).map_or(0, |source| lock(&source.buffer).len())
    }

    /// Something has changed that decides which queue is received from next.
    pub(super) fn look_again(&self) {
        lock(&self.sources).values().for_each(|source| source.wants.notify_one());
    }

    /// The job runs no more. Unless its message was deleted, those behind it in its message group go back.
    pub(super) fn let_go(self: &Arc<Self>, job: &JobId, fence: Fence, is_deleted: bool) {
        let Some(Held { source, message, .. }) = self.held.remove(job, fence) else { return };
        // The buffer's lock ends with this block: who waits for that of the plan holds no buffer.
        let (behind, waiting) = {
            let mut buffer = lock(&source.buffer);
            let group = message.as_ref().and_then(|message| message.group.as_deref());
            let behind = group.map(|group| buffer.ended(group, is_deleted));
            (behind.unwrap_or_default(), buffer.len())
        };
        self.give_back(&source, behind);
        if waiting > 0 {
            lock(&self.plan).blocked(&source.name, false);
            self.ledger.say(Notice::Wake(QueueSet::All));
        }
    }

    /// Makes messages visible for others at once, or later if no worker here takes their class. The ledger first learns
    /// that these deliveries were no attempts.
    pub(super) fn give_back(
        self: &Arc<Self>,
        source: &Arc<SourceQueue>,
        all: Vec<Buffered>,
    ) -> JoinHandle<()> {
        let (shared, queue) = (self.clone(), source.queue.clone());
        tokio::spawn(async move {
            if all.is_empty() {
                return;
            }
            let jobs = all.iter().map(|one| one.message.delivery()).collect();
            shared.ledger.gave_back(jobs).await;
            let hides = all.into_iter().map(|one| {
                let time = if one.is_unwanted { unwanted(one.message.received) } else { Duration::ZERO };
                let queue = queue.clone();
                let until = one.since + one.lease;
                async move { queue.hide(&one.message.handle, time, until).await }
            });
            hides.collect::<JoinSet<_>>().join_all().await;
        })
    }

    /// The supervisor stops: no receive begins from now on, and what waits here goes back.
    pub(super) fn stopping(self: &Arc<Self>) {
        {
            // A receive begins under this lock.
            let _plan = lock(&self.plan);
            self.stopping.store(true, Ordering::SeqCst);
        }
        self.look_again();
        for source in self.sources() {
            let all = lock(&source.buffer).drain();
            // Before it begins, so that `is_rested` sees no gap.
            self.open.fetch_add(1, Ordering::SeqCst);
            let (shared, back) = (self.clone(), self.give_back(&source, all));
            tokio::spawn(async move {
                back.await.ok();
                shared.open.fetch_sub(1, Ordering::SeqCst);
            });
        }
    }

    /// Gives back messages that no worker has taken in time. No poll is worthwhile until a worker asks again; those that
    /// are ready are asked to.
    pub(super) fn give_back_late(self: &Arc<Self>, source: &Arc<SourceQueue>) {
        let late = lock(&source.buffer).expired(self.now());
        if late.iter().any(|one| !one.is_unwanted) {
            lock(&self.plan).nobody_took(&source.name);
            self.ledger.say(Notice::Wake(QueueSet::All));
        }
        self.give_back(source, late);
    }

    /// The message with which a job goes on, with the job's id and its message group.
    pub(super) fn next_message(
        &self,
        queue: &QueueName,
        settlement: &Settlement,
        held: &Held,
        body: &str,
        delay: Duration,
    ) -> Copy {
        let queue = self.queue_of(queue);
        let group = held.message.as_ref().and_then(|message| message.group.clone());
        let once = format!("{}-{}", held.fence.0, settlement.job);
        let message = queue.message(body.to_owned(), group, delay, &once);
        let notes = vec![(JOB, settlement.job.to_string())];
        Copy { message: Outgoing { notes, ..message }, queue, is_dead_letter: false }
    }

    /// The dead letter of a message: unchanged, with what is known of its end. None if there are no dead letters.
    pub(super) fn dead_letter(
        &self,
        source: &QueueName,
        message: &Message,
        error: &str,
        attempt: u32,
    ) -> Option<Copy> {
        let queue = self.queue(&self.client.place.dead_letters(source.as_str())?);
        let mut notes = Vec::new();
        if message.body.len() <= NOTED_MAX {
            notes.extend([
                ("taskvisor-error", allowed(error)),
                ("taskvisor-queue", source.to_string()),
                ("taskvisor-host", self.host.clone()),
                ("taskvisor-attempt", attempt.to_string()),
                (JOB, message.job.clone()),
            ]);
            let job = self.bodies.read(source, message).ok();
            notes.extend(job.map(|(job, _)| ("taskvisor-class", allowed(job.class.as_str()))));
        }
        let once = format!("{}-{}", message.received, message.id);
        let dead = queue.message(message.body.clone(), message.group.clone(), Duration::ZERO, &once);
        Some(Copy { message: Outgoing { notes, ..dead }, queue, is_dead_letter: true })
    }

    /// Sends the copy of a message of a queue. If it fails, the message must not be deleted.
    pub(super) async fn send(&self, source: &SourceQueue, copy: &Copy) -> Result<(), Fault> {
        let sent = copy.queue.send(&copy.message).await.map(drop);
        let name = &copy.queue.name;
        let there = |fault: &Fault| {
            if *fault == Fault::NoQueue { format!(" {}", self.client.whereabouts()) } else { String::new() }
        };
        let sent = sent.map_err(|fault| {
            Fault::Other(format!("the queue '{name}' did not take a message: {fault}{}", there(&fault)))
        });
        if copy.is_dead_letter {
            let trouble = |fault| format!("failed jobs of the queue '{}' cannot end: {fault}", source.name);
            *lock(&source.no_dead_letters) = sent.as_ref().err().map(trouble);
        }
        sent
    }
}

/// The text with only the characters of XML: SQS allows no others.
fn allowed(text: &str) -> String {
    let is_odd =
        |c: &char| (*c < ' ' && !matches!(c, '\t' | '\n' | '\r')) || matches!(c, '\u{fffe}' | '\u{ffff}');
    text.chars().take(1000).map(|c| if is_odd(&c) { '\u{fffd}' } else { c }).collect()
}

/// A message to send before another one is deleted.
pub(super) struct Copy {
    pub queue: Arc<Queue>,
    pub message: Outgoing,
    pub is_dead_letter: bool,
}

/// How long to hide a message that was received this many times: doubled each time.
fn unwanted(received: u32) -> Duration {
    let doubled = UNWANTED.0.saturating_mul(1 << received.saturating_sub(1).min(10));
    doubled.min(UNWANTED.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwanted_message_is_hidden_longer_each_time() {
        let seconds = [1, 2, 3, 4, 5, 1000, u32::MAX].map(|received| unwanted(received).as_secs());
        assert_eq!(seconds, [30, 60, 120, 240, 300, 300, 300]);
    }
}
