//! How much the clients of a door may take.

use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit};

/// Limits on what one client may take from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Limit of the connections at a time; by TCP the same number again for those that have not shown the token. For one
    /// more, the oldest is closed that has been idle for a second; if there is none within 2 s, the new one is refused.
    pub connections: usize,
    /// Limit of the requests at a time that wait for as long as it takes. Their connections are not among those above.
    pub waits: usize,
    /// Limit of the followed outputs at a time. They are among neither of those above.
    pub follows: usize,
    /// Limit of the jobs that all those of these requests wait for that wait for many.
    pub jobs: usize,
    /// A connection that has not sent a whole request head within this time is closed.
    pub header_timeout: Duration,
    /// A connection whose client does not read its answer for this time is closed.
    pub stall_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 256,
            waits: most_waits(),
            // Each keeps a file open, and up to 4 MiB while it reads.
            follows: most_waits() / 8,
            // Each takes some hundred bytes.
            jobs: 1_000_000,
            header_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(30),
        }
    }
}

/// A part of the descriptors: workers and the store need some too.
fn most_waits() -> usize {
    let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
    usize::try_from(files / 8).unwrap_or(usize::MAX).clamp(64, 2048)
}
