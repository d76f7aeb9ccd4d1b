//! Notices that the first process of a life stands: a signal has stopped it, or a debugger.
//!
//! The kernel keeps no time of it, so the process is looked at again and again. What it stood for since the last look is
//! never known exactly; the job gets the benefit of the doubt.

use std::time::Duration;

use super::usage;
use model::{Instant, Limits};

/// Shortest and longest time between two looks at a process.
const OFTEN: Duration = Duration::from_millis(100);
const SELDOM: Duration = Duration::from_secs(1);

/// The time between two looks at a process whose job has these limits. None: nobody limits its time, also not its worker,
/// which may keep limits that are not known here.
pub(super) fn interval(limits: &Limits, is_worker: bool) -> Option<Duration> {
    let first = [limits.time, limits.soft_time].into_iter().flatten().min();
    let unknown = is_worker.then_some(SELDOM);
    first.map(|limit| (limit / 20).clamp(OFTEN, SELDOM)).or(unknown)
}

/// State that lasts from one look to the next.
#[derive(Clone, Copy, Default)]
pub(super) struct Memo {
    /// When it was looked at, and the CPU time that it had used.
    looked: Option<(Instant, Duration)>,
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
        let process = usage::process(pid)?;
        self.note((now, process.cpu), matches!(&*process.state, "T" | "t"), interval)
    }

    fn note(&mut self, (now, cpu): (Instant, Duration), stands: bool, interval: Duration) -> Option<Stands> {
        let (looked, had) = self.looked.replace((now, cpu)).unwrap_or((now - interval, cpu));
        let (passed, ran) = (now.since(looked), cpu.saturating_sub(had));
        let before = self.since.take();
        // After a look that came late, only the CPU time proves that it ran.
        let stood = match stands || before.is_some() && passed > interval * 2 {
            true => passed.saturating_sub(ran),
            false => Duration::ZERO,
        };
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
        let mut at =
            |millis, stands| memo.note((Instant::from_millis(millis), Duration::ZERO), stands, interval);
        let told = |stood, since: Option<u64>| {
            let since = since.map(Duration::from_millis);
            Some(Stands { stood: Duration::from_millis(stood), since })
        };
        assert_eq!(at(1_000, false), None);
        assert_eq!(at(2_000, true), told(1_000, Some(1_000)));
        assert_eq!(at(3_100, true), told(1_100, Some(2_100)));
        assert_eq!(at(4_100, false), told(0, None));
        assert_eq!(at(5_100, false), None);
    }

    #[test]
    fn look_that_comes_late_charges_only_the_cpu_time_that_the_process_has_used() {
        let (mut memo, interval) = (Memo::default(), Duration::from_secs(1));
        let mut at = |millis, cpu, stands| {
            let stands =
                memo.note((Instant::from_millis(millis), Duration::from_millis(cpu)), stands, interval);
            stands.map(|Stands { stood, .. }| stood.as_millis())
        };
        assert_eq!(at(1_000, 0, false), None);
        assert_eq!(at(31_000, 4_000, true), Some(26_000));
        assert_eq!(at(61_000, 5_000, false), Some(29_000));
        assert_eq!(at(91_000, 5_000, false), None, "nothing says that it was stopped");
    }
}
