//! What happens to workers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::ahead::Ahead;
use super::classes::{self, Unknown};
use super::jobs::{Phase, Running};
use super::restart::{Boots, Random};
use super::settle::tally;
use super::slots::Edit;
use super::unsettled::Unsettled;
use super::why::Why;
use super::worker::{End, Slot, State};
use super::{Command, Supervisor, verdict};
use model::{
    Classes, Exit, ExitStatus, Instant, Lease, PoolSettings, Revocation, Tally, Verdict, WorkerId, WorkerName,
};

impl Supervisor {
    /// A template that does not fork in time, so that the life is killed, is of no use any more.
    pub(super) fn on_spawn_failed(&mut self, now: Instant, worker: WorkerId, why: String) {
        let Some(Alive { pool, mut slot, random, mut book, .. }) = self.life(worker) else { return };
        let undone = slot.life.template.filter(|_| slot.state == State::Killed(Why::Boot));
        let end = match slot.state {
            State::Starting | State::Stopping(Why::Boot) | State::Killed(Why::Boot | Why::Fault) => {
                Some(End::Early(why))
            }
            // It was to end anyway.
            State::Stopping(_) | State::Killed(_) => Some(End::Planned),
            State::Down | State::Ready | State::Busy | State::Unproven => None,
        };
        if let Some(end) = end {
            book.bury(now, pool, &mut slot, end, 0, random);
        }
        drop(slot);
        if let Some(Alive { slot: mut template, .. }) = undone.and_then(|template| self.life(template)) {
            template.faulty("it did not fork in time".into());
        }
    }

    pub(super) fn on_ready(&mut self, now: Instant, worker: WorkerId) {
        let Some(Alive { mut slot, boots, .. }) = self.life(worker) else { return };
        if slot.state == State::Starting {
            slot.ready(now);
            boots.succeeded();
            boots.proven |= !slot.is_template();
        }
    }

    pub(super) fn on_exited(&mut self, now: Instant, worker: WorkerId, exit: &Exit, followed: bool) {
        self.fence_off(now);
        self.hear_of_fence(now, worker, exit);
        let Some(Alive { pool, mut slot, boots, random, mut book, .. }) = self.life(worker) else { return };
        let (jobs, end) = (std::mem::take(&mut slot.jobs), slot.end(now, pool, exit));
        let (count, death) = (jobs.len(), verdict::of_death(&slot.life, exit));
        let (in_company, is_worker) = (count > 1, pool.jobs_per_life != Some(1));
        for job in jobs {
            if in_company && job.is_suspect() {
                let name = WorkerName::new(pool.name.as_str(), slot.id);
                slot.waits.push_back(job.after_death(now, name, &death.message));
            } else {
                let judged = job.judge((exit, is_worker), &death, classes::retry(pool, &job.job), random);
                book.close(now, &job, (pool, &slot), judged, Some(exit));
            }
        }
        if slot.is_booting() {
            boots.died(now);
        }
        book.bury(now, pool, &mut slot, end, count, random);
        drop(slot);
        if followed && let Some((pool, slot)) = self.place_of(worker.next()) {
            self.pools[pool].followed(now, slot, self.lease, &mut self.random);
        }
    }

    /// A SIGKILL after `armed`, when the keeper kills the life before its leases end, was the keeper's: the running jobs
    /// are released unspent, however late this process hears of it.
    fn hear_of_fence(&mut self, now: Instant, worker: WorkerId, exit: &Exit) {
        let is_killed = matches!(exit.status, ExitStatus::Signal { signal: 9, core: _ });
        let Some(Alive { slot, .. }) = self.life(worker) else { return };
        let has_fallen = slot.life.armed.is_some_and(|armed| armed <= now)
            || slot.life.fell_by.is_some_and(|fell_by| now <= fell_by);
        if !is_killed || !has_fallen {
            return;
        }
        let ours = slot.leased().filter(|job| job.phase == Phase::Runs);
        let leases: Vec<Lease> = ours.map(|job| job.lease.clone()).collect();
        drop(slot);
        for lease in leases {
            self.lose_job(now, &lease.job, lease.fence, Revocation::SelfFenced);
        }
    }

    pub(super) fn on_faulty(&mut self, worker: WorkerId, how: String) {
        if let Some(Alive { mut slot, .. }) = self.life(worker) {
            slot.faulty(how);
        }
    }

    /// The first process of the life has ended, or we or the self-fence killed it, and some process of its tree does
    /// not die. Until that is proven dead its jobs are ours: their leases are renewed, and nothing is settled.
    pub(super) fn on_stuck(&mut self, now: Instant, worker: WorkerId, cause: String) {
        self.fence_off(now);
        let Some(Alive { mut slot, .. }) = self.life(worker) else { return };
        slot.life.stuck = Some(cause);
        match slot.state {
            State::Killed(_) | State::Unproven => {}
            State::Stopping(why) => slot.enter(State::Killed(why), now, None),
            State::Down | State::Starting | State::Ready | State::Busy => {
                slot.enter(State::Unproven, now, None);
            }
        }
    }

    pub(super) fn on_outgrown(&mut self, worker: WorkerId) {
        if let Some(Alive { mut slot, .. }) = self.life(worker) {
            slot.life.outgrown = true;
        }
    }

    pub(super) fn on_knows(&mut self, pool: u16, classes: Arc<Classes>) {
        if let Some(pool) = self.pools.get_mut(usize::from(pool)) {
            pool.unknown.learn(&classes);
            pool.settings.knows = Some(classes);
        }
    }

    pub(super) fn on_waiting(&mut self, now: Instant, pool: u16, waiting: bool) {
        if let Some(pool) = self.pools.get_mut(usize::from(pool)) {
            pool.waiting(now, waiting);
        }
    }

    /// This very life, never an earlier or later one in the same slot.
    pub(super) fn life(&mut self, worker: WorkerId) -> Option<Alive<'_>> {
        let (at, slot) = self.place_of(worker)?;
        let pool = self.pools.get_mut(at)?;
        let slot = pool.slots.edit(slot, &pool.settings);
        let (unsettled, tallies) = (&mut self.unsettled, &mut self.tallies);
        let book = Book { unsettled, tallies, orders: &mut self.orders };
        let (boots, unknown, ahead) = (&mut pool.boots, &mut pool.unknown, &mut pool.ahead);
        let random = &mut self.random;
        let alive = slot.state != State::Down;
        alive.then_some(Alive { pool: &pool.settings, slot, boots, unknown, ahead, random, book })
    }
}

/// A life, with what its handlers need.
pub(super) struct Alive<'a> {
    pub(super) pool: &'a PoolSettings,
    pub(super) slot: Edit<'a>,
    pub(super) boots: &'a mut Boots,
    pub(super) unknown: &'a mut Unknown,
    pub(super) ahead: &'a mut Ahead,
    pub(super) random: &'a mut Random,
    pub(super) book: Book<'a>,
}

/// Where the ends of jobs and of lives are recorded.
pub(super) struct Book<'a> {
    unsettled: &'a mut Unsettled,
    tallies: &'a mut BTreeMap<String, Tally>,
    orders: &'a mut VecDeque<Command>,
}

impl Book<'_> {
    /// A life with this many jobs is over. An unexpected end is counted and logged.
    fn bury(
        &mut self,
        now: Instant,
        pool: &PoolSettings,
        slot: &mut Slot,
        end: End,
        jobs: usize,
        random: &mut Random,
    ) {
        let (worker, booted) = (slot.id, slot.life.ready);
        let why = match &end {
            End::Planned => None,
            End::Good(why) | End::Early(why) => Some(why.clone()),
        };
        slot.down(now, end, |wait| random.jitter(wait, 20));
        if let Some(why) = why {
            tally(self.tallies, &pool.name).restarts += 1;
            let next = slot.deadline.map(|at| at.since(now));
            self.orders.push_back(Command::Died { worker, why, booted, next, jobs });
        }
    }

    pub(super) fn close(
        &mut self,
        now: Instant,
        running: &Running,
        (pool, slot): (&PoolSettings, &Slot),
        judged: Option<(Verdict, bool)>,
        exit: Option<&Exit>,
    ) {
        match (judged, &running.phase) {
            (Some(verdict), _) => {
                let name = WorkerName::new(pool.name.as_str(), slot.id);
                let settlement = running.settlement(now, (name, &slot.life), verdict, exit);
                self.unsettled.add(now, slot.id.slot.pool, settlement);
            }
            (None, Phase::Ends(why)) => {
                let dropped = Command::LeaseLost {
                    job: running.job.id.clone(),
                    fence: running.lease.fence,
                    why: why.as_str(),
                };
                self.orders.push_back(dropped);
            }
            (None, Phase::Runs | Phase::Said(_)) => {}
        }
    }
}
