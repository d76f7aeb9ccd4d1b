//! Reports to the supervisor: what happened to the lives, in order, until the supervisor has read them.

use super::state::Keeper;
use super::turn::retry_after;
use model::Instant;

impl Keeper {
    /// Sends the reports that can be sent without waiting.
    pub(super) fn say(&mut self, now: Instant) {
        let Some(supervisor) = self.supervisor.as_ref().filter(|supervisor| supervisor.open) else {
            return;
        };
        let (sent, result) = self.unsaid.send(&supervisor.socket, &self.lives);
        if sent > 0
            && let Some(at) = self.watchdog.said(now)
        {
            self.sources.wake_by(at);
        }
        let Err(errno) = result else { return };
        match retry_after(errno) {
            Some(pause) => self.sources.wake_by(now + pause),
            None => self.supervisor_closed(now),
        }
    }
}
