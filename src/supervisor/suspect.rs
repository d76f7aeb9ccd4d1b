//! Suspects: jobs during which the supervisor has died more than once. One of them may be what it dies of.
//!
//! A suspect runs alone on its host. Nothing else is asked for, and it begins when all other jobs have ended and the broker
//! knows it. If the supervisor dies again, no other job can have been the cause.
//!
//! Both have a limit, so that no job stops its host for ever: a suspect that has waited for [`Job::ALONE_FOR`] begins beside
//! what still runs, and for so long after its begin nothing else is asked for. There is never a second suspect beside it.

use super::Supervisor;
use super::jobs::Running;
use super::pool::Pool;
use super::worker::Slot;
use crate::model::{Instant, Job, JobId, WorkerId};

/// Which of the jobs that wait to run alone may begin.
#[derive(Clone, Copy, Debug)]
pub(super) enum RoomFor {
    /// A suspect runs, and has the host for itself.
    None,
    /// Those that run alone in their worker.
    Others,
    /// A suspect, too: no other job is here and the broker knows of no other, or it has waited for long enough.
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

    /// Until when it has this host for itself: to wait, or, once it has begun, to run.
    fn alone_until(&self) -> Instant {
        self.since + Job::ALONE_FOR
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
    /// The suspect that runs here, or waits to.
    fn suspect(&self) -> Option<&Running> {
        self.slots().flat_map(Slot::leased).find(|running| running.is_suspect_of_all())
    }

    /// Whether a suspect is here.
    pub(super) fn has_suspect(&self) -> bool {
        self.suspect().is_some()
    }

    /// The suspect that has this host for itself, and until when.
    pub(super) fn alone(&self, now: Instant) -> Option<(&JobId, Instant)> {
        let alone = self.suspect().filter(|suspect| now < suspect.alone_until())?;
        Some((&alone.job.id, alone.alone_until()))
    }

    /// Which of the jobs that wait to run alone may begin.
    pub(super) fn room_for(&self, now: Instant) -> RoomFor {
        let rests = |pool: &Pool| pool.intake.asked.is_none() && pool.ahead.is_empty();
        let is_clear = || self.unsettled.is_empty() && self.slots().all(Slot::is_harmless);
        let runs = self.slots().any(|slot| slot.jobs.iter().any(Running::is_suspect_of_all));
        match (runs, self.alone(now).is_some()) {
            (true, true) => RoomFor::None,
            (true, false) => RoomFor::Others,
            (false, true) if self.pools.iter().all(rests) && is_clear() => RoomFor::Suspects,
            (false, true) => RoomFor::Others,
            (false, false) => RoomFor::Suspects,
        }
    }
}
