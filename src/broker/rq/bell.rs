//! Whether to wait for the next job of a queue.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Set when the queue was empty at the last look: then the broker waits for the next job.
#[derive(Default)]
pub(super) struct Bell {
    is_set: AtomicBool,
    set: Notify,
}

impl Bell {
    /// Waits for the next job from now on.
    pub(super) fn set(&self) {
        if !self.is_set.swap(true, Ordering::Relaxed) {
            self.set.notify_one();
        }
    }

    /// Returns when it is set.
    pub(super) async fn rings(&self) {
        self.set.notified().await;
    }

    /// A new job was noticed.
    pub(super) fn heard(&self) {
        self.is_set.store(false, Ordering::Relaxed);
    }
}
