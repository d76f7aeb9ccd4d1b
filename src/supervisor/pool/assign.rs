//! Decides which worker gets which job, both of fetched jobs and of those kept ahead.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use super::Pool;
use super::index::Kind;
use crate::restart::Random;
use crate::slot::{self, Running, Slot};
use crate::unsettled::Unsettled;
use crate::{Command, classes};
use model::{Instant, Lease, Verdict, WorkerId};

/// Delay with which a job is released that cannot run at the moment it arrives.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

/// Where a fetched job goes.
enum Place {
    /// To this slot.
    Now(usize),
    /// The pool keeps it for a few milliseconds.
    Later,
    /// It goes back to the broker.
    Nowhere,
}

impl Pool {
    /// The workers for which to fetch jobs ahead, once half of the stock is used up: one entry for each job.
    pub(super) fn ahead_for(&self) -> Vec<WorkerId> {
        // A worker with several jobs at once fetches in batches anyway.
        if self.settings.jobs_at_once > 1 {
            return Vec::new();
        }
        let index = self.slots.index();
        let workers = index.all(Kind::Lasting);
        // By turns: each worker has a first job ahead before one gets a second.
        let turns = (0..).flat_map(|turn| workers.clone().map(move |at| self.later(&self.slots[at], turn)));
        turns.take(self.ahead.missing(index.count(Kind::Lasting))).collect()
    }

    /// The life that will be in the slot after the jobs kept ahead for it and `turn` more. Each call names another life
    /// where a life runs one job.
    fn later(&self, slot: &Slot, turn: u32) -> WorkerId {
        if !self.runs_one_job_a_life() {
            return slot.id();
        }
        let own = slot.id().generation;
        let last = self.ahead.latest_life(slot.id().slot).map_or(own, |latest| latest.max(own));
        WorkerId { generation: last.wrapping_add(turn + 1), ..slot.id() }
    }

    /// Hands the jobs kept ahead to workers with room.
    pub(crate) fn assign_ahead(
        &mut self,
        now: Instant,
        random: &mut Random,
        unsettled: &mut Unsettled,
        orders: &mut VecDeque<Command>,
    ) {
        if self.ahead.is_empty() {
            return;
        }
        let others = !self.runs_one_job_a_life();
        let room: BTreeSet<usize> = self.slots.index().room.positions().collect();
        for at in room {
            let mut slot = self.slots.edit(at, &self.settings);
            while slot.room(&self.settings) > 0
                && let Some(job) = self.ahead.next_for(slot.id(), others)
            {
                // What the workers know may have become known since the fetch, or this process has stood still.
                let verdict = match classes::knows(&self.settings, job.job()) {
                    true if job.is_sure(now) => {
                        slot.assign(now, job, &self.settings, orders);
                        continue;
                    }
                    true => Verdict::Release { after: Duration::ZERO, counts: None },
                    false => self.unknown.refuse(job.job(), random),
                };
                unsettled.add(now, self.number, slot::unstarted(job.lease(), verdict));
            }
        }
    }

    fn runs_one_job_a_life(&self) -> bool {
        self.settings.jobs_per_life == Some(1)
    }

    /// Hands a fetched job to a worker, or keeps it for a moment. A job under which a worker died runs alone in its
    /// worker; one under which supervisors died runs alone on this host. Gives back the lease of a job without a place,
    /// and the delay with which to release it.
    pub(crate) fn take_fetched(
        &mut self,
        now: Instant,
        running: Running,
        meant: Option<WorkerId>,
        orders: &mut VecDeque<Command>,
    ) -> Option<(Lease, Duration)> {
        let is_suspect = running.job().is_suspect();
        // Where a worker runs one job at a time, a crashed job is alone in it anyway.
        let alone = is_suspect || running.job().crashes > 0 && self.settings.jobs_at_once > 1;
        let place = match alone {
            true if is_suspect => self.place_suspect(meant).map_or(Place::Nowhere, Place::Now),
            true => self.place_alone().map_or(Place::Nowhere, Place::Now),
            false => self.place_fetched(meant),
        };
        match place {
            Place::Now(at) if alone => {
                self.slots.edit(at, &self.settings).assign_alone(now, running, &self.settings);
            }
            Place::Now(at) => {
                self.slots.edit(at, &self.settings).assign(now, running, &self.settings, orders);
            }
            Place::Later => self.ahead.keep(running, meant),
            Place::Nowhere => {
                // All slots are taken: at once the job would only come back. A suspect's next fetch is for a
                // life that exists.
                let after = if alone && !is_suspect { PAUSE } else { Duration::ZERO };
                return Some((running.lease().clone(), after));
            }
        }
        None
    }

    /// Where a fetched job goes now: to the worker for which it was fetched, or to another one if the pool runs several
    /// jobs in a life. Else the pool keeps it, or releases it if that life is over.
    fn place_fetched(&self, meant: Option<WorkerId>) -> Place {
        if !self.runs_one_job_a_life() {
            return self.place(meant).map_or(Place::Later, Place::Now);
        }
        let at = meant.and_then(|meant| self.slots.find_slot(meant.slot));
        match at.map(|at| (at, &self.slots[at])) {
            Some((at, slot)) if Some(slot.id()) == meant && slot.room(&self.settings) > 0 => Place::Now(at),
            Some((_, slot)) if Some(slot.id()) == meant && slot.is_to_come() => Place::Later,
            Some((_, slot)) if Some(slot.id()) < meant => Place::Later,
            // The broker has recorded that life for the job, so no other one may run it.
            Some(_) | None => Place::Nowhere,
        }
    }

    /// When to release the jobs kept ahead; None while a fetch is under way.
    pub(super) fn give_back_ahead_at(&self) -> Option<Instant> {
        self.ahead.due().filter(|_| self.intake.asked.is_none())
    }

    /// Releases the jobs kept ahead that no worker takes.
    pub(crate) fn give_back_ahead(&mut self, now: Instant, stopping: bool, unsettled: &mut Unsettled) {
        // A fetch under way may bring jobs that come after these: they would run before them. All are released together.
        if self.intake.asked.is_some() && !stopping {
            return;
        }
        let verdict = || Verdict::Release { after: Duration::ZERO, counts: None };
        for running in self.ahead.give_back(now, stopping) {
            unsettled.add(now, self.number, slot::unstarted(running.lease(), verdict()));
        }
    }

    /// The slots with a suspect.
    pub(crate) fn suspects(&self) -> impl Iterator<Item = &Slot> {
        let closed = self.slots.index().all(Kind::Closed).map(|at| &self.slots[at]);
        closed.filter(|slot| slot.leased().any(Running::is_suspect_of_all))
    }

    /// The slot for a suspect: that of the life for which it was fetched, which the broker has recorded.
    fn place_suspect(&mut self, meant: Option<WorkerId>) -> Option<usize> {
        let at = meant.and_then(|meant| self.with_room(meant));
        if at.is_none() {
            // It was fetched for a life that does not exist yet: the next fetch is for one that does.
            self.ahead.slow_down();
        }
        at
    }
}
