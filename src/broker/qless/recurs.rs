//! When to look for what recurs, and what one look leaves for the next.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, Notify};

use crate::model::Instant;

/// When to look.
#[derive(Default)]
pub(super) struct Recurs {
    /// In nanoseconds since boot; the first look is at once.
    pub(super) at: AtomicU64,
    pub(super) changed: Notify,
    pub(super) looks: Mutex<Looks>,
}

/// What one look leaves for the next.
#[derive(Default)]
pub(super) struct Looks {
    /// How far the server's clock was ahead of this host's, in milliseconds.
    pub(super) ahead: Option<i64>,
    /// Recurring jobs that could not be put, by name: their version, and when to try again.
    pub(super) put_off: HashMap<String, (String, i64)>,
}

impl Recurs {
    /// Something about what recurs has changed.
    pub(super) fn look_now(&self) {
        self.at.store(0, Ordering::SeqCst);
        self.changed.notify_one();
    }

    /// How long it is until the next look.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        Instant(self.at.load(Ordering::SeqCst)).since(now)
    }
}
