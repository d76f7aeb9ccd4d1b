//! What happens to jobs.

use std::time::Duration;

use super::jobs::{self, Heard, Phase, Running};
use super::pool::Pool;
use super::worker::{Slot, Why};
use super::{Command, Supervisor, verdict};
use crate::model::{Fence, Fetched, Instant, JobId, Lease, Outcome, Revocation, Verdict, WorkerId};

/// A job that cannot run at the moment it arrives is given back for so long.
const PAUSE: Duration = Duration::from_secs(1);

/// So much is remembered of jobs that are not here.
const REMEMBERED: usize = 1000;

impl Supervisor {
    pub(super) fn on_finished(
        &mut self,
        now: Instant,
        worker: WorkerId,
        (job, fence): (&JobId, Fence),
        outcome: Outcome,
    ) {
        let Some((pool, slot, random, mut book)) = self.life(worker) else { return };
        let Some(index) = slot.jobs.iter().position(|running| running.is(job, fence)) else { return };
        let judged = match slot.jobs[index].hear(outcome, pool.jobs_at_once > 1) {
            Heard::Nothing => return,
            // Its tree may have left something behind: the word counts when the worker is proven dead.
            Heard::Outcome(outcome) if pool.jobs_per_life == Some(1) => {
                slot.jobs[index].phase = Phase::Said(outcome);
                slot.life.finished += 1;
                return slot.leave(now, pool.grace);
            }
            Heard::Outcome(outcome) => {
                slot.life.finished += 1;
                Some(verdict::of_outcome(outcome, &slot.jobs[index].job, pool.retry, random))
            }
            Heard::Stopped(why) => verdict::of_end(why, &slot.jobs[index].job, pool.retry, random),
        };
        let running = slot.jobs.remove(index);
        book.close(now, &running, slot, judged.map(|verdict| (verdict, false)), None);
        slot.weigh(now, pool);
    }

    pub(super) fn on_fetched(&mut self, now: Instant, pool: u16, jobs: Vec<Fetched>) {
        let Some(intake) = self.pools.get_mut(usize::from(pool)).map(|pool| &mut pool.intake) else { return };
        let Some(asked) = intake.answered(&jobs) else { return };
        let meant = asked.into_iter().map(Some).chain(std::iter::repeat(None));
        for (fetched, meant) in jobs.into_iter().zip(meant) {
            self.place(now, pool, fetched, meant);
        }
        self.forget_early();
    }

    pub(super) fn on_fetch_failed(&mut self, now: Instant, pool: u16) {
        if let Some(pool) = self.pools.get_mut(usize::from(pool)) {
            pool.intake.failed(now, &mut self.random);
        }
        self.forget_early();
    }

    /// Hands a job to a worker, or back at once if there is none for it (B14).
    fn place(&mut self, now: Instant, number: u16, fetched: Fetched, meant: Option<WorkerId>) {
        let (id, fence) = (fetched.job.id.clone(), fetched.lease.fence);
        let runs_here = self.slots().any(|slot| slot.jobs.iter().any(|running| running.job.id == id));
        let pool = &mut self.pools[usize::from(number)];
        let grace = pool.settings.grace;
        let alone = self.suspects.contains(&id);
        let place = if self.stop.is_none() { pool.place(meant, alone) } else { None };
        let refused = match self.early.remove(&(id.clone(), fence)) {
            Some(Revocation::Canceled) => Some(jobs::unstarted(&fetched, Verdict::Canceled)),
            Some(why) => return self.orders.push_back(Command::Dropped(id, fence, why.as_str())),
            // An earlier attempt that we lost is still dying here: two at a time are one too many.
            None if runs_here => Some(jobs::release(&fetched, grace)),
            None if jobs::fence_at(&fetched.lease, grace) <= now => Some(jobs::release(&fetched, PAUSE)),
            None if alone && place.is_none() => Some(jobs::release(&fetched, PAUSE)),
            None => None,
        };
        match (refused, place.map(|place| &mut pool.slots[place])) {
            (Some(settlement), _) => self.unsettled.add(now, settlement),
            (None, None) => self.unsettled.add(now, jobs::release(&fetched, Duration::ZERO)),
            (None, Some(slot)) => {
                self.orders.push_back(Command::Assign(slot.id, fetched.job.clone(), fence));
                let running = Running::new(now, fetched, pool.settings.time_limit, self.lease);
                slot.jobs.push(Running { alone, ..running });
                self.suspects.remove(&id);
                slot.life.taken += 1;
                slot.weigh(now, &pool.settings);
            }
        }
    }

    pub(super) fn on_renewed(&mut self, now: Instant, right: &Lease) {
        let lease = self.lease;
        if let Some(running) = running(&mut self.pools, &right.job, right.fence)
            && running.is_ours()
        {
            running.renewed(now, right, lease);
        }
    }

    pub(super) fn on_renew_failed(&mut self, now: Instant, job: &JobId, fence: Fence) {
        if let Some(running) = running(&mut self.pools, job, fence) {
            running.renew_failed(now, &mut self.random);
        }
    }

    /// The one way to lose a job (B28).
    pub(super) fn lose_job(&mut self, now: Instant, job: &JobId, fence: Fence, why: Revocation) {
        let pools = self.pools.iter_mut();
        let mut slots = pools.flat_map(|pool| pool.slots.iter_mut().map(|slot| (&pool.settings, slot)));
        let running = |slot: &Slot| slot.jobs.iter().position(|running| running.is(job, fence));
        let found = slots.find_map(|(pool, slot)| running(slot).map(|index| (pool, slot, index)));
        if let Some((pool, slot, index)) = found {
            slot.end_job(now, index, Why::Lost(why), pool, &mut self.orders);
        } else if self.unsettled.has(job, fence) {
            if self.unsettled.revoked(job, fence, why) {
                self.orders.push_back(Command::Dropped(job.clone(), fence, why.as_str()));
            }
        } else if self.pools.iter().any(|pool| pool.intake.asked.is_some()) {
            self.early.insert((job.clone(), fence), why);
            if self.early.len() > REMEMBERED {
                self.early.pop_first();
            }
        }
    }

    /// Which of several jobs a worker died of cannot be known. What is suspected elsewhere is forgotten in time.
    pub(super) fn suspect(&mut self, jobs: &[Running]) {
        let ran = jobs.iter().filter(|job| job.phase == Phase::Runs && jobs.len() > 1);
        self.suspects.extend(ran.map(|job| job.job.id.clone()));
        while self.suspects.len() > REMEMBERED {
            self.suspects.pop_first();
        }
    }

    fn forget_early(&mut self) {
        if self.pools.iter().all(|pool| pool.intake.asked.is_none()) {
            self.early.clear();
        }
    }
}

fn running<'a>(pools: &'a mut [Pool], job: &JobId, fence: Fence) -> Option<&'a mut Running> {
    let slots = pools.iter_mut().flat_map(|pool| &mut pool.slots);
    slots.flat_map(|slot| &mut slot.jobs).find(|running| running.is(job, fence))
}
