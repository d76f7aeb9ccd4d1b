//! The jobs of a slot: those that it runs, and those that wait to run there alone.
//!
//! When a worker with several jobs dies, the cause cannot be known. So each of the jobs is tried again alone in the
//! same slot, and only a death alone counts against a job. Until then we keep their leases: a released job would come
//! back into the company of others.

use std::collections::VecDeque;
use std::time::Duration;

use super::Slot;
use super::running::{Heard, Phase, Running};
use super::state::State;
use crate::why::Why;
use crate::{Command, classes};
use model::{Excess, Fence, Instant, JobId, Outcome, PoolSettings, Revocation};

/// Which of the jobs that wait to run alone may begin.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RoomFor {
    /// None: a suspect runs, and has the host for itself.
    None,
    /// Jobs that run alone in their worker.
    Others,
    /// Suspects, too: no other job is here and the broker has confirmed all verdicts, or the suspect has waited for
    /// long enough.
    Suspects,
}

impl RoomFor {
    fn lets_begin(self, waiting: &Running) -> bool {
        match self {
            RoomFor::None => false,
            RoomFor::Others => !waiting.is_suspect_of_all(),
            RoomFor::Suspects => true,
        }
    }
}

/// Looks at the jobs of a slot.
impl Slot {
    /// All jobs whose leases the slot holds.
    pub(crate) fn leased(&self) -> impl DoubleEndedIterator<Item = &Running> + Clone {
        self.jobs.iter().chain(&self.waits)
    }

    /// The same jobs, to change them.
    pub(crate) fn leased_mut(&mut self) -> impl Iterator<Item = &mut Running> {
        self.jobs.iter_mut().chain(&mut self.waits)
    }

    /// The job with this lease.
    pub(crate) fn held(&mut self, job: &JobId, fence: Fence) -> Option<&mut Running> {
        self.leased_mut().find(|running| running.is(job, fence))
    }

    /// The job that runs under this lease, by its place in the worker.
    pub(crate) fn running(&self, job: &JobId, fence: Fence) -> Option<usize> {
        self.jobs.iter().position(|running| running.is(job, fence))
    }

    /// The part of its time in which the job did not run, if it is here.
    pub(crate) fn stopped(&self, job: &JobId, fence: Fence) -> Option<Duration> {
        self.running(job, fence).map(|index| self.jobs[index].stopped)
    }

    /// The job at this place in the worker.
    pub(crate) fn job(&self, index: usize) -> &Running {
        &self.jobs[index]
    }

    /// Number of jobs that the worker has.
    pub(crate) fn load(&self) -> usize {
        self.jobs.len()
    }

    /// Whether the slot holds no lease.
    pub(crate) fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.waits.is_empty()
    }

    /// Whether jobs wait to run alone here.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waits.is_empty()
    }

    /// Whether a job with this lease waits to run alone here.
    pub(crate) fn has_waiting_job(&self, job: &JobId, fence: Fence) -> bool {
        self.waits.iter().any(|waiting| waiting.is(job, fence))
    }

    /// Whether the slot is reserved for jobs that run alone.
    pub(crate) fn is_closed(&self) -> bool {
        !self.waits.is_empty() || self.jobs.iter().any(|job| job.alone)
    }

    /// Whether a suspect runs here.
    pub(crate) fn runs_suspect(&self) -> bool {
        self.jobs.iter().any(Running::is_suspect_of_all)
    }

    /// Whether no job in the slot can end the supervisor: none runs or is about to, apart from those that are dying.
    pub(crate) fn is_harmless(&self) -> bool {
        (self.jobs.is_empty() || self.is_stuck()) && self.waits.iter().all(Running::is_suspect_of_all)
    }
}

/// Gives jobs to a slot, and takes them.
impl Slot {
    /// Hands the job to the worker.
    pub(crate) fn assign(
        &mut self,
        now: Instant,
        job: Running,
        pool: &PoolSettings,
        orders: &mut VecDeque<Command>,
    ) {
        let limits = classes::limits(pool, &job.job);
        let retries = classes::retry(pool, &job.job).retries;
        orders.push_back(Command::Assign {
            worker: self.id,
            job: job.job.clone(),
            fence: job.lease.fence,
            limits,
            retries,
        });
        let deadline = limits.time.map(|limit| now + limit);
        // A job that waited here begins now: its wait counts towards no limit.
        let (stopped, stood, stands, gap) = (Duration::ZERO, Duration::ZERO, None, None);
        self.jobs.push(Running { since: now, deadline, limits, stopped, stood, stands, gap, ..job });
        self.life.taken += 1;
        self.weigh(now, pool);
    }

    /// Keeps the job until it can run here alone.
    pub(crate) fn assign_alone(&mut self, now: Instant, job: Running, pool: &PoolSettings) {
        self.waits.push_back(job.alone());
        self.weigh(now, pool);
    }

    /// Keeps a job of a worker that died until it can run here alone.
    pub(crate) fn keep(&mut self, job: Running) {
        self.waits.push_back(job);
    }

    /// Hands the next of the waiting jobs to the worker, if it has nothing else to do.
    pub(crate) fn assign_waiting(
        &mut self,
        now: Instant,
        pool: &PoolSettings,
        room_for: RoomFor,
        orders: &mut VecDeque<Command>,
    ) {
        let lasts = pool.jobs_per_life.is_none_or(|limit| self.life.taken < limit);
        if self.is_at_work()
            && lasts
            && self.jobs.is_empty()
            && self.life.unfit.is_none()
            && let Some(at) = self.waits.iter().position(|job| room_for.lets_begin(job) && job.is_sure(now))
            && let Some(job) = self.waits.remove(at)
        {
            self.assign(now, job, pool, orders);
        }
    }

    /// Takes out the first waiting job for which `is_it` is true.
    pub(crate) fn take_waiting(
        &mut self,
        now: Instant,
        is_it: impl Fn(&Running) -> bool,
        pool: &PoolSettings,
    ) -> Option<Running> {
        let at = self.waits.iter().position(is_it)?;
        let taken = self.waits.remove(at);
        self.weigh(now, pool);
        taken
    }

    /// Takes all jobs of a worker that is proven dead.
    pub(crate) fn take_jobs(&mut self) -> Vec<Running> {
        std::mem::take(&mut self.jobs)
    }

    /// Takes out the job at this place: it has ended, and the worker goes on.
    pub(crate) fn take_job(&mut self, now: Instant, index: usize, pool: &PoolSettings) -> Running {
        let taken = self.jobs.remove(index);
        self.weigh(now, pool);
        taken
    }

    /// What to make of the worker's report on the job at this place. It says, too, how many jobs the life has had, and
    /// whether it can begin any.
    pub(crate) fn hear(&mut self, index: usize, outcome: Outcome, pool: &PoolSettings) -> Heard {
        let begun = outcome.is_of_a_begun_job();
        // The life has not used up one of its jobs.
        if !begun {
            self.life.taken = self.life.taken.saturating_sub(1);
        }
        if let Outcome::CannotBegin(why) = &outcome {
            self.life.unfit = Some(format!("a job could not be begun: {why}"));
        }
        self.jobs[index].hear(outcome, pool.jobs_at_once > 1)
    }

    /// The only job of this life has ended with this outcome, which counts when the life is proven dead. The worker ends
    /// by itself; it has the grace for it.
    pub(crate) fn said(&mut self, now: Instant, index: usize, outcome: Outcome, grace: Duration) {
        self.jobs[index].phase = Phase::Said(outcome);
        if self.is_at_work() {
            self.enter(State::Stopping { why: Why::Spent, kill_at: now + grace }, now);
        }
    }
}

/// Ends the jobs of a slot.
impl Slot {
    /// Ends one job of the slot. The first reason counts, with two exceptions: a job that is no longer ours never
    /// becomes ours again, and one that somebody else may already run gets no more time than that allows. A job that
    /// has already ended is settled by its outcome, unless it is no longer ours. A job alone in its worker ends with
    /// the worker; a job in company is asked to stop, and has the grace for it.
    pub(crate) fn end_job(
        &mut self,
        now: Instant,
        index: usize,
        why: Why,
        pool: &PoolSettings,
        orders: &mut VecDeque<Command>,
    ) {
        let kill_at = now + why.grace(pool);
        if why.is_anothers() {
            self.bring_forward(index, kill_at);
        }
        // One of several jobs of a dead worker has not ended: it would run again.
        let is_over = matches!(self.state, State::Unproven { .. })
            && !(why == Why::Lost(Revocation::Canceled) && self.jobs.len() > 1);
        let running = &mut self.jobs[index];
        let is_complete = matches!(running.phase, Phase::Said(Outcome::Complete { .. }));
        let has_ended = is_over || is_complete;
        if !running.is_ours() || running.phase == Phase::Ends(why) || (has_ended && !why.is_anothers()) {
            return;
        }
        let ran = running.end(why, kill_at);
        let id = running.job.id.clone();
        if ran && self.is_at_work() && pool.jobs_at_once > 1 {
            orders.push_back(Command::Cancel { worker: self.id, job: id, why: why.as_str() });
        }
    }

    /// Moves the KILL of a job that is already ending forward to `kill_at`.
    fn bring_forward(&mut self, index: usize, kill_at: Instant) {
        let running = &mut self.jobs[index];
        if running.phase != Phase::Runs {
            running.deadline = Some(running.deadline.map_or(kill_at, |deadline| deadline.min(kill_at)));
        }
        if let Some(stop_by) = self.state.stop_by() {
            *stop_by = (*stop_by).min(kill_at);
        }
    }

    /// Ends a job that exceeds a limit. An urgent excess ends the whole worker, as it cannot be known which of its jobs
    /// caused it.
    pub(crate) fn exceeded(
        &mut self,
        now: Instant,
        index: usize,
        excess: Excess,
        pool: &PoolSettings,
        orders: &mut VecDeque<Command>,
    ) {
        let why = Why::Limit(excess);
        // The first process has ended: only the proof is missing, and no limit changes the verdict.
        if let State::Unproven { .. } = self.state {
            return;
        }
        if !excess.is_urgent() {
            // A job whose end is decided keeps its reason and its deadline.
            if self.jobs[index].phase == Phase::Runs {
                self.end_job(now, index, why, pool, orders);
            }
            return;
        }
        for job in &mut self.jobs {
            if job.phase == Phase::Runs {
                job.end(why, now);
            }
            job.deadline = Some(now);
        }
        // A worker that is already ending has no grace any more.
        if let Some(stop_by) = self.state.stop_by() {
            *stop_by = now;
        }
    }

    /// Ends the jobs that have reached their time limit.
    pub(crate) fn end_late_jobs(
        &mut self,
        now: Instant,
        pool: &PoolSettings,
        orders: &mut VecDeque<Command>,
    ) {
        for index in 0..self.jobs.len() {
            let job = &self.jobs[index];
            if let Some(limit) = job.passed_limit(now) {
                let excess = Excess::Time(limit, now.since(job.since).saturating_sub(job.stopped));
                self.end_job(now, index, Why::Limit(excess), pool, orders);
            }
        }
    }

    /// The log entry for the supervisor's exit, if a process of the slot does not die.
    pub(crate) fn left_alive(&self) -> Option<Command> {
        let jobs = self.jobs.iter().map(|running| running.job.id.clone()).collect();
        Some(Command::LeftAlive { worker: self.id, cause: self.state.stuck()?.to_owned(), jobs })
    }
}
