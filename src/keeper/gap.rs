//! Times in which the keeper did not run: the machine was paused, or all of the service was stopped.
//!
//! The timer then fires long after its time. The supervisor did not run either, as far as the keeper can know: it gets
//! the chance to show that it turns, and to renew the leases of its jobs, before it or they are ended for being late.

use std::time::Duration;

use super::state::Keeper;
use model::Instant;

impl Keeper {
    /// Puts off what was due in a time of at least `late` in which this process did not run.
    pub(super) fn stood_still(&mut self, now: Instant, late: Duration) {
        self.watchdog.begin_again(now);
        if self.watchdog.fed {
            self.feed();
        }
        for life in self.lives.values_mut() {
            life.fence = life.fence.map(|fence| fence.after(now, late));
        }
        self.spawner.suspect = None;
        if let Some(supervisor) = &mut self.supervisor {
            supervisor.stop_by = supervisor.stop_by.map(|at| at + late);
            supervisor.kill_at = supervisor.kill_at.map(|at| at + late);
        }
    }
}
