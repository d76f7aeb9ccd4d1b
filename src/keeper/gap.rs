//! Times in which the keeper did not run: the machine was paused, or all of the service was stopped.
//!
//! The timer then fires long after its time. The supervisor did not run either, as far as the keeper can know: it gets
//! the chance to show that it turns, and to renew the leases of its jobs, before it or they are ended for being late.

use std::time::Duration;

use super::state::Keeper;
use crate::model::Instant;

/// A timer that is noticed later than this says that the keeper has been stopped, and is not only slow.
pub(super) const STOPPED: Duration = Duration::from_secs(1);
/// How long the supervisor has to renew the leases of its jobs: longer than it waits for the answer itself.
const PATIENCE: Duration = Duration::from_secs(5);

impl Keeper {
    /// Puts off what was due in a time of at least `late` in which this process did not run.
    pub(super) fn stood_still(&mut self, now: Instant, late: Duration) {
        self.watchdog.begin_again(now);
        if self.watchdog.fed {
            self.feed();
        }
        let soon = now + PATIENCE;
        for life in self.lives.values_mut().filter(|life| !life.reprieved) {
            life.reprieved = life.kill_at.is_some_and(|at| at < soon);
            life.kill_at = life.kill_at.map(|at| at.max(soon));
        }
        if let Some(supervisor) = &mut self.supervisor {
            supervisor.stop_by = supervisor.stop_by.map(|at| at + late);
            supervisor.kill_at = supervisor.kill_at.map(|at| at + late);
        }
    }
}
