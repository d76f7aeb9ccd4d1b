//! State that the tasks of an SQS broker share: the queues, the buffers, the running jobs.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};

use super::body::Bodies;
use super::buffer::{Buffer, Buffered};
use super::client::{Client, Message, Outgoing};
use super::fault::Fault;
use super::queue::Queue;
use crate::broker::Notice;
use crate::broker::ledger::Ledger;
pub(super) use crate::broker::lock::lock;
use crate::clock;
use crate::model::{Fence, Instant, JobId, QueueName};

/// The longest time for which SQS keeps a received message invisible: 12 hours, minus the time of a request.
pub(super) const LONGEST: Duration = Duration::from_secs(12 * 3600 - 10);

/// The longest delay of a new message in SQS.
pub(super) const DELAY_MAX: Duration = Duration::from_secs(900);

/// How long a count from SQS is trusted.
const COUNTED: Duration = Duration::from_secs(10);
/// How long the empty answer of a poll is trusted, while the next one waits.
pub(super) const EMPTY: Duration = Duration::from_secs(25);

/// How long a message is hidden whose class no worker here takes: the first time, and at most.
const UNWANTED: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(300));
/// A larger body leaves no room for attributes beside it.
const NOTED_MAX: usize = (1 << 20) - (8 << 10);

pub(super) struct Shared {
    pub client: Arc<Client>,
    pub bodies: Bodies,
    pub ledger: Ledger,
    pub host: String,
    /// Queues by their names in SQS.
    queues: Mutex<HashMap<String, Arc<Queue>>>,
    /// Queues from which jobs are taken, by their names here.
    sources: Mutex<BTreeMap<QueueName, Arc<SourceQueue>>>,
    held: Mutex<HashMap<JobId, Held>>,
    fence: AtomicU64,
    /// Whether the supervisor stops: then no poll begins, and messages go back.
    pub stopping: AtomicBool,
}

/// A queue from which jobs are taken.
pub(super) struct SourceQueue {
    pub name: QueueName,
    pub queue: Arc<Queue>,
    pub buffer: Mutex<Buffer>,
    /// The workers that want a job from it at the moment: only then is a poll worthwhile.
    pub wanted: Mutex<Wanted>,
    pub wants: Notify,
    /// The error that keeps it from being read, if any.
    pub trouble: Mutex<Option<String>>,
    /// Why the latest dead letter could not be sent.
    pub no_dead_letters: Mutex<Option<String>>,
    /// How many messages are visible in SQS, and until when that count is trusted.
    pub visible: Mutex<Option<(u64, Instant)>>,
}

/// The demand for jobs of a queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    /// Number of workers without a job, by pool.
    pub ready: BTreeMap<Arc<str>, usize>,
    /// Number of jobs taken in the second before `second`, and since.
    pub taken: (usize, usize),
    pub second: Option<Instant>,
    /// How long to keep a message invisible for others.
    pub lease: Duration,
}

/// The message of a running job.
#[derive(Clone, Debug)]
pub(super) struct Held {
    /// The id of the message; empty if an earlier supervisor took it.
    pub message: String,
    pub fence: Fence,
    pub handle: String,
    pub source: QueueName,
    pub group: Option<String>,
    /// The original body; None if an earlier supervisor took the message.
    pub body: Option<Arc<str>>,
    /// The body for the next attempt, if the job's data was changed while it ran.
    pub next_body: Option<Arc<str>>,
    /// Whether its end is being written: if the message comes again now, that is another delivery.
    pub ending: bool,
    /// Whether the copy to send before the delete was sent.
    pub sent: bool,
    pub attempt: u32,
    pub received_at: Instant,
}

impl Held {
    /// For how long it can still be hidden.
    pub(super) fn room(&self, now: Instant) -> Duration {
        LONGEST.saturating_sub(now.since(self.received_at))
    }
}

impl Shared {
    pub(super) fn new(client: Client, bodies: Bodies, ledger: Ledger) -> Arc<Shared> {
        let host = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned());
        Arc::new(Shared {
            client: Arc::new(client),
            bodies,
            ledger,
            host: host.unwrap_or_else(|_| "host".into()),
            queues: Mutex::default(),
            sources: Mutex::default(),
            held: Mutex::default(),
            // Greater than the fences of every earlier supervisor.
            fence: AtomicU64::new(u64::try_from(clock::wall_millis()).unwrap_or(1) * 1000),
            stopping: AtomicBool::new(false),
        })
    }

    /// About how many messages are visible in a queue: none if the latest poll found none, else as SQS counts.
    pub(super) async fn visible(&self, source: &SourceQueue) -> Option<u64> {
        let known = *lock(&source.visible);
        // Messages in the buffer are invisible in SQS, but wait all the same.
        let here = lock(&source.buffer).len() as u64;
        if let Some((count, _)) = known.filter(|(_, until)| clock::now() < *until) {
            return Some(count + here);
        }
        let [count, ..] = self.client.counts(&source.queue.name).await.ok()?;
        *lock(&source.visible) = Some((count, clock::now() + COUNTED));
        Some(count + here)
    }

    pub(super) fn next_fence(&self) -> Fence {
        Fence(self.fence.fetch_add(1, Ordering::Relaxed))
    }

    /// A queue by its name in SQS.
    pub(super) fn queue(&self, name: &str) -> Arc<Queue> {
        let mut queues = lock(&self.queues);
        if let Some(queue) = queues.get(name) {
            return queue.clone();
        }
        let queue = Arc::new(Queue::new(name.to_owned(), &self.client));
        queues.insert(name.to_owned(), queue.clone());
        queue
    }

    /// A queue by its name here.
    pub(super) fn queue_of(&self, name: &QueueName) -> Arc<Queue> {
        self.queue(&self.client.place.name(name.as_str()))
    }

    /// A queue that jobs are taken from; `begin` is called when it is asked for the first time.
    pub(super) fn source(&self, name: &QueueName, begin: impl FnOnce(Arc<SourceQueue>)) -> Arc<SourceQueue> {
        let mut sources = lock(&self.sources);
        if let Some(source) = sources.get(name) {
            return source.clone();
        }
        let queue = self.queue_of(name);
        let source = Arc::new(SourceQueue {
            name: name.clone(),
            buffer: Mutex::new(Buffer::new(queue.is_fifo())),
            queue,
            wanted: Mutex::default(),
            wants: Notify::new(),
            trouble: Mutex::default(),
            no_dead_letters: Mutex::default(),
            visible: Mutex::default(),
        });
        sources.insert(name.clone(), source.clone());
        begin(source.clone());
        source
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

    pub(super) fn hold(&self, job: JobId, held: Held) {
        lock(&self.held).insert(job, held);
    }

    /// The message of a job that runs under this fence.
    pub(super) fn held(&self, job: &JobId, fence: Fence) -> Option<Held> {
        lock(&self.held).get(job).filter(|held| held.fence == fence).cloned()
    }

    /// Sets the body for a running job's next attempt; false if it does not run under this fence.
    pub(super) fn set_next_body(&self, job: &JobId, fence: Fence, body: String) -> bool {
        let mut all = lock(&self.held);
        let held = all.get_mut(job).filter(|held| held.fence == fence);
        held.map(|held| held.next_body = Some(body.into())).is_some()
    }

    /// Marks a job whose end is being written, and gives its message.
    pub(super) fn ends(&self, job: &JobId, fence: Fence) -> Option<Held> {
        let mut all = lock(&self.held);
        let held = all.get_mut(job).filter(|held| held.fence == fence)?;
        held.ending = true;
        Some(held.clone())
    }

    /// Notes which attempt a delivery is.
    pub(super) fn is_attempt(&self, job: &JobId, fence: Fence, attempt: u32) {
        if let Some(held) = lock(&self.held).get_mut(job).filter(|held| held.fence == fence) {
            held.attempt = attempt;
        }
    }

    /// Notes that the copy was sent, so that a repeated settlement does not send it again.
    pub(super) fn has_sent(&self, job: &JobId, fence: Fence) {
        if let Some(held) = lock(&self.held).get_mut(job).filter(|held| held.fence == fence) {
            held.sent = true;
        }
    }

    pub(super) fn runs(&self, job: &JobId) -> bool {
        lock(&self.held).contains_key(job)
    }

    /// Whether this is a second delivery of a running job's message; if so, the newest handle counts.
    pub(super) fn is_double(&self, message: &Message) -> bool {
        let mut all = lock(&self.held);
        let held = all.get_mut(&message.job.as_str().into());
        let same = |held: &&mut Held| held.message.is_empty() || held.message == message.id;
        let held = held.filter(|held| !held.ending && same(held));
        held.map(|held| held.handle.clone_from(&message.handle)).is_some()
    }

    /// The job runs no more. Unless its message was deleted, those behind it in its message group go back.
    pub(super) fn let_go(self: &Arc<Self>, job: &JobId, fence: Fence, is_deleted: bool) {
        let held = {
            let mut all = lock(&self.held);
            let is_this = all.get(job).is_some_and(|held| held.fence == fence);
            is_this.then(|| all.remove(job)).flatten()
        };
        let Some(held) = held else { return };
        let source = lock(&self.sources).get(&held.source).cloned();
        let Some(source) = source else { return };
        let (behind, waiting) = {
            let mut buffer = lock(&source.buffer);
            let behind = held.group.as_deref().map(|group| buffer.ended(group, is_deleted));
            (behind.unwrap_or_default(), buffer.len())
        };
        self.give_back(&source, behind);
        if waiting > 0 {
            self.ledger.say(Notice::Wake);
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
            let jobs = all.iter().map(|one| one.message.job.as_str().into()).collect();
            shared.ledger.gave_back(jobs).await;
            let hides = all.into_iter().map(|one| {
                let time = if one.is_unwanted { unwanted(one.message.received) } else { Duration::ZERO };
                let queue = queue.clone();
                async move { queue.hide(&one.message.handle, time).await }
            });
            hides.collect::<JoinSet<_>>().join_all().await;
        })
    }

    /// Gives back messages that no worker has taken in time. No poll is worthwhile until a worker asks again; those that
    /// are ready are asked to.
    pub(super) fn give_back_late(self: &Arc<Self>, source: &Arc<SourceQueue>) {
        let late = lock(&source.buffer).expired(clock::now());
        if late.iter().any(|one| !one.is_unwanted) {
            lock(&source.wanted).ready.clear();
            self.ledger.say(Notice::Wake);
        }
        self.give_back(source, late);
    }

    /// Sends a message unchanged to the dead-letter queue, with what is known of its end. Does nothing without such a
    /// queue.
    pub(super) async fn bury(&self, source: &QueueName, dead: Dead<'_>) -> Result<(), Fault> {
        let Some(name) = self.client.place.dead_letters(source.as_str()) else { return Ok(()) };
        // SQS allows only the characters of XML.
        let allowed = |c: char| if c < ' ' && !matches!(c, '\t' | '\n' | '\r') { '\u{fffd}' } else { c };
        let clip = |text: &str| text.chars().take(1000).map(allowed).collect::<String>();
        let mut notes = vec![
            ("taskvisor-error", clip(dead.error)),
            ("taskvisor-queue", source.to_string()),
            ("taskvisor-host", self.host.clone()),
            ("taskvisor-attempt", dead.attempt.to_string()),
        ];
        notes.extend(dead.class.map(|class| ("taskvisor-class", clip(class))));
        if dead.body.len() > NOTED_MAX {
            notes.clear();
        }
        let is_fifo = name.ends_with(".fifo");
        let outgoing = Outgoing {
            body: dead.body.to_owned(),
            group: dead.group.or(is_fifo.then_some("dead")).map(str::to_owned),
            once: is_fifo.then(|| once(dead.id, dead.attempt)),
            notes,
            ..Outgoing::default()
        };
        let sent = self.send(&name, &outgoing).await;
        if let Some(source) = lock(&self.sources).get(source) {
            let trouble = |fault| format!("failed jobs of the queue '{}' cannot end: {fault}", source.name);
            *lock(&source.no_dead_letters) = sent.as_ref().err().map(trouble);
        }
        sent
    }

    /// Sends a message that must exist before another one is deleted; if it fails, nothing is deleted.
    pub(super) async fn send(&self, name: &str, outgoing: &Outgoing) -> Result<(), Fault> {
        match self.queue(name).send(outgoing).await {
            Ok(_) => Ok(()),
            Err(fault) => Err(Fault::Other(format!("the queue '{name}' did not take a message: {fault}"))),
        }
    }
}

/// How long to hide a message that was received this many times: doubled each time.
fn unwanted(received: u32) -> Duration {
    let doubled = UNWANTED.0.saturating_mul(1 << received.saturating_sub(1).min(10));
    doubled.min(UNWANTED.1)
}

/// The deduplication id of a message in a FIFO queue: letters, digits and hyphens.
pub(super) fn once(id: &str, attempt: u32) -> String {
    let id: String = id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(100).collect();
    format!("{id}-{attempt}")
}

/// A message that is not tried again.
pub(super) struct Dead<'a> {
    pub id: &'a str,
    pub body: &'a str,
    pub group: Option<&'a str>,
    pub error: &'a str,
    pub class: Option<&'a str>,
    pub attempt: u32,
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
