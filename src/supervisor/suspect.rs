//! Suspects: jobs during which a supervisor died more than once. One of them may be the cause.
//!
//! A suspect runs alone on its host. The supervisor fetches nothing else, and the suspect begins when all other jobs
//! have ended and the broker has confirmed it. If the supervisor dies again, no other job can have been the cause.
//!
//! Both waits have a limit, so that no job stops its host for ever. A suspect that has waited for [`Job::ALONE_FOR`]
//! begins beside the jobs that still run, and for the same time after its begin nothing else is fetched. A second
//! suspect never runs beside it.

use super::Supervisor;
use super::jobs::Running;
use super::pool::Pool;
use super::worker::Slot;
use model::{Instant, Job, JobId, WorkerId};

/// Which of the jobs that wait to run alone may begin.
#[derive(Clone, Copy, Debug)]
pub(super) enum RoomFor {
    /// None: a suspect runs, and has the host for itself.
    None,
    /// Jobs that run alone in their worker.
    Others,
    /// Suspects, too: no other job is here and the broker has confirmed all verdicts, or the suspect has waited for
    /// long enough.
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
    /// Whether the job waits to run alone on this host, or does so.
    pub(super) fn is_suspect_of_all(&self) -> bool {
        self.alone && self.job.is_suspect()
    }

    /// Until when the suspect has this host for itself: first to wait, then, once begun, to run.
    fn alone_until(&self) -> Instant {
        self.since + Job::ALONE_FOR
    }
}

impl Slot {
    /// Whether no job in the slot can end the supervisor: none runs or is about to, apart from those that are dying.
    fn is_harmless(&self) -> bool {
        let dies = self.life.stuck.is_some();
        (self.jobs.is_empty() || dies) && self.waits.iter().all(Running::is_suspect_of_all)
    }
}

impl Pool {
    /// The slots with a suspect.
    fn suspects(&self) -> impl Iterator<Item = &Slot> {
        self.slots.index().suspects.positions().map(|at| &self.slots[at])
    }

    /// The slot for a suspect: that of the life for which it was fetched, which the broker has recorded.
    pub(super) fn place_suspect(&mut self, meant: Option<WorkerId>) -> Option<usize> {
        let at = meant.and_then(|meant| self.with_room(meant));
        if at.is_none() {
            // It was fetched for a life that does not exist yet: the next fetch is for one that does.
            self.ahead.slow_down();
        }
        at
    }
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
        let alone = self.suspect().filter(|suspect| now < suspect.alone_until())?;
        Some((&alone.job.id, alone.alone_until()))
    }

    /// Which of the jobs that wait to run alone may begin.
    pub(super) fn room_for(&self, now: Instant) -> RoomFor {
        let rests = |pool: &Pool| pool.intake.asked.is_none() && pool.ahead.is_empty();
        let is_clear = || self.unsettled.is_empty() && self.slots().all(Slot::is_harmless);
        let mut suspects = self.pools.iter().flat_map(Pool::suspects);
        let runs = suspects.any(|slot| slot.jobs.iter().any(Running::is_suspect_of_all));
        match (runs, self.alone(now).is_some()) {
            (true, true) => RoomFor::None,
            (true, false) => RoomFor::Others,
            (false, true) if self.pools.iter().all(rests) && is_clear() => RoomFor::Suspects,
            (false, true) => RoomFor::Others,
            (false, false) => RoomFor::Suspects,
        }
    }
}
