//! Times in which the keeper did not run: the machine was paused, or all of the service was stopped.
//!
//! The timer then fires long after its time. The supervisor did not run either, as far as the keeper can know: it gets
//! the chance to show that it turns, and to renew the leases of its jobs, before it or they are ended for being late.

use std::time::Duration;

use super::state::Keeper;
use model::Instant;

/// A timer that is noticed later than this says that the keeper has been stopped, and is not only slow.
pub(super) const STOPPED: Duration = Duration::from_secs(1);
/// How long the supervisor has to renew the leases of its jobs: longer than it waits for the answer itself.
const PATIENCE: Duration = Duration::from_secs(5);
/// A fence falls this long before the end of the lease.
const BEFORE_END: Duration = Duration::from_secs(2);
/// The time to end a job, of those two seconds.
const TO_END: Duration = Duration::from_secs(1);

impl Keeper {
    /// Puts off what was due in a time of at least `late` in which this process did not run.
    pub(super) fn stood_still(&mut self, now: Instant, late: Duration) {
        self.watchdog.begin_again(now);
        if self.watchdog.fed {
            self.feed();
        }
        for life in self.lives.values_mut().filter(|life| !life.reprieved) {
            let put_off = life.kill_at.and_then(|at| put_off(at, now));
            life.reprieved = put_off.is_some();
            life.kill_at = put_off.or(life.kill_at);
        }
        if let Some(supervisor) = &mut self.supervisor {
            supervisor.stop_by = supervisor.stop_by.map(|at| at + late);
            supervisor.kill_at = supervisor.kill_at.map(|at| at + late);
        }
    }
}

/// When a fence falls that was due while nobody could keep it; None = when it was to fall. While the lease lasts, the job
/// is dead before its end all the same.
fn put_off(fence: Instant, now: Instant) -> Option<Instant> {
    if fence > now {
        return None;
    }
    let last = fence + BEFORE_END;
    Some(if last <= now { now + PATIENCE } else { now.max(last - TO_END) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fence_is_put_off_past_the_end_of_its_lease_only_if_that_is_past() {
        let put_off = |fence| put_off(Instant::from_millis(fence), Instant::from_millis(10_000));
        assert_eq!(put_off(10_001), None, "it is not due");
        assert_eq!(put_off(9_900), Some(Instant::from_millis(10_900)), "the lease lasts until 11.9");
        assert_eq!(put_off(8_500), Some(Instant::from_millis(10_000)), "until 10.5");
        assert_eq!(put_off(8_000), Some(Instant::from_millis(15_000)));
    }
}
