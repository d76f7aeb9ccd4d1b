//! Suspects: jobs during which a supervisor died more than once. One of them may be the cause.
//!
//! A suspect runs alone on its host. The supervisor fetches nothing else, and the suspect begins when all other jobs
//! have ended and the broker has confirmed it. If the supervisor dies again, no other job can have been the cause.
//!
//! Both waits have a limit, so that no job stops its host for ever. A suspect that has waited for [`Job::ALONE_FOR`]
//! begins beside the jobs that still run, and for the same time after its begin nothing else is fetched. A second
//! suspect never runs beside it.

use crate::Supervisor;
use crate::pool::Pool;
use crate::slot::{RoomFor, Running, Slot};
use model::{Instant, Job, JobId};

/// Until when the suspect has this host for itself: first to wait, then, once begun, to run.
fn alone_until(suspect: &Running) -> Instant {
    suspect.since() + Job::ALONE_FOR
}

impl Supervisor {
    /// The suspect that runs or waits here.
    fn suspect(&self) -> Option<&Running> {
        let suspects = self.pools.iter().flat_map(Pool::suspects);
        suspects.flat_map(Slot::leased).find(|running| running.is_suspect_of_all())
    }

    /// Whether a suspect is here.
    pub(super) fn has_suspect(&self) -> bool {
        self.suspect().is_some()
    }

    /// The suspect that has this host for itself, and until when.
    pub(super) fn alone(&self, now: Instant) -> Option<(&JobId, Instant)> {
        let alone = self.suspect().filter(|suspect| now < alone_until(suspect))?;
        Some((&alone.job().id, alone_until(alone)))
    }

    /// Which of the jobs that wait to run alone may begin.
    pub(super) fn room_for(&self, now: Instant) -> RoomFor {
        let is_clear = || self.unsettled.is_empty() && self.slots().all(Slot::is_harmless);
        let mut suspects = self.pools.iter().flat_map(Pool::suspects);
        let runs = suspects.any(Slot::runs_suspect);
        match (runs, self.alone(now).is_some()) {
            (true, true) => RoomFor::None,
            // It runs beyond its time alone: others begin again, but no second suspect.
            (true, false) => RoomFor::Others,
            // If the supervisor dies, the broker must know of this one job alone: only then does the death
            // tell something.
            (false, true) if self.pools.iter().all(Pool::is_at_rest) && is_clear() => RoomFor::Suspects,
            (false, true) => RoomFor::Others,
            (false, false) => RoomFor::Suspects,
        }
    }
}
