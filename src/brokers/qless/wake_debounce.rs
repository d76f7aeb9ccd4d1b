//! Limits how often messages wake the supervisor. Other clients may send a thousand messages a second while there is
//! still nothing for this supervisor; each would cost a fetch. The first message after a quiet time wakes it at once.
//! While fetches bring nothing, the next wake-up waits a little, and longer each time. One wake-up stands for all
//! messages that come meanwhile.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::{Instant, QueueName, QueueSet};

/// The wait after a fetch that brought nothing, and the limit up to which it is doubled.
const WAIT: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(250));
/// After this long without a message the next one wakes at once.
const QUIET: Duration = Duration::from_millis(500);

/// When messages came, and what the fetches after them brought.
#[derive(Default)]
pub(super) struct Wakes(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// Time of the last message.
    heard: Option<Instant>,
    /// When a fetch that a message had caused brought nothing, and how long the next wake-up waits.
    barren: Option<Instant>,
    wait: Duration,
    /// The queues for which a wake-up is pending, or was delivered and no fetch from them has begun since: it stands for
    /// all messages about them until then.
    under_way: BTreeSet<QueueName>,
    /// The same for all queues, and any fetch.
    all_under_way: bool,
}

impl Wakes {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A message about these queues came: the time until the wake-up; `None` if one is pending.
    pub(super) fn heard(&self, now: Instant, queues: &QueueSet) -> Option<Duration> {
        if queues.is_empty() {
            return None;
        }
        let mut inner = self.inner();
        if inner.heard.replace(now).is_none_or(|heard| now.since(heard) >= QUIET) {
            inner.wait = Duration::ZERO;
        }
        let waited = inner.barren.map_or(Duration::ZERO, |barren| now.since(barren));
        let is_first = match queues {
            QueueSet::All => !std::mem::replace(&mut inner.all_under_way, true),
            // The wake-up for all queues stands for these, too.
            QueueSet::Only(_) if inner.all_under_way => false,
            QueueSet::Only(names) => {
                let before = inner.under_way.len();
                inner.under_way.extend(names.iter().cloned());
                inner.under_way.len() > before
            }
        };
        is_first.then(|| inner.wait.saturating_sub(waited))
    }

    /// A fetch from these queues begins, and sees the effect of all messages before it. Gives whether a message caused
    /// it.
    pub(super) fn fetching(&self, queues: &[QueueName]) -> bool {
        let mut inner = self.inner();
        let before = inner.under_way.len();
        queues.iter().for_each(|queue| _ = inner.under_way.remove(queue));
        std::mem::take(&mut inner.all_under_way) || inner.under_way.len() < before
    }

    /// Notes whether a fetch has brought any jobs.
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

    fn heard(wakes: &Wakes, now: Instant) -> Option<Duration> {
        wakes.heard(now, &QueueName::from("q").into())
    }

    fn after(millis: u64) -> Option<Duration> {
        Some(Duration::from_millis(millis))
    }

    /// A fetch that begins and ends at the same time.
    fn fetch(wakes: &Wakes, is_barren: bool, millis: u64) {
        let was_caused = wakes.fetching(&["q".into()]);
        wakes.fetched(was_caused, is_barren, at(millis));
    }

    #[test]
    fn wake_ups_are_delayed_longer_after_each_empty_fetch() {
        let wakes = Wakes::default();
        assert_eq!(heard(&wakes, at(0)), after(0), "the first wakes at once");
        assert_eq!(heard(&wakes, at(1)), None, "and does for the next, until there is a fetch");
        let mut now = 2;
        for wait in [20, 40, 80, 160, 250, 250] {
            fetch(&wakes, true, now);
            assert_eq!(heard(&wakes, at(now + 5)), after(wait - 5));
            assert_eq!(heard(&wakes, at(now + wait - 1)), None);
            now += wait;
        }
        fetch(&wakes, true, now);
        assert_eq!(heard(&wakes, at(now + 251)), after(0), "who comes later than that waits no more");
    }

    #[test]
    fn job_or_a_quiet_period_resets_the_delay() {
        let wakes = Wakes::default();
        assert_eq!(heard(&wakes, at(0)), after(0));
        fetch(&wakes, true, 1);
        assert_eq!(heard(&wakes, at(2)), after(19));
        fetch(&wakes, false, 21);
        assert_eq!(heard(&wakes, at(22)), after(0), "there was a job");
        for millis in (23..400).step_by(50) {
            fetch(&wakes, true, millis);
            heard(&wakes, at(millis + 1));
        }
        fetch(&wakes, true, 450);
        assert_eq!(heard(&wakes, at(950)), after(0), "it was quiet");
    }

    #[test]
    fn fetch_without_a_wake_up_does_not_change_the_delay() {
        let wakes = Wakes::default();
        for millis in 0..5 {
            fetch(&wakes, true, millis);
        }
        assert_eq!(heard(&wakes, at(6)), after(0));
    }

    #[test]
    fn pending_wake_up_stands_for_its_own_queue_alone() {
        let (wakes, other) = (Wakes::default(), QueueSet::from(QueueName::from("other")));
        assert_eq!(heard(&wakes, at(0)), after(0));
        assert_eq!(wakes.heard(at(1), &other), after(0), "the workers for the first may all be busy");
        assert!(!wakes.fetching(&["third".into()]) && wakes.fetching(&["other".into()]));
        assert_eq!((heard(&wakes, at(2)), wakes.heard(at(2), &other)), (None, after(0)));
        assert_eq!(wakes.heard(at(3), &QueueSet::All), after(0));
        assert_eq!((heard(&wakes, at(4)), wakes.heard(at(4), &QueueSet::All)), (None, None));
        assert!(wakes.fetching(&["third".into()]), "which was meant too");
        assert_eq!(wakes.heard(at(5), &QueueSet::default()), None);
    }
}
