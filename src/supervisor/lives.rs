//! What happens to workers.

use std::sync::Arc;

use crate::alive::Alive;
use crate::slot::Phase;
use crate::{Supervisor, classes, verdict};
use model::{Classes, Exit, ExitStatus, Instant, Lease, Revocation, WorkerId, WorkerName};

impl Supervisor {
    /// A template that does not fork in time, so that the life is killed, is of no use any more.
    pub(super) fn on_spawn_failed(&mut self, now: Instant, worker: WorkerId, why: String) {
        let template_goes = self.is_left_by_its_template(worker);
        let Some(Alive { pool, mut slot, random, mut book, .. }) = self.life(worker) else { return };
        let undone = slot.unforked_by();
        if let Some(end) = slot.end_unborn(why, template_goes) {
            book.bury(now, pool, &mut slot, end, 0, random);
        }
        drop(slot);
        if let Some(Alive { slot: mut template, .. }) = undone.and_then(|template| self.life(template)) {
            template.faulty("it did not fork in time".into());
        }
    }

    /// Whether the life waits to be forked by a template that ends as planned.
    fn is_left_by_its_template(&self, worker: WorkerId) -> bool {
        let Some((pool, at)) = self.pools.place_of(worker) else { return false };
        self.pools[pool].is_left_by_its_template(at)
    }

    pub(super) fn on_ready(&mut self, now: Instant, worker: WorkerId) {
        let Some(Alive { mut slot, mut lessons, .. }) = self.life(worker) else { return };
        if slot.ready(now) {
            lessons.ready(slot.is_template());
        }
    }

    pub(super) fn on_exited(&mut self, now: Instant, worker: WorkerId, exit: &Exit, followed: bool) {
        // Before the verdicts: a job cut off from its broker is released unspent, not charged with our own
        // KILL.
        self.fence_off(now);
        self.hear_of_fence(now, worker, exit);
        let is_stopping = self.stopping().is_some();
        let Some(Alive { pool, mut slot, mut lessons, random, mut book }) = self.life(worker) else { return };
        let (jobs, end) = (slot.take_jobs(), slot.end(now, pool, exit));
        let (count, death) = (jobs.len(), verdict::of_death(slot.fault(), exit));
        let (in_company, is_worker) = (count > 1, pool.jobs_per_life != Some(1));
        for job in jobs {
            // Nobody can tell which of several jobs the worker died of: each possible cause runs again alone.
            if in_company && job.is_suspect() {
                let name = WorkerName::new(pool.name.as_str(), slot.id());
                slot.keep(job.after_death(now, name, &death.message));
            } else {
                let (how, retry) = ((exit, is_worker, is_stopping), classes::retry(pool, job.job()));
                let judged = job.judge(how, &death, retry, random);
                book.close(now, &job, (pool, &slot), judged, Some(exit));
            }
        }
        if slot.is_booting() {
            lessons.died_unready(now);
        }
        let template = slot.forked_well_by();
        book.bury(now, pool, &mut slot, end, count, random);
        drop(slot);
        if let Some(template) = template
            && let Some((pool, _)) = self.pools.place_of(template)
        {
            self.pools[pool].note_good_fork(template);
        }
        if followed && let Some((pool, slot)) = self.pools.place_of(worker.next()) {
            self.pools[pool].followed(now, slot, self.lease, &mut self.random);
        }
    }

    /// A SIGKILL after `armed`, when the keeper kills the life before its leases end, was the keeper's: the running jobs
    /// are released unspent, however late this process hears of it.
    fn hear_of_fence(&mut self, now: Instant, worker: WorkerId, exit: &Exit) {
        let is_killed = matches!(exit.status, ExitStatus::Signal { signal: 9, core: _ });
        let Some(Alive { slot, .. }) = self.life(worker) else { return };
        if !is_killed || !slot.has_fallen(now) {
            return;
        }
        // A job that is ending, or has ended, keeps its reason.
        let ours = slot.leased().filter(|job| *job.phase() == Phase::Runs);
        let leases: Vec<Lease> = ours.map(|job| job.lease().clone()).collect();
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
        // Before the state changes: `fenced` gives up none of the jobs of a slot that is stuck.
        self.fence_off(now);
        let Some(Alive { mut slot, .. }) = self.life(worker) else { return };
        slot.stuck(now, cause);
    }

    pub(super) fn on_leaving(&mut self, now: Instant, worker: WorkerId) {
        if let Some(Alive { mut slot, .. }) = self.life(worker) {
            slot.leave_by_its_word(now);
        }
    }

    pub(super) fn on_outgrown(&mut self, worker: WorkerId) {
        if let Some(Alive { mut slot, .. }) = self.life(worker) {
            slot.outgrown();
        }
    }

    pub(super) fn on_knows(&mut self, pool: u16, classes: Arc<Classes>) {
        if let Some(pool) = self.pools.get_mut(usize::from(pool)) {
            pool.learn(classes);
        }
    }

    pub(super) fn on_waiting(&mut self, now: Instant, pool: u16, waiting: bool) {
        if let Some(pool) = self.pools.get_mut(usize::from(pool)) {
            pool.waiting(now, waiting);
        }
    }
}
