//! The waits between attempts to reach a server.

use std::time::Duration;

use uuid::Uuid;

/// The first wait after a failure to connect, and the limit up to which it is doubled.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// The wait before the next attempt: doubled with each failure, and up to a half longer at random, so that clients of
/// the same server do not come back all at once.
pub fn backoff(failed: u32) -> Duration {
    let wait = BACKOFF.1.min(BACKOFF.0 * 2u32.saturating_pow(failed.saturating_sub(1)));
    // The last byte of a UUID is random.
    let chance = u32::from(Uuid::now_v7().as_bytes()[15]);
    wait + wait * chance / 512
}
