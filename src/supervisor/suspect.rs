//! Suspects: jobs during which the supervisor has died more than once. One of them may be what it dies of.
//!
//! A suspect runs alone on its host. While it is here nothing else is asked for, and it begins when all other jobs have
//! ended and the broker knows it. If the supervisor dies again, no other job can have been the cause.

use super::Supervisor;
use super::jobs::Running;
use super::pool::Pool;
use super::worker::Slot;
use crate::model::{JobId, WorkerId};

/// Which of the jobs that wait to run alone may begin.
#[derive(Clone, Copy, Debug)]
pub(super) enum RoomFor {
    /// A suspect runs.
    None,
    /// Those that run alone in their worker.
    Others,
    /// A suspect, too: no other job is here, and the broker knows of no other.
    Suspects,
}

impl RoomFor {
    pub(super) fn lets_begin(self, waiting: &Running) -> bool {
        match self {
            RoomFor::None => false,
            RoomFor::Others => !waiting.is_suspect_of_all(),
            RoomFor::Suspects => true,
        }
    }
}

impl Running {
    /// Whether it waits to run alone on this host, or does.
    pub(super) fn is_suspect_of_all(&self) -> bool {
        self.alone && self.job.is_suspect()
    }
}

impl Slot {
    /// Whether nothing here can end the supervisor: no job runs or is about to, but for what is dying.
    fn is_harmless(&self) -> bool {
        let dies = self.life.stuck.is_some();
        (self.jobs.is_empty() || dies) && self.waits.iter().all(Running::is_suspect_of_all)
    }
}

impl Pool {
    /// The place for a suspect: that of the life it was fetched for, which the broker has written down.
    pub(super) fn place_suspect(&mut self, meant: Option<WorkerId>) -> Option<usize> {
        let has_room = |slot: &Slot| Some(slot.id) == meant && slot.room(&self.settings) > 0;
        let at = self.slots.iter().position(has_room);
        if at.is_none() {
            // It was fetched for a life that is yet to come: the next time it is fetched for one that is there.
            self.ahead.slow_down();
        }
        at
    }
}

impl Supervisor {
    /// The suspect that runs here, or waits for all others to end.
    pub(super) fn suspect(&self) -> Option<&JobId> {
        let mut leased = self.slots().flat_map(Slot::leased);
        leased.find(|running| running.is_suspect_of_all()).map(|running| &running.job.id)
    }

    /// Which of the jobs that wait to run alone may begin.
    pub(super) fn room_for(&self) -> RoomFor {
        let rests = |pool: &Pool| pool.intake.asked.is_none() && pool.ahead.is_empty();
        let is_clear = || self.unsettled.is_empty() && self.slots().all(Slot::is_harmless);
        if self.slots().any(|slot| slot.jobs.iter().any(Running::is_suspect_of_all)) {
            RoomFor::None
        } else if self.pools.iter().all(rests) && is_clear() {
            RoomFor::Suspects
        } else {
            RoomFor::Others
        }
    }
}
