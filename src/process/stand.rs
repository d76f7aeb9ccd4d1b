//! Notices that the first process of a life stands: a signal has stopped it, or a debugger.
//!
//! The kernel keeps no time of it, so the process is looked at again and again. What it stood for since the last look is
//! never known exactly; the job gets the benefit of the doubt.

use std::time::Duration;

use super::usage;
use model::Instant;

/// Shortest and longest time between two looks at a process.
const OFTEN: Duration = Duration::from_millis(100);
const SELDOM: Duration = Duration::from_secs(5);

/// The time between two looks at a process whose job has this time limit.
pub(super) fn interval(limit: Duration) -> Duration {
    (limit / 20).clamp(OFTEN, SELDOM)
}

/// State that lasts from one look to the next.
#[derive(Clone, Copy, Default)]
pub(super) struct Memo {
    looked: Option<Instant>,
    since: Option<Duration>,
}

/// A process that stands, or goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stands {
    /// The time since the look before.
    pub(super) stood: Duration,
    /// For how long it has stood; None = it goes on.
    pub(super) since: Option<Duration>,
}

impl Memo {
    /// Looks at the process. None: it runs, as it did before, or is gone.
    pub(super) fn look(&mut self, now: Instant, pid: i32, interval: Duration) -> Option<Stands> {
        let stands = matches!(&*usage::process(pid)?.state, "T" | "t");
        self.note(now, stands, interval)
    }

    fn note(&mut self, now: Instant, stands: bool, interval: Duration) -> Option<Stands> {
        let passed = self.looked.map_or(interval, |looked| now.since(looked));
        self.looked = Some(now);
        // More has passed only if this process did not run: the supervisor knows that itself.
        let stood = if stands { passed.min(interval * 2) } else { Duration::ZERO };
        let before = self.since.take();
        self.since = stands.then(|| before.unwrap_or_default() + stood);
        (stands || before.is_some()).then_some(Stands { stood, since: self.since })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_that_stands_is_told_of_at_each_look_and_once_when_it_goes_on() {
        let (mut memo, interval) = (Memo::default(), Duration::from_secs(1));
        let mut at = |millis, stands| memo.note(Instant::from_millis(millis), stands, interval);
        let told = |stood, since: Option<u64>| {
            let since = since.map(Duration::from_millis);
            Some(Stands { stood: Duration::from_millis(stood), since })
        };
        assert_eq!(at(1_000, false), None);
        assert_eq!(at(2_000, true), told(1_000, Some(1_000)));
        assert_eq!(at(3_100, true), told(1_100, Some(2_100)));
        assert_eq!(at(99_000, true), told(2_000, Some(4_100)), "this process did not run");
        assert_eq!(at(100_000, false), told(0, None));
        assert_eq!(at(101_000, false), None);
    }
}
