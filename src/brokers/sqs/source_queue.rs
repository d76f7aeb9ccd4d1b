//! A queue from which jobs are taken: its buffer, and what keeps it from its work.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use super::buffer::Buffer;
use super::early::Early;
use super::queue::Queue;
use common::{Damper, lock};
use model::{Instant, Millis, QueueName};

/// A queue from which jobs are taken.
pub(super) struct SourceQueue {
    pub name: QueueName,
    pub queue: Arc<Queue>,
    /// The least time for which its messages are invisible.
    pub lease: Duration,
    pub buffer: Mutex<Buffer>,
    /// Whether it is polled: from its first fetch on.
    pub is_polled: AtomicBool,
    /// A receive from it may be worthwhile now.
    pub wants: Notify,
    /// The error that keeps it from being read, if any.
    pub trouble: Mutex<Option<String>>,
    /// Its answers that should have waited.
    pub early: Mutex<Early>,
    /// Lines about messages that do not run.
    pub poison: Damper,
    /// Whether the key has opened a task of kale from it.
    pub is_opened: AtomicBool,
    /// Why the key opens none of its messages, if that is so.
    pub unopened: Mutex<Option<String>>,
    /// Held while messages of running jobs are received again.
    pub regaining: tokio::sync::Mutex<()>,
    /// When the ledger's note of an open receive was written, and its lease; None = there is no note.
    pub noted: Mutex<Option<(Instant, Duration)>>,
    /// What the last supervisor left open at SQS, in words, and until when that may matter.
    pub left_open: Mutex<Option<(String, Millis)>>,
    /// A receive that had no answer: when it ended at SQS, and until when what it was given may come again.
    pub unheard: Mutex<Option<(Millis, Instant)>>,
    /// Why the latest dead letter could not be sent.
    pub no_dead_letters: Mutex<Option<String>>,
    /// How many messages are visible in SQS, and until when that count is trusted.
    pub visible: Mutex<Option<(u64, Instant)>>,
    /// When the oldest of the latest messages was put; before any was received, when some were first counted.
    pub waits_since: Mutex<Option<Millis>>,
}

impl SourceQueue {
    /// What keeps its messages from being jobs.
    pub(super) fn unread(&self) -> Option<String> {
        lock(&self.trouble).clone().or_else(|| lock(&self.unopened).clone())
    }

    /// What keeps its jobs from their ends, or for a while from workers.
    pub(super) fn concern(&self) -> Option<String> {
        let ends = lock(&self.no_dead_letters).clone().or_else(|| self.queue.failing());
        ends.or_else(|| self.hidden()).or_else(|| lock(&self.early).told(&self.queue.name))
    }

    /// Why messages may be hidden that nobody here has.
    fn hidden(&self) -> Option<String> {
        let mut left = lock(&self.left_open);
        left.take_if(|(_, over)| *over <= clock::wall());
        left.as_ref().map(|(said, _)| said.clone())
    }

    /// A queue that is not polled yet.
    pub(super) fn new(name: QueueName, queue: Arc<Queue>, lease: Duration) -> SourceQueue {
        SourceQueue {
            name,
            buffer: Mutex::new(Buffer::new(queue.is_fifo())),
            queue,
            lease,
            is_polled: AtomicBool::new(false),
            wants: Notify::new(),
            trouble: Mutex::default(),
            early: Mutex::default(),
            poison: Damper::default(),
            is_opened: AtomicBool::new(false),
            unopened: Mutex::default(),
            regaining: tokio::sync::Mutex::default(),
            noted: Mutex::default(),
            left_open: Mutex::default(),
            unheard: Mutex::default(),
            no_dead_letters: Mutex::default(),
            visible: Mutex::default(),
            waits_since: Mutex::default(),
        }
    }
}
