//! TERM and KILL: which is due for the worker of a slot, and why.

use std::collections::VecDeque;

use super::Slot;
use super::running::{Phase, Running};
use super::state::State;
use crate::Command;
use crate::stop::Stopping;
use crate::why::Why;
use model::{Instant, PoolSettings, Signal};

impl Slot {
    /// The signal that is due, if one is: all steps from TERM to KILL.
    pub(crate) fn due_signal(
        &self,
        now: Instant,
        pool: &PoolSettings,
        stop: Option<&Stopping>,
    ) -> Option<(Signal, Why)> {
        let late = self.state.deadline().is_some_and(|deadline| deadline <= now);
        let stops = stop.and_then(|stop| stop.signal(now, !self.jobs.is_empty(), pool.grace));
        match self.state {
            State::Empty | State::Due { .. } | State::Killed { .. } | State::Unproven { .. } => None,
            State::Starting { .. } | State::Working { .. } | State::Stopping { .. }
                if self.life.fault.is_some() =>
            {
                Some((Signal::Kill, Why::Fault))
            }
            State::Starting { .. } if late => Some((Signal::Kill, Why::Boot)),
            State::Stopping { why, .. } if late => Some((Signal::Kill, why)),
            State::Stopping { why, .. } => {
                stops.filter(|signal| *signal == Signal::Kill).map(|signal| (signal, why))
            }
            State::Starting { .. } => {
                let leaves = self.life.leaving.map(|why| (Signal::Term, why));
                stops.map(|signal| (signal, Why::Stop)).or(leaves)
            }
            State::Working { .. } => self
                // KILL comes before any reason for TERM.
                .kill_for_job(now, pool)
                .or_else(|| stops.map(|signal| (signal, Why::Stop)))
                .or_else(|| self.term_for_job(pool))
                .or_else(|| self.is_spent(pool).then_some((Signal::Term, Why::Spent)))
                .or_else(|| self.is_unfit().then_some((Signal::Term, Why::Unfit)))
                .or_else(|| {
                    self.life.leaving.filter(|_| self.jobs.is_empty()).map(|why| (Signal::Term, why))
                }),
        }
    }

    /// Kills the worker for a job that exceeds an urgent limit, that somebody else may already run, or that was asked
    /// to end and has not.
    fn kill_for_job(&self, now: Instant, pool: &PoolSettings) -> Option<(Signal, Why)> {
        self.jobs.iter().find_map(|job| match job.phase {
            Phase::Ends(why @ Why::Limit(excess)) if excess.is_urgent() => Some((Signal::Kill, why)),
            // `term_for_job` ends it with its worker; the deadline of that TERM brings the KILL.
            Phase::Ends(why) if pool.jobs_at_once == 1 && !why.is_anothers() => None,
            Phase::Ends(why) if job.deadline.is_some_and(|at| at <= now) => Some((Signal::Kill, why)),
            Phase::Ends(_) | Phase::Runs | Phase::Said(_) => None,
        })
    }

    /// TERM for a job alone in its worker: the job ends with the worker.
    fn term_for_job(&self, pool: &PoolSettings) -> Option<(Signal, Why)> {
        self.jobs.iter().find_map(|job| match job.phase {
            Phase::Ends(why) if pool.jobs_at_once == 1 => Some((Signal::Term, why)),
            Phase::Ends(_) | Phase::Runs | Phase::Said(_) => None,
        })
    }

    /// Whether the life ends because no job can be begun in it.
    fn is_unfit(&self) -> bool {
        self.jobs.is_empty() && self.life.unfit.is_some()
    }

    /// Whether the life has had all its jobs.
    pub(super) fn is_spent(&self, pool: &PoolSettings) -> bool {
        self.jobs.is_empty() && pool.jobs_per_life.is_some_and(|limit| self.life.taken >= limit)
    }

    /// Sends the signal, which ends all jobs of the worker.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        (signal, why): (Signal, Why),
        kill_at: Instant,
        orders: &mut VecDeque<Command>,
    ) {
        match signal {
            Signal::Term => {
                // One that somebody else may already run gets no more time by another reason to end the worker.
                let kill_at = self.jobs.iter().filter_map(Running::gone_by).fold(kill_at, Instant::min);
                self.enter(State::Stopping { why, kill_at }, now);
            }
            Signal::Kill => self.enter(State::Killed { why, stuck: None }, now),
        }
        for job in &mut self.jobs {
            job.ends_with_its_worker(why);
        }
        self.life.signals.push((now, signal, why));
        orders.push_back(Command::Signal { worker: self.id, signal, why: why.as_str().into() });
    }
}
