//! How often the supervisor has crashed, and when to start it again.

use std::collections::VecDeque;
use std::time::Duration;

use super::setup::Restarts;
use model::{ExitStatus, Instant};

/// The latest crashes of the supervisor.
pub(super) struct Crashes {
    limits: Restarts,
    recent: VecDeque<Instant>,
    pub total: u32,
    /// How the latest supervisor ended.
    pub last: Option<ExitStatus>,
    /// If that was a SIGKILL of somebody else: how many processes the kernel killed for want of memory meanwhile.
    pub oom_kills: Option<u64>,
    wait: Option<Duration>,
    /// When a supervisor last ended for want of memory, processes or descriptors.
    wanted: Option<Instant>,
}

impl Crashes {
    pub(crate) fn new(limits: Restarts) -> Self {
        Crashes {
            limits,
            recent: VecDeque::new(),
            total: 0,
            last: None,
            oom_kills: None,
            wait: None,
            wanted: None,
        }
    }

    /// Counts a crash. Gives when to start the supervisor again; None after too many crashes.
    pub(crate) fn crashed(&mut self, now: Instant) -> Option<Instant> {
        self.total += 1;
        while self.recent.front().is_some_and(|&at| now.since(at) > self.limits.within) {
            self.recent.pop_front();
        }
        // A supervisor that ran for long starts again as if it were the first time.
        if self.recent.is_empty() {
            self.wait = None;
        }
        self.recent.push_back(now);
        if self.recent.len() >= self.limits.crashes {
            return None;
        }
        let at = now + self.wait.unwrap_or_default();
        self.wait = Some(self.wait.map_or(self.limits.first, |wait| (wait * 2).min(self.limits.longest)));
        Some(at)
    }

    /// The supervisor could not get what it needs, such as its store: when to try again. That is no crash, so there is
    /// no limit.
    pub(crate) fn unavailable(&mut self, now: Instant) -> Instant {
        self.total += 1;
        let calm = |at: Instant| now.since(at) > self.limits.longest + self.limits.within;
        if self.wanted.replace(now).is_some_and(calm) {
            self.wait = None;
        }
        let wait = self.wait.unwrap_or(self.limits.first);
        self.wait = Some((wait * 2).min(self.limits.longest));
        now + wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::Setup;

    fn crashes() -> Crashes {
        Crashes::new(Setup::new(Vec::new()).restarts)
    }

    #[test]
    fn first_restart_is_immediate_and_the_fifth_crash_ends_the_keeper() {
        let (mut crashes, mut now, mut waits) = (crashes(), Instant(0), Vec::new());
        while let Some(at) = crashes.crashed(now) {
            waits.push(at.since(now).as_millis());
            now = at;
        }
        assert_eq!(waits, [0, 100, 200, 400]);
        assert_eq!(crashes.total, 5);
    }

    #[test]
    fn temporary_failures_are_retried_without_limit() {
        let (mut crashes, mut now, mut waits) = (crashes(), Instant(0), Vec::new());
        for _ in 0..12 {
            let at = crashes.unavailable(now);
            waits.push(at.since(now).as_millis());
            now = at;
        }
        assert_eq!(waits[..4], [100, 200, 400, 800]);
        assert_eq!((waits[11], crashes.total), (30_000, 12));
    }

    #[test]
    fn long_calm_resets_the_wait_for_what_is_not_there() {
        let mut crashes = crashes();
        for start in [0, 200_000, 400_000] {
            let now = Instant::from_millis(start);
            assert_eq!(crashes.unavailable(now).since(now).as_millis(), 100);
            assert_eq!(crashes.unavailable(now).since(now).as_millis(), 200);
        }
    }

    #[test]
    fn rare_crashes_never_add_up() {
        let mut crashes = crashes();
        for minute in 0..100 {
            let now = Instant::from_millis(minute * 61_000);
            assert_eq!(crashes.crashed(now), Some(now));
        }
    }
}
