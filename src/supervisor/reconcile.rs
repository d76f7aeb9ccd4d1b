//! The one place that compares what is with what should be.

use crate::pool::Pool;
use crate::slot::Slot;
use crate::{Command, Supervisor};
use model::{Instant, Stop};

impl Supervisor {
    /// Orders what is missing. A second call in a row orders nothing.
    pub(super) fn reconcile(&mut self, now: Instant) {
        if self.is_over() {
            return;
        }
        // First, so that no step below begins something with a job that must be given up.
        self.fence_off(now);
        self.give_up_burst(now);
        self.end_by_itself(now);
        if self.stop.is_none() {
            self.decide_who_leaves(now);
        }
        self.give_back(now);
        self.tend_workers(now);
        // After `tend_workers`: a suspect that has just begun has the host for itself from now on.
        self.hold_up(now);
        if self.stop.is_none() {
            for pool in self.pools.iter_mut() {
                pool.keep_up(now, self.lease, &mut self.random, &mut self.orders);
                // Jobs at hand find room first: their worker is not idle then, and the fetch asks for what is
                // left.
                pool.assign_ahead(now, &mut self.random, &mut self.unsettled, &mut self.orders);
                pool.shrink(now, &mut self.orders);
                pool.fetch(now, &mut self.random, &mut self.unsettled, &mut self.orders);
                pool.ask_to_grow(now, &mut self.orders);
            }
        }
        self.renew(now);
        self.unsettled.tell(now, &mut self.orders);
        self.ask_whether_idle(now);
        self.exit_when_done(now);
        debug_assert!(self.pools.iter().all(Pool::is_indexed));
    }

    /// Decides which workers leave: those that are replaced, too many, or worn out.
    fn decide_who_leaves(&mut self, now: Instant) {
        self.roll(now);
        self.pools.iter_mut().for_each(|pool| pool.fit(now));
        self.exchange_worn(now);
    }

    /// Stops fetching while a suspect has the host for itself, while the broker has not answered who holds the leases of
    /// jobs that run here, or while the worn out worker still runs as many jobs as its heir has places.
    fn hold_up(&mut self, now: Instant) {
        self.alone_until = self.alone(now).map(|(_, until)| until);
        let held_up = self.alone_until.is_some() || self.pools.iter().any(|pool| pool.is_in_doubt(now));
        self.pools.iter_mut().for_each(|pool| pool.hold_up(held_up));
    }

    fn give_back(&mut self, now: Instant) {
        let is_alone = self.alone(now).is_some();
        for pool in self.pools.iter_mut() {
            pool.give_back(now, self.stop.is_some(), &mut self.random, &mut self.unsettled);
            let stops = is_alone || self.stop.is_some() || pool.is_paused();
            pool.give_back_ahead(now, stops, &mut self.unsettled);
        }
    }

    fn tend_workers(&mut self, now: Instant) {
        let (room_for, stop) = (self.room_for(now), self.stop.as_ref());
        self.pools.iter_mut().for_each(|pool| pool.tend(now, stop, room_for, &mut self.orders));
    }

    fn renew(&mut self, now: Instant) {
        let due: Vec<_> = self.pools.iter_mut().flat_map(|pool| pool.begin_renewals(now)).collect();
        if !due.is_empty() {
            self.orders.push_back(Command::Renew(due));
        }
    }

    /// Begins to stop after the set number of jobs, or after the set time without any. It comes before the next fetch,
    /// so that no job is taken only to be given back.
    fn end_by_itself(&mut self, now: Instant) {
        if self.stop.is_some() {
            return;
        }
        let is_quiet = self.is_quiet();
        let was_idle = self.end.was_idle(now, is_quiet);
        let is_enough = self.end.is_reached(|| self.jobs_ended());
        if is_enough || was_idle {
            self.on_stop(now, Stop::Drain);
        }
    }

    /// Number of attempts that have ended here, without those that do not count.
    fn jobs_ended(&self) -> u64 {
        // Verdicts on their way count: to wait for the broker would begin more jobs than the set number.
        self.tallies.attempts() + self.unsettled.ended()
    }

    /// Exits when all is done. A worker that cannot be killed, or a broker that does not answer, delays the exit only
    /// for a limited time.
    fn exit_when_done(&mut self, now: Instant) {
        let open = !self.unsettled.is_empty() || self.pools.iter().any(Pool::is_fetching);
        let Some(stop) = &mut self.stop else { return };
        let alive = self.pools.iter().any(Pool::has_mortals);
        let stuck = self.pools.iter().any(Pool::has_stuck);
        if stop.is_done(now, alive, open || stuck) {
            self.unsettled.leave(&mut self.orders);
            let left = self.pools.iter().flat_map(Pool::slots).filter_map(Slot::left_alive);
            self.orders.extend(left);
            self.orders.push_back(Command::Exit);
        }
    }
}
