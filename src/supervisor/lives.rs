//! What happens to workers.

use std::collections::VecDeque;

use super::jobs::{Phase, Running};
use super::restart::Random;
use super::settle::Unsettled;
use super::worker::{End, Slot, State, Why};
use super::{Command, Supervisor};
use crate::model::{Exit, Instant, PoolSettings, Revocation, Verdict, WorkerId};

impl Supervisor {
    pub(super) fn on_spawn_failed(&mut self, now: Instant, worker: WorkerId, why: String) {
        let Some((_, slot, random, _)) = self.life(worker) else { return };
        match slot.state {
            State::Starting | State::Stopping(_) | State::Killed(_) => {
                slot.down(now, End::Early(why), |wait| random.jitter(wait, 20));
            }
            State::Down | State::Ready | State::Busy => {}
        }
    }

    pub(super) fn on_ready(&mut self, now: Instant, worker: WorkerId) {
        let Some((_, slot, ..)) = self.life(worker) else { return };
        if slot.state == State::Starting {
            slot.ready(now);
            self.pools[usize::from(worker.slot.pool)].boots.succeeded();
        }
    }

    pub(super) fn on_exited(&mut self, now: Instant, worker: WorkerId, exit: &Exit) {
        self.fence_off(now);
        let Some((pool, slot, random, mut book)) = self.life(worker) else { return };
        let (jobs, end) = (std::mem::take(&mut slot.jobs), slot.end(now, exit));
        for job in &jobs {
            let judged = job.judge(exit, jobs.len() == 1, pool.retry, random);
            book.close(now, job, slot, judged, Some(exit));
        }
        let died_in_boot = slot.is_booting();
        slot.down(now, end, |wait| random.jitter(wait, 20));
        self.suspect(&jobs);
        if died_in_boot {
            self.pools[usize::from(worker.slot.pool)].boots.died(now);
        }
    }

    /// Killed, by us or at the self-fence by the keeper, and not dead: its jobs are not settled.
    pub(super) fn on_stuck(&mut self, now: Instant, worker: WorkerId, cause: String) {
        let Some((_, slot, ..)) = self.life(worker) else { return };
        slot.life.stuck = Some(cause);
        match slot.state {
            State::Killed(_) => {}
            State::Stopping(why) => slot.enter(State::Killed(why), now, None),
            State::Down | State::Starting | State::Ready | State::Busy => {
                let why = Why::Lost(Revocation::SelfFenced);
                slot.enter(State::Killed(why), now, None);
                slot.jobs.iter_mut().for_each(|job| job.phase = Phase::Ends(why));
            }
        }
    }

    /// The life itself, never the one before or after it in the same place, with what its handlers need.
    pub(super) fn life(
        &mut self,
        worker: WorkerId,
    ) -> Option<(&PoolSettings, &mut Slot, &mut Random, Book<'_>)> {
        let pool = self.pools.get_mut(usize::from(worker.slot.pool))?;
        let slot = pool.slots.iter_mut().find(|slot| slot.id == worker)?;
        let book = Book { unsettled: &mut self.unsettled, orders: &mut self.orders };
        (slot.state != State::Down).then_some((&pool.settings, slot, &mut self.random, book))
    }
}

/// Where the ends of jobs are written down.
pub(super) struct Book<'a> {
    unsettled: &'a mut Unsettled,
    orders: &'a mut VecDeque<Command>,
}

impl Book<'_> {
    pub(super) fn close(
        &mut self,
        now: Instant,
        running: &Running,
        slot: &Slot,
        judged: Option<(Verdict, bool)>,
        exit: Option<&Exit>,
    ) {
        match (judged, &running.phase) {
            (Some(verdict), _) => {
                let settlement = running.settlement(now, (slot.id, &slot.life), verdict, exit);
                self.unsettled.add(now, settlement);
            }
            (None, Phase::Ends(why)) => {
                let dropped = Command::Dropped(running.job.id.clone(), running.lease.fence, why.as_str());
                self.orders.push_back(dropped);
            }
            (None, Phase::Runs | Phase::Said(_)) => {}
        }
    }
}
