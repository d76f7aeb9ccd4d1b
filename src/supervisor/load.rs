//! The jobs of a slot: those that it runs, and those that wait to run there alone.
//!
//! When a worker with several jobs dies, the cause cannot be known. So each of the jobs is tried again alone in the
//! same slot, and only a death alone counts against a job. Until then we keep their leases: a released job would come
//! back into the company of others.

use std::collections::VecDeque;
use std::time::Duration;

use super::Command;
use super::classes;
use super::jobs::{self, MARGIN, Phase, Running};
use super::stop::Stopping;
use super::suspect::RoomFor;
use super::why::Why;
use super::worker::{Slot, State};
use model::{CutOff, Excess, Fence, Follow, Instant, JobId, Outcome, PoolSettings};

/// The self-fence of a worker without a job is cleared after this time.
const REST: Duration = Duration::from_secs(1);

/// Number of lives that the keeper makes in a row on one `Follow`. If the supervisor does not want them, at most one is
/// made in vain.
const FOLLOWERS: u16 = 64;

/// The moment that is as far from `armed` as `armed` is from `fence`. A supervisor that hangs from there on has half of
/// the time that its leases would give it.
fn half_way(armed: Instant, fence: Instant) -> Instant {
    armed - fence.since(armed)
}

impl Slot {
    /// All jobs whose leases the slot holds.
    pub(super) fn leased(&self) -> impl DoubleEndedIterator<Item = &Running> + Clone {
        self.jobs.iter().chain(&self.waits)
    }

    pub(super) fn leased_mut(&mut self) -> impl Iterator<Item = &mut Running> {
        self.jobs.iter_mut().chain(&mut self.waits)
    }

    /// The job with this lease.
    pub(super) fn held(&mut self, job: &JobId, fence: Fence) -> Option<&mut Running> {
        self.leased_mut().find(|running| running.is(job, fence))
    }

    /// Whether the slot is reserved for jobs that run alone.
    pub(super) fn is_closed(&self) -> bool {
        !self.waits.is_empty() || self.jobs.iter().any(|job| job.alone)
    }

    /// Hands the job to the worker.
    pub(super) fn assign(
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
        self.jobs.push(Running { since: now, deadline, limits, stopped: Duration::ZERO, ..job });
        self.life.taken += 1;
        self.weigh(now, pool);
    }

    /// Hands the next of the waiting jobs to the worker, if it has nothing else to do.
    pub(super) fn assign_waiting(
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
    pub(super) fn take_waiting(
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
}

/// Ends the jobs of a slot.
impl Slot {
    /// Ends one job of the slot. The first reason counts, with two exceptions: a job that is no longer ours never
    /// becomes ours again, and one that somebody else may already run gets no more time than that allows. A job that
    /// has already ended is settled by its outcome, unless it is no longer ours. A job alone in its worker ends with
    /// the worker; a job in company is asked to stop, and has the grace for it.
    pub(super) fn end_job(
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
        let is_unproven = self.state == State::Unproven;
        let running = &mut self.jobs[index];
        let is_complete = matches!(running.phase, Phase::Said(Outcome::Complete { .. }));
        let has_ended = is_unproven || is_complete;
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
        if let State::Stopping(_) = self.state {
            self.deadline = self.deadline.map(|deadline| deadline.min(kill_at));
        }
    }

    /// Ends a job that exceeds a limit. An urgent excess ends the whole worker, as it cannot be known which of its jobs
    /// caused it.
    pub(super) fn exceeded(
        &mut self,
        now: Instant,
        index: usize,
        excess: Excess,
        pool: &PoolSettings,
        orders: &mut VecDeque<Command>,
    ) {
        let why = Why::Limit(excess);
        if self.state == State::Unproven {
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
        if let State::Stopping(_) = self.state {
            self.deadline = Some(now);
        }
    }

    /// Ends the jobs that have reached their time limit.
    pub(super) fn end_late_jobs(
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

    /// Sets the self-fence at the keeper: when the first lease of the worker ends, or before. Two orders for each job
    /// would wake the keeper twice for each. An earlier moment is as safe, so the fence moves only when half of the
    /// time is over, and is cleared when the worker has been idle for a while.
    pub(super) fn arm(&mut self, now: Instant, pool: &PoolSettings, orders: &mut VecDeque<Command>) {
        if !self.is_armed(now, pool) {
            self.life.armed = self.fence(pool);
            orders.push_back(Command::KillAt(self.id, self.life.armed));
        }
    }

    /// Whether the self-fence at the keeper may stay as it is.
    fn is_armed(&self, now: Instant, pool: &PoolSettings) -> bool {
        let fence = self.fence(pool);
        let kept = match (self.state, self.life.armed, fence) {
            (State::Ready | State::Busy | State::Stopping(_), Some(armed), Some(fence)) => {
                armed <= fence && now < half_way(armed, fence)
            }
            (State::Ready | State::Busy, Some(_), None) => now < self.life.idle_since + REST,
            (State::Ready | State::Busy | State::Stopping(_), None, _) => fence.is_none(),
            (State::Stopping(_), Some(_), None) => self.jobs.is_empty(),
            (State::Down | State::Starting | State::Killed(_) | State::Unproven, ..) => true,
        };
        kept || self.life.armed == fence
    }

    /// Whether nothing is to be done in the slot now, other than to begin a job that waits.
    pub(super) fn rests(&self, now: Instant, pool: &PoolSettings, stop: Option<&Stopping>) -> bool {
        let is_late = |job: &Running| self.is_at_work() && job.passed_limit(now).is_some();
        self.is_armed(now, pool)
            && self.due_signal(now, pool, stop).is_none()
            && !self.jobs.iter().any(is_late)
    }

    /// Has the keeper make the following lives by itself, as this life of one job will have it at once, and so will the
    /// next ones. Its self-fence is set before it has its job.
    pub(super) fn be_followed(
        &mut self,
        now: Instant,
        fence: Option<Duration>,
        orders: &mut VecDeque<Command>,
    ) {
        if let Some(fence) = fence {
            self.life.armed = Some(now + fence);
            orders.push_back(Command::KillAt(self.id, self.life.armed));
        }
        orders.push_back(Command::Follow(self.id, Follow { lives: FOLLOWERS, fence }));
    }

    /// The life ends, and the slot makes the next one at `due`.
    pub(super) fn wait_instead(&mut self, due: Instant) {
        (self.life.leaving, self.life.next_after) = (Some(Why::Backoff), Some(due));
    }

    /// The jobs to give up before their leases end. `carry_on` keeps those that run; jobs that have not begun are
    /// always given up. A job that is ending, or has ended, is not given up: it will be dead in time if that is
    /// possible, and is settled if its lease can be renewed until then.
    pub(super) fn fenced(&self, pool: &PoolSettings) -> impl Iterator<Item = &Running> {
        let running = match (pool.when_cut_off, self.state) {
            (CutOff::CarryOn, _) | (CutOff::Kill, State::Killed(_) | State::Unproven) => &[],
            (CutOff::Kill, _) => &self.jobs[..],
        };
        running.iter().filter(|job| job.phase == Phase::Runs).chain(&self.waits)
    }

    /// The log entry for the supervisor's exit, if a process of the slot does not die.
    pub(super) fn left_alive(&self) -> Option<Command> {
        let jobs = self.jobs.iter().map(|running| running.job.id.clone()).collect();
        Some(Command::LeftAlive { worker: self.id, cause: self.life.stuck.clone()?, jobs })
    }

    /// When all jobs of the slot must be dead, unless their leases are renewed.
    fn fence(&self, pool: &PoolSettings) -> Option<Instant> {
        match pool.when_cut_off {
            CutOff::Kill => self.jobs.iter().map(Running::dead_by).min(),
            CutOff::CarryOn => None,
        }
    }

    /// From when on the lease of a job ends, or has ended, so that only the broker knows who holds it.
    pub(super) fn doubt_at(&self) -> Option<Instant> {
        let could_come_again = |job: &&Running| job.is_ours() && !job.is_canceled();
        self.leased().filter(could_come_again).map(|job| job.lease.expires_at - MARGIN).min()
    }

    /// When the self-fence at the keeper must be moved.
    fn arm_at(&self, pool: &PoolSettings) -> Option<Instant> {
        let armed = self.life.armed?;
        match (self.state, self.fence(pool)) {
            (State::Ready | State::Busy, None) => Some(self.life.idle_since + REST),
            (State::Ready | State::Busy | State::Stopping(_), Some(fence)) if armed < fence => {
                Some(half_way(armed, fence))
            }
            (State::Ready | State::Busy | State::Stopping(_), _) => None,
            (State::Down | State::Starting | State::Killed(_) | State::Unproven, _) => None,
        }
    }

    /// When the slot needs something next.
    pub(super) fn wake_at(&self, pool: &PoolSettings) -> Option<Instant> {
        let (own, works) = match self.state {
            State::Ready | State::Busy => (None, true),
            State::Starting | State::Stopping(_) => (self.deadline, false),
            State::Down | State::Killed(_) | State::Unproven => (None, false),
        };
        let given_up = self.fenced(pool).filter(|job| job.is_ours()).map(|job| job.fence_at(pool.grace));
        let jobs = self.leased().filter_map(|job| jobs::wake_at(job, works));
        jobs.chain(given_up).chain(own).chain(self.arm_at(pool)).min()
    }
}
