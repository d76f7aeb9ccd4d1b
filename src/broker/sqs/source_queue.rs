//! A queue from which jobs are taken: its buffer, the demand for its jobs, and what keeps it from its work.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::buffer::Buffer;
use super::demand::Wanted;
use super::queue::Queue;
use crate::model::{Instant, QueueName};

/// A queue from which jobs are taken.
pub(super) struct SourceQueue {
    pub name: QueueName,
    pub queue: Arc<Queue>,
    pub buffer: Mutex<Buffer>,
    /// Whether it is polled: from its first fetch on.
    pub is_polled: AtomicBool,
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

impl SourceQueue {
    /// A queue that is not polled yet.
    pub(super) fn new(name: QueueName, queue: Arc<Queue>) -> SourceQueue {
        SourceQueue {
            name,
            buffer: Mutex::new(Buffer::new(queue.is_fifo())),
            queue,
            is_polled: AtomicBool::new(false),
            wanted: Mutex::default(),
            wants: Notify::new(),
            trouble: Mutex::default(),
            no_dead_letters: Mutex::default(),
            visible: Mutex::default(),
        }
    }
}
