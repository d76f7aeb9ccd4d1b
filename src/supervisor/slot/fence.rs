//! The self-fence of a life: when the keeper kills it by itself, so that its jobs are dead before their leases end. And
//! when the slot needs something next.

use std::collections::VecDeque;
use std::time::Duration;

use super::Slot;
use super::running::{self, MARGIN, Phase, Running};
use super::state::State;
use crate::Command;
use crate::stop::Stopping;
use crate::wear::Wears;
use model::{CutOff, Follow, Instant, PoolSettings};

/// The self-fence of a worker without a job is cleared after this time.
const REST: Duration = Duration::from_secs(1);

/// Longest way of an order to the keeper, and of its report back, on a busy machine.
const ON_ITS_WAY: Duration = Duration::from_secs(1);

/// Number of lives that the keeper makes in a row on one `Follow`. If the supervisor does not want them, at most one is
/// made in vain.
const FOLLOWERS: u16 = 64;

/// The moment that is as far from `armed` as `armed` is from `fence`. A supervisor that hangs from there on has half of
/// the time that its leases would give it.
fn half_way(armed: Instant, fence: Instant) -> Instant {
    armed - fence.since(armed)
}

impl Slot {
    /// Sets the self-fence at the keeper: when the first lease of the worker ends, or before. Two orders for each job
    /// would wake the keeper twice for each. An earlier moment is as safe, so the fence moves only when half of the
    /// time is over, and is cleared when the worker has been idle for a while.
    pub(crate) fn arm(&mut self, now: Instant, pool: &PoolSettings, orders: &mut VecDeque<Command>) {
        if !self.is_armed(now, pool) {
            // The order may reach the keeper only after the moment that it moves.
            if let Some(moved) = self.life.armed.filter(|armed| *armed < now + ON_ITS_WAY) {
                self.life.fell_by = self.life.fell_by.max(Some(moved + ON_ITS_WAY));
            }
            self.life.armed = self.fence(pool);
            orders.push_back(Command::KillAt(self.id, self.life.armed));
        }
    }

    /// Whether the self-fence at the keeper may stay as it is.
    fn is_armed(&self, now: Instant, pool: &PoolSettings) -> bool {
        let fence = self.fence(pool);
        let kept = match (&self.state, self.life.armed, fence) {
            (State::Working { .. } | State::Stopping { .. }, Some(armed), Some(fence)) => {
                armed <= fence && now < half_way(armed, fence)
            }
            (State::Working { idle_since, .. }, Some(_), None) => now < *idle_since + REST,
            (State::Working { .. } | State::Stopping { .. }, None, _) => fence.is_none(),
            (State::Stopping { .. }, Some(_), None) => self.jobs.is_empty(),
            (State::Empty | State::Due { .. } | State::Starting { .. }, ..) => true,
            (State::Killed { .. } | State::Unproven { .. }, ..) => true,
        };
        kept || self.life.armed == fence
    }

    /// Whether nothing is to be done in the slot now, other than to begin a job that waits.
    pub(crate) fn rests(&self, now: Instant, pool: &PoolSettings, stop: Option<&Stopping>) -> bool {
        let is_late = |job: &Running| self.is_at_work() && job.passed_limit(now).is_some();
        self.is_armed(now, pool)
            && self.due_signal(now, pool, stop).is_none()
            && !self.jobs.iter().any(is_late)
    }

    /// Has the keeper make the following lives by itself, as this life of one job will have it at once, and so will the
    /// next ones. Its self-fence is set before it has its job.
    pub(crate) fn be_followed(
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

    /// The keeper has made this life by itself after the one before. So it takes its slot, and ends if it came before
    /// the wait was over. If the slot is not wanted, the life leaves as any other.
    pub(crate) fn follow(
        &mut self,
        now: Instant,
        boot_timeout: Duration,
        wears: Wears,
        fence: Option<Duration>,
    ) {
        let due = self.due_at();
        self.start(now, boot_timeout, None, wears);
        self.life.armed = fence.map(|fence| now + fence);
        if let Some(due) = due.filter(|due| *due > now) {
            self.wait_instead(due);
        }
    }

    /// The jobs to give up before their leases end. `carry_on` keeps those that run; jobs that have not begun are
    /// always given up. A job that is ending, or has ended, is not given up: it will be dead in time if that is
    /// possible, and is settled if its lease can be renewed until then.
    pub(crate) fn fenced(&self, pool: &PoolSettings) -> impl Iterator<Item = &Running> {
        let running = match (pool.when_cut_off, &self.state) {
            (CutOff::CarryOn, _) | (CutOff::Kill, State::Killed { .. } | State::Unproven { .. }) => &[],
            (CutOff::Kill, _) => &self.jobs[..],
        };
        running.iter().filter(|job| job.phase == Phase::Runs).chain(&self.waits)
    }

    /// When all jobs of the slot must be dead, unless their leases are renewed.
    fn fence(&self, pool: &PoolSettings) -> Option<Instant> {
        match pool.when_cut_off {
            CutOff::Kill => self.jobs.iter().map(Running::dead_by).min(),
            CutOff::CarryOn => None,
        }
    }

    /// From when on the lease of a job ends, or has ended, so that only the broker knows who holds it.
    pub(crate) fn doubt_at(&self) -> Option<Instant> {
        let could_come_again = |job: &&Running| job.is_ours() && !job.is_canceled();
        self.leased().filter(could_come_again).map(|job| job.lease.expires_at - MARGIN).min()
    }

    /// When the self-fence at the keeper must be moved.
    fn arm_at(&self, pool: &PoolSettings) -> Option<Instant> {
        let armed = self.life.armed?;
        match (&self.state, self.fence(pool)) {
            (State::Working { idle_since, .. }, None) => Some(*idle_since + REST),
            (State::Working { .. } | State::Stopping { .. }, Some(fence)) if armed < fence => {
                Some(half_way(armed, fence))
            }
            (State::Working { .. } | State::Stopping { .. }, _) => None,
            (State::Empty | State::Due { .. } | State::Starting { .. }, _) => None,
            (State::Killed { .. } | State::Unproven { .. }, _) => None,
        }
    }

    /// When the slot needs something next.
    pub(crate) fn wake_at(&self, pool: &PoolSettings) -> Option<Instant> {
        let own = self.state.deadline().filter(|_| !self.is_down());
        let given_up = self.fenced(pool).filter(|job| job.is_ours()).map(|job| job.fence_at(pool.grace));
        let jobs = self.leased().filter_map(|job| running::wake_at(job, self.is_at_work()));
        jobs.chain(given_up).chain(own).chain(self.arm_at(pool)).min()
    }
}
