//! What happens to jobs.

use std::time::Duration;

use crate::alive::Alive;
use crate::pool::{PAUSE, Pool};
use crate::slot::{self, Heard, Running};
use crate::why::Why;
use crate::{Command, Supervisor, classes, verdict};
use model::{Excess, Fence, Fetched, Instant, JobId, Lease, Outcome, Revocation, Verdict, WorkerId};

/// Delay with which a suspect is released while another one is here.
const SECOND_SUSPECT: Duration = Duration::from_secs(60);

impl Supervisor {
    pub(super) fn on_finished(
        &mut self,
        now: Instant,
        worker: WorkerId,
        (job, fence): (&JobId, Fence),
        outcome: Outcome,
    ) {
        let is_stopping = self.stopping().is_some();
        let Some(Alive { pool, mut slot, mut lessons, random, mut book }) = self.life(worker) else {
            return;
        };
        let Some(index) = slot.running(job, fence) else { return };
        let (job, since) = (slot.job(index).job().clone(), slot.job(index).since());
        let retry = classes::retry(pool, &job);
        let begun = outcome.is_of_a_begun_job();
        // The time in which a worker refuses a job says nothing about how long jobs take.
        if begun {
            lessons.ran(now.since(since));
        }
        let (verdict, crashed) = match slot.hear(index, outcome, pool) {
            Heard::Nothing => return,
            Heard::Outcome(outcome) => {
                lessons.heard(&job, &outcome);
                // The process tree of the life may still live: the report counts when the worker is proven dead. A job
                // that was not begun has no tree.
                if begun && pool.jobs_per_life == Some(1) {
                    return slot.said(now, index, outcome, pool.grace);
                }
                let (verdict, crashed) = verdict::of_outcome((outcome, is_stopping), &job, retry, random);
                (Some(verdict), crashed)
            }
            Heard::Stopped(why) => (verdict::of_end(why, &job, retry, random), false),
        };
        let running = slot.take_job(now, index, pool);
        book.close(now, &running, (pool, &slot), verdict.map(|verdict| (verdict, crashed)), None);
    }

    pub(super) fn on_exceeded(
        &mut self,
        now: Instant,
        worker: WorkerId,
        (job, fence): (&JobId, Fence),
        excess: Excess,
    ) {
        let Some(pool) = self.pools.get_mut(usize::from(worker.slot.pool)) else { return };
        if let Some(mut slot) = pool.life(worker)
            && let Some(index) = slot.running(job, fence)
        {
            let settings = slot.settings();
            slot.exceeded(now, index, excess, settings, &mut self.orders);
        }
    }

    /// The first process of the worker was stopped for this time, or goes on.
    pub(super) fn on_stands(
        &mut self,
        now: Instant,
        worker: WorkerId,
        stood: Duration,
        since: Option<Duration>,
    ) {
        let Some(pool) = self.pools.get_mut(usize::from(worker.slot.pool)) else { return };
        if let Some(mut slot) = pool.life(worker) {
            let settings = slot.settings();
            slot.stand(now, (stood, since), settings, &mut self.orders);
        }
    }

    pub(super) fn on_fetched(&mut self, now: Instant, pool: u16, jobs: Vec<Fetched>) {
        let found = self.pools.get_mut(usize::from(pool));
        let Some(asked) = found.and_then(|pool| pool.fetched(&jobs)) else { return };
        // The broker has recorded the nth worker with the nth job: the order must stay.
        let meant = asked.into_iter().map(Some).chain(std::iter::repeat(None));
        for (fetched, meant) in jobs.into_iter().zip(meant) {
            self.place(now, pool, fetched, meant);
        }
        self.forget_early();
    }

    pub(super) fn on_fetch_failed(&mut self, now: Instant, pool: u16) {
        if let Some(pool) = self.pools.get_mut(usize::from(pool)) {
            pool.fetch_failed(now, &mut self.random);
        }
        self.forget_early();
    }

    /// Hands a fetched job to a worker. Without a worker for it, the job is kept for a moment or released at once. A job
    /// under which a worker died runs alone in its worker; one under which supervisors died runs alone on this host.
    fn place(&mut self, now: Instant, number: u16, fetched: Fetched, meant: Option<WorkerId>) {
        if let Some(verdict) = self.refuse(now, number, &fetched) {
            return self.unsettled.add(now, number, slot::unstarted(&fetched.lease, verdict));
        }
        if let Some(why) = self.early.recall(&fetched.lease) {
            let (id, fence) = (fetched.lease.job, fetched.lease.fence);
            return self.orders.push_back(Command::LeaseLost { job: id, fence, why: why.as_str() });
        }
        let pool = &mut self.pools[usize::from(number)];
        let running = Running::new(now, fetched, self.lease);
        if let Some((lease, after)) = pool.take_fetched(now, running, meant, &mut self.orders) {
            self.unsettled.add(now, number, slot::release(&lease, after));
        }
    }

    /// The verdict on a job that cannot run here now, even if a worker has room.
    fn refuse(&mut self, now: Instant, number: u16, fetched: &Fetched) -> Option<Verdict> {
        let Fetched { job, lease, .. } = fetched;
        let runs_here = self.pools.iter().any(|pool| pool.has(&job.id));
        let (is_alone, is_second) = (self.alone(now).is_some(), job.is_suspect() && self.has_suspect());
        let pool = &mut self.pools[usize::from(number)];
        let grace = pool.settings().grace;
        let release = |after| Some(Verdict::Release { after, counts: None });
        match self.early.revoked(lease) {
            Some(Revocation::Canceled) => Some(Verdict::Canceled),
            // The lease is another's: `place` drops the job without a verdict.
            Some(_) => None,
            // An earlier attempt that we lost is still dying here: the two must not run together.
            None if runs_here => release(grace.min(PAUSE)),
            // The answer came so late that the job would have to be given up at once.
            None if slot::fence_at(lease, grace) <= now => release(PAUSE),
            None if self.stop.is_some() || pool.is_paused() || is_alone => release(Duration::ZERO),
            // Of two suspects together both would be held for what one of them does.
            None if is_second => release(SECOND_SUSPECT),
            None => pool.refuse_unknown(job, &mut self.random),
        }
    }

    pub(super) fn on_renewed(&mut self, now: Instant, right: &Lease) {
        let lease = self.lease;
        if let Some(mut slot) = self.pools.iter_mut().find_map(|pool| pool.holder(&right.job, right.fence))
            && let Some(running) = slot.held(&right.job, right.fence)
            // An answer that a revocation has overtaken must not lengthen the lease.
            && running.is_ours()
        {
            running.renewed(now, right, lease);
        }
    }

    pub(super) fn on_renew_failed(&mut self, now: Instant, job: &JobId, fence: Fence) {
        let mut pools = self.pools.iter_mut();
        if let Some(mut slot) = pools.find_map(|pool| pool.holder(job, fence))
            && let Some(running) = slot.held(job, fence)
        {
            running.renew_failed(now, &mut self.random);
        }
    }

    /// Gives up every job whose lease ends too soon to wait for its renewal.
    pub(super) fn fence_off(&mut self, now: Instant) {
        let late: Vec<Lease> = self.pools.iter().flat_map(|pool| pool.late_leases(now)).collect();
        for lease in late {
            self.lose_job(now, &lease.job, lease.fence, Revocation::SelfFenced);
        }
    }

    /// The only place where a job is lost.
    pub(super) fn lose_job(&mut self, now: Instant, job: &JobId, fence: Fence, why: Revocation) {
        let mut pools = self.pools.iter_mut();
        if pools.any(|pool| pool.end_running(now, (job, fence), Why::Lost(why), &mut self.orders)) {
            return;
        }
        let waiting = self.pools.iter_mut().find_map(|pool| {
            let waiting = pool.take_waiting(now, job, fence)?;
            Some((pool.number(), waiting))
        });
        let dropped = match (waiting, why) {
            // No process of the job lives.
            (Some((pool, waiting)), Revocation::Canceled) => {
                return self.unsettled.add(now, pool, slot::unstarted(waiting.lease(), Verdict::Canceled));
            }
            // It goes back like one that runs: a broker that knows who holds it would else keep it for us for ever.
            (Some((pool, waiting)), Revocation::SelfFenced) => {
                return self.unsettled.add(now, pool, slot::release(waiting.lease(), Duration::ZERO));
            }
            (Some(_), _) => true,
            (None, why) => self.unsettled.revoked(job, fence, why),
        };
        if dropped {
            self.orders.push_back(Command::LeaseLost { job: job.clone(), fence, why: why.as_str() });
        } else if !self.unsettled.has(job, fence) && self.pools.iter().any(Pool::is_fetching) {
            self.early.remember(job, fence, why);
        }
    }

    fn forget_early(&mut self) {
        if !self.pools.iter().any(Pool::is_fetching) {
            self.early.forget();
        }
    }
}
