//! The only place that waits: for what comes, and for what must not.

use std::time::{Duration, Instant};

/// Looks again every few milliseconds, and fails with the name of what did not come.
#[track_caller]
pub fn wait_until(what: &str, condition: impl FnMut() -> bool) {
    wait_within(Duration::from_secs(40), what, condition);
}

#[track_caller]
pub fn wait_within(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < limit, "waited {limit:?} in vain until {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Looks again and again for so long, and fails as soon as it is not so any more.
#[track_caller]
pub fn stays(span: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while start.elapsed() < span {
        assert!(condition(), "after {:?} it is not so any more: {what}", start.elapsed());
        std::thread::park_timeout(Duration::from_millis(5));
    }
}
