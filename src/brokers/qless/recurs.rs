//! When to look for due recurring jobs, and what one look keeps for the next.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, Notify};

use model::Instant;

/// Time of the next look.
#[derive(Default)]
pub(super) struct Recurs {
    /// The time of the next look, in nanoseconds since boot; the first look is at once.
    pub(super) at: AtomicU64,
    pub(super) changed: Notify,
    pub(super) looks: Mutex<Looks>,
}

/// State that one look keeps for the next.
#[derive(Default)]
pub(super) struct Looks {
    /// How far the server's clock was ahead of this host's, in milliseconds.
    pub(super) ahead: Option<i64>,
    /// Recurring jobs that could not be put, by name: their version, and when to try again.
    pub(super) put_off: HashMap<String, (String, i64)>,
}

impl Recurs {
    /// A recurring job has changed: look now.
    pub(super) fn look_now(&self) {
        self.at.store(0, Ordering::SeqCst);
        self.changed.notify_one();
    }

    /// Time until the next look.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        Instant(self.at.load(Ordering::SeqCst)).since(now)
    }
}
