//! Fences: when the keeper kills a life by itself, before the lease of its job ends.

use std::time::Duration;

use model::Instant;

/// A timer that is noticed later than this says that the keeper has been stopped, and is not only slow.
pub(super) const STOPPED: Duration = Duration::from_secs(1);
/// How long the supervisor has to renew the leases of its jobs: longer than it waits for the answer itself.
const PATIENCE: Duration = Duration::from_secs(5);
/// A fence falls this long before the end of the lease.
const BEFORE_END: Duration = Duration::from_secs(2);
/// The time to end a job, of those two seconds.
const TO_END: Duration = Duration::from_secs(1);
/// Limit of how often a fence is put off. A host that a job starves wakes us late each time: there it must fall some day.
const MOST: u8 = 8;

/// When a life is killed, unless the supervisor says otherwise before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fence {
    ordered: Instant,
    falls: Instant,
    /// How often it was put off.
    times: u8,
}

impl Fence {
    pub(super) fn new(at: Instant) -> Fence {
        Fence { ordered: at, falls: at, times: 0 }
    }

    pub(super) fn is_due(self, now: Instant) -> bool {
        self.falls <= now
    }

    /// When to wake up for it: also earlier, so that a stop of this process which lasts until it falls is noticed.
    pub(super) fn wakes(self, now: Instant) -> Instant {
        let before = if self.is_put_off() { now } else { self.ordered - 2 * STOPPED };
        self.falls.min(now.max(before) + STOPPED)
    }

    fn is_put_off(self) -> bool {
        self.times > 0
    }

    /// The same after a time of at least `late` in which nobody could keep it. The supervisor has all of its time once;
    /// then as much as the stop has surely taken from it, so that it has its time also on a host that stops again and
    /// again, up to [`MOST`] times.
    pub(super) fn after(self, now: Instant, late: Duration) -> Fence {
        let falls = match self.times {
            0 if self.is_due(now) => put_off(self.ordered, now, PATIENCE),
            1..MOST => self.falls.max(put_off(self.ordered, now, late.min(PATIENCE))),
            _ => return self,
        };
        Fence { falls, times: self.times + 1, ..self }
    }
}

/// When a fence falls that was due while nobody could keep it. While the lease lasts, the job is dead before its end all
/// the same.
fn put_off(fence: Instant, now: Instant, patience: Duration) -> Instant {
    let last = fence + BEFORE_END;
    if last <= now { now + patience } else { now.max(last - TO_END) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn fence_is_put_off_past_the_end_of_its_lease_only_if_that_is_past() {
        let falls = |fence| Fence::new(at(fence)).after(at(10_000), STOPPED).falls;
        assert_eq!(falls(10_001), at(10_001), "it is not due");
        assert_eq!(falls(9_900), at(10_900), "the lease lasts until 11.9");
        assert_eq!(falls(8_500), at(10_000), "until 10.5");
        assert_eq!(falls(8_000), at(15_000));
    }

    #[test]
    fn fence_that_was_put_off_is_put_off_again_by_as_much_as_each_stop_took() {
        let once = Fence::new(at(8_000)).after(at(10_000), STOPPED);
        assert_eq!(once.after(at(16_000), Duration::from_secs(9)).falls, at(21_000));
        assert_eq!(once.after(at(14_900), Duration::from_secs(4)).falls, at(18_900), "before it is due");
        assert_eq!(once.after(at(11_000), STOPPED).falls, at(15_000), "never earlier");
    }

    #[test]
    fn fence_falls_in_the_end_on_a_host_that_is_late_at_each_wake_up() {
        let (mut fence, mut now) = (Fence::new(at(8_000)).after(at(10_000), STOPPED), at(10_000));
        while !fence.is_due(now) {
            now = fence.wakes(now) + 2 * STOPPED;
            fence = fence.after(now, 2 * STOPPED);
            assert!(now < at(60_000), "it never falls");
        }
    }

    #[test]
    fn stop_that_lasts_until_a_fence_falls_is_noticed() {
        let fence = Fence::new(at(8_000));
        assert_eq!(fence.wakes(at(0)), at(7_000));
        assert_eq!((fence.wakes(at(7_000)), fence.wakes(at(7_500))), (at(8_000), at(8_000)));
        let put_off = fence.after(at(10_000), STOPPED);
        assert_eq!((put_off.wakes(at(10_000)), put_off.wakes(at(14_500))), (at(11_000), at(15_000)));
    }
}
