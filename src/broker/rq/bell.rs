//! Whether the next job of a queue is waited for.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Whether the queue was empty when it was last looked at: then the next job in it is waited for.
#[derive(Default)]
pub(super) struct Bell {
    is_set: AtomicBool,
    set: Notify,
}

impl Bell {
    /// The next job is to be heard.
    pub(super) fn set(&self) {
        if !self.is_set.swap(true, Ordering::Relaxed) {
            self.set.notify_one();
        }
    }

    /// Waits until it is set.
    pub(super) async fn rings(&self) {
        self.set.notified().await;
    }

    /// A job was heard.
    pub(super) fn heard(&self) {
        self.is_set.store(false, Ordering::Relaxed);
    }
}
