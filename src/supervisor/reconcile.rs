//! The one place that compares what is with what should be.

use super::pool::Pool;
use super::worker::{Slot, State};
use super::{Command, Supervisor};
use crate::model::{Instant, Lease, Revocation, Stop};

impl Supervisor {
    /// Orders what is missing. A second call in a row orders nothing.
    pub(super) fn reconcile(&mut self, now: Instant) {
        if self.is_over() {
            return;
        }
        self.fence_off(now);
        self.give_up_burst(now);
        self.end_by_itself(now);
        if self.stop.is_none() {
            self.decide_who_leaves(now);
        }
        self.give_back(now);
        self.tend_workers(now);
        self.hold_up(now);
        if self.stop.is_none() {
            for pool in &mut self.pools {
                pool.keep_up(now, self.lease, &mut self.random, &mut self.orders);
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
    }

    /// Decides which workers leave: those that are replaced, too many, or worn out.
    fn decide_who_leaves(&mut self, now: Instant) {
        self.roll(now);
        for pool in &mut self.pools {
            pool.fit(now);
            pool.exchange_worn(now);
        }
    }

    /// Stops fetching while a suspect has the host for itself, or while the broker has not answered who holds the
    /// leases of jobs that run here.
    fn hold_up(&mut self, now: Instant) {
        self.alone_until = self.alone(now).map(|(_, until)| until);
        let held_up = self.alone_until.is_some() || self.slots().any(|slot| slot.is_in_doubt(now));
        self.pools.iter_mut().for_each(|pool| pool.intake.held_up = held_up);
    }

    /// Gives up every job whose lease ends too soon to wait for its renewal.
    pub(super) fn fence_off(&mut self, now: Instant) {
        let pools = self.pools.iter().flat_map(|pool| pool.slots.iter().map(|slot| (&pool.settings, slot)));
        let jobs = pools.flat_map(|(pool, slot)| slot.fenced(pool).map(move |running| (pool.grace, running)));
        let late = jobs.filter(|(grace, running)| running.is_ours() && running.fence_at(*grace) <= now);
        let late: Vec<Lease> = late.map(|(_, running)| running.lease.clone()).collect();
        for lease in late {
            self.lose_job(now, &lease.job, lease.fence, Revocation::SelfFenced);
        }
    }

    fn give_back(&mut self, now: Instant) {
        let is_alone = self.alone(now).is_some();
        for pool in &mut self.pools {
            pool.give_back(now, self.stop.is_some(), &mut self.random, &mut self.unsettled);
            let stops = is_alone || self.stop.is_some() || pool.intake.paused;
            pool.give_back_ahead(now, stops, &mut self.unsettled);
        }
    }

    /// Ends jobs that run too long, sends each worker the signal that is due or the job that waits for it, and arms its
    /// self-fence.
    fn tend_workers(&mut self, now: Instant) {
        let (room_for, stop) = (self.room_for(now), self.stop.as_ref());
        for pool in &mut self.pools {
            for slot in &mut pool.slots {
                slot.end_late_jobs(now, &pool.settings, &mut self.orders);
                if let Some(signal) = slot.due_signal(now, &pool.settings, stop) {
                    let kill_at = now + signal.1.grace(&pool.settings);
                    let kill_at = stop.map_or(kill_at, |stop| kill_at.min(stop.deadline));
                    slot.send(now, signal, kill_at, &mut self.orders);
                }
                slot.assign_waiting(now, &pool.settings, room_for, &mut self.orders);
                slot.arm(now, &pool.settings, &mut self.orders);
            }
        }
    }

    fn renew(&mut self, now: Instant) {
        let slots = self.pools.iter_mut().flat_map(|pool| &mut pool.slots);
        let mut due = Vec::new();
        for running in slots.flat_map(Slot::leased_mut).filter(|running| running.is_ours()) {
            if running.renew_at.is_some_and(|at| at <= now) {
                running.renew_at = None;
                due.push(running.lease.clone());
            }
        }
        if !due.is_empty() {
            self.orders.push_back(Command::Renew(due));
        }
    }

    /// Jobs that have ended may have put others: fetches once more before the supervisor stops because it is idle.
    pub(super) fn look_again(&mut self) {
        if self.end.when_idle.is_some() {
            self.pools.iter_mut().for_each(Pool::woken);
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
        let is_enough = self.end.after.is_some_and(|after| self.jobs_ended() >= after);
        if is_enough || was_idle {
            self.on_stop(now, Stop::Drain);
        }
    }

    /// Number of attempts that have ended here, without those that do not count.
    fn jobs_ended(&self) -> u64 {
        let ends = self.tallies().values().flat_map(|tally| &tally.settled);
        let confirmed =
            ends.filter(|(verdict, _)| **verdict != "released").map(|(_, count)| count).sum::<u64>();
        confirmed + self.unsettled.ended()
    }

    /// Exits when all is done. A worker that cannot be killed, or a broker that does not answer, delays the exit only
    /// for a limited time.
    fn exit_when_done(&mut self, now: Instant) {
        let open = !self.unsettled.is_empty() || self.pools.iter().any(|pool| pool.intake.asked.is_some());
        let alive = self.slots().any(|slot| slot.state != State::Down && slot.life.stuck.is_none());
        let stuck = self.slots().any(|slot| slot.life.stuck.is_some());
        let Some(stop) = &mut self.stop else { return };
        stop.patience = stop.patience.filter(|patience| now < *patience);
        if !alive && (stop.patience.is_none() || !open && !stuck) {
            stop.over = true;
            self.unsettled.leave(&mut self.orders);
            let left = self.pools.iter().flat_map(|pool| &pool.slots).filter_map(Slot::left_alive);
            self.orders.extend(left);
            self.orders.push_back(Command::Exit);
        }
    }
}
