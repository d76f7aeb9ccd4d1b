//! The waits between attempts to reach a server.

use std::time::Duration;

use tokio::time::Instant as Moment;
use uuid::Uuid;

/// The first wait after a failure to connect, and the limit up to which it is doubled.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// After a connection that lasted this long, the waits begin again.
const LASTED: Duration = Duration::from_secs(2);

/// The waits of an activity that keeps a connection of its own, between one connection and the next.
#[derive(Default)]
pub struct Waits {
    /// Number of connections in a row that did not last.
    failed: u32,
}

impl Waits {
    /// The wait after the connection that was begun at this moment and has ended.
    pub fn after(&mut self, began: Moment) -> Duration {
        self.failed = if began.elapsed() > LASTED { 1 } else { (self.failed + 1).min(16) };
        backoff(self.failed)
    }
}

/// The wait before the next attempt: doubled with each failure, and up to a half longer at random, so that clients of
/// the same server do not come back all at once.
pub(super) fn backoff(failed: u32) -> Duration {
    let wait = BACKOFF.1.min(BACKOFF.0 * 2u32.saturating_pow(failed.saturating_sub(1)));
    // The last byte of a UUID is random.
    let chance = u32::from(Uuid::now_v7().as_bytes()[15]);
    wait + wait * chance / 512
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_begin_again_after_a_connection_that_lasted() {
        let mut waits = Waits::default();
        let began = Moment::now();
        let longest = (0..10).map(|_| waits.after(began)).max().unwrap();
        assert!(longest >= BACKOFF.1, "{longest:?}");
        tokio::time::advance(LASTED * 2).await;
        assert!(waits.after(began) < BACKOFF.0 * 2);
    }
}
