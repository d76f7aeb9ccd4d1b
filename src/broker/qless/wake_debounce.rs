//! When what is heard wakes. Others may tell a thousand things a second after which there is still nothing for this
//! supervisor: each would cost a fetch. The first thing after quiet wakes at once; while fetches bring nothing, the next one
//! waits a little, and longer each time. What is heard meanwhile has its fetch when the wait is over.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::model::Instant;

/// The wait after a fetch that brought nothing, doubled with each more up to the second.
const WAIT: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(250));
/// After so long without a word nothing waits.
const QUIET: Duration = Duration::from_millis(500);

/// What was heard, and what came of it.
#[derive(Default)]
pub(super) struct Wakes(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// When something was heard last.
    heard: Option<Instant>,
    /// When a fetch that was caused by it brought nothing, and how long the next one waits.
    barren: Option<Instant>,
    wait: Duration,
    /// A wake-up is to come, or was told and no fetch has begun since: it does for all that is heard until then.
    under_way: bool,
}

impl Wakes {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something was heard: after how long it wakes; `None`: another wake-up does for it.
    pub(super) fn heard(&self, now: Instant) -> Option<Duration> {
        let mut inner = self.inner();
        if inner.heard.replace(now).is_none_or(|heard| now.since(heard) >= QUIET) {
            inner.wait = Duration::ZERO;
        }
        let waited = inner.barren.map_or(Duration::ZERO, |barren| now.since(barren));
        let is_first = !std::mem::replace(&mut inner.under_way, true);
        is_first.then(|| inner.wait.saturating_sub(waited))
    }

    /// A fetch begins, and finds all that was heard before it; gives whether that caused it.
    pub(super) fn fetching(&self) -> bool {
        std::mem::take(&mut self.inner().under_way)
    }

    /// A fetch has brought something, or nothing.
    pub(super) fn fetched(&self, was_caused: bool, is_barren: bool, now: Instant) {
        let mut inner = self.inner();
        if !is_barren {
            inner.wait = Duration::ZERO;
        } else if was_caused {
            inner.barren = Some(now);
            inner.wait = (inner.wait * 2).clamp(WAIT.0, WAIT.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(1_000_000 + millis)
    }

    fn after(millis: u64) -> Option<Duration> {
        Some(Duration::from_millis(millis))
    }

    /// A fetch that takes no time.
    fn fetch(wakes: &Wakes, is_barren: bool, millis: u64) {
        let was_caused = wakes.fetching();
        wakes.fetched(was_caused, is_barren, at(millis));
    }

    #[test]
    fn what_is_heard_waits_longer_with_each_fetch_that_brings_nothing() {
        let wakes = Wakes::default();
        assert_eq!(wakes.heard(at(0)), after(0), "the first wakes at once");
        assert_eq!(wakes.heard(at(1)), None, "and does for the next, until there is a fetch");
        let mut now = 2;
        for wait in [20, 40, 80, 160, 250, 250] {
            fetch(&wakes, true, now);
            assert_eq!(wakes.heard(at(now + 5)), after(wait - 5));
            assert_eq!(wakes.heard(at(now + wait - 1)), None);
            now += wait;
        }
        fetch(&wakes, true, now);
        assert_eq!(wakes.heard(at(now + 251)), after(0), "who comes later than that waits no more");
    }

    #[test]
    fn a_job_or_quiet_ends_the_wait() {
        let wakes = Wakes::default();
        assert_eq!(wakes.heard(at(0)), after(0));
        fetch(&wakes, true, 1);
        assert_eq!(wakes.heard(at(2)), after(19));
        fetch(&wakes, false, 21);
        assert_eq!(wakes.heard(at(22)), after(0), "there was a job");
        for millis in (23..400).step_by(50) {
            fetch(&wakes, true, millis);
            wakes.heard(at(millis + 1));
        }
        fetch(&wakes, true, 450);
        assert_eq!(wakes.heard(at(950)), after(0), "it was quiet");
    }

    #[test]
    fn a_fetch_that_nothing_heard_has_caused_counts_for_nothing() {
        let wakes = Wakes::default();
        for millis in 0..5 {
            fetch(&wakes, true, millis);
        }
        assert_eq!(wakes.heard(at(6)), after(0));
    }
}
