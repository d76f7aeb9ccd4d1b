//! The only place where tests wait: for a condition, or that a condition stays true.

use std::time::{Duration, Instant};

/// Longest pause between two looks. A look is often a program that is started, and tests run beside each other.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Polls the condition, first every 5 ms and then less often; fails with its name after 40 s.
#[track_caller]
pub fn wait_until(what: &str, condition: impl FnMut() -> bool) {
    wait_within(Duration::from_secs(40), what, condition);
}

#[track_caller]
pub fn wait_within(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    let mut pause = Duration::from_millis(5);
    while !condition() {
        assert!(start.elapsed() < limit, "waited {limit:?} in vain until {what}");
        std::thread::park_timeout(pause);
        pause = (pause * 5 / 4).min(LONGEST_PAUSE);
    }
}

/// Polls the condition for this time; fails as soon as it is false.
#[track_caller]
pub fn stays(span: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while start.elapsed() < span {
        assert!(condition(), "after {:?} it is not so any more: {what}", start.elapsed());
        std::thread::park_timeout(Duration::from_millis(5));
    }
}
