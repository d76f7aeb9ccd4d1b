//! The notices of a broker that wait to be read. Bounded: one wake-up at most, and one revocation for each lease.

use std::collections::VecDeque;
use std::sync::{Mutex, OnceLock};

use tokio::sync::Notify;

use crate::lock::lock;
use broker::{Complaints, EventBus, Notice};

/// Notices that wait to be read, and what the broker tells of itself.
#[derive(Default)]
pub struct Notices {
    queue: Mutex<VecDeque<Notice>>,
    more: Notify,
    trouble: Mutex<Option<String>>,
    /// Failures of the broker's background tasks.
    pub complaints: Complaints,
    room: OnceLock<EventBus>,
}

impl Notices {
    /// Adds a notice. A wake-up joins the one that waits.
    pub fn push(&self, notice: Notice) {
        let mut queue = lock(&self.queue);
        if let Notice::Wake(queues) = &notice
            && let Some(Notice::Wake(waiting)) = queue.iter_mut().find(|one| matches!(one, Notice::Wake(_)))
        {
            waiting.add(queues.clone());
        } else if !queue.contains(&notice) {
            queue.push_back(notice);
            self.more.notify_one();
        }
    }

    /// The trouble that keeps the broker from its work, if any.
    pub fn trouble(&self) -> Option<String> {
        lock(&self.trouble).clone()
    }

    /// Notes the trouble that keeps the broker from its work, or that there is none.
    pub fn set_trouble(&self, trouble: Option<String>) {
        *lock(&self.trouble) = trouble;
    }

    /// Sets the bus for events; only the first call counts.
    pub fn publish(&self, room: EventBus) {
        let _ = self.room.set(room);
    }

    /// The bus for events, if there are subscribers.
    pub fn heard(&self) -> Option<&EventBus> {
        self.room.get().filter(|room| room.is_heard())
    }

    /// Waits for the next notice. Cancel-safe.
    pub async fn next(&self) -> Notice {
        loop {
            if let Some(notice) = self.pop() {
                return notice;
            }
            self.more.notified().await;
        }
    }

    fn pop(&self) -> Option<Notice> {
        let mut queue = lock(&self.queue);
        let first = queue.pop_front();
        // Notify keeps one permit, however often it was notified: each reader wakes the next one.
        if !queue.is_empty() {
            self.more.notify_one();
        }
        first
    }
}
