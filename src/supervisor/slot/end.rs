//! The end of a life: how it is judged, and how soon the next one begins.

use std::time::Duration;

use super::life::{End, Life};
use super::state::State;
use super::{Running, Slot};
use crate::restart::GOOD_LIFE;
use crate::verdict::describe;
use crate::why::Why;
use model::{Exit, Instant, PoolSettings, Settlement, Verdict, WorkerId, WorkerName};

impl Slot {
    /// The life is over: the slot is empty, and may be filled again after a wait.
    pub(crate) fn down(&mut self, now: Instant, end: End, wait: impl FnMut(Duration) -> Duration) {
        let (was_of_use, unwanted) = (self.was_of_use(now), self.is_leaving_for_good());
        let wait = self.record.note_end((&self.life, was_of_use), end, unwanted, wait);
        let next = self.life.next_after.map_or(now + wait, |after| after.max(now + wait));
        self.id = self.id.next();
        self.life = Life::new(now);
        self.enter(State::down((!unwanted).then_some(next)), now);
    }

    /// Whether the life did what it was made for. A life that did not is followed by a wait. One that was given a job
    /// did: a crash is then the job's, which has its own count and delay, and must not hold up the others.
    fn was_of_use(&self, now: Instant) -> bool {
        let lasted = self.life.taken > 0 || now.since(self.life.born) >= GOOD_LIFE;
        self.life.ready && self.life.unfit.is_none() && lasted
    }

    /// Whether the worker ever took jobs.
    pub(crate) fn was_ready(&self) -> bool {
        self.life.ready
    }

    /// How the worker broke the protocol, if it did.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.life.fault.as_deref()
    }

    /// The template that was asked to fork this life, if the life is killed because that took too long.
    pub(crate) fn unforked_by(&self) -> Option<WorkerId> {
        self.life.template.filter(|_| matches!(self.state, State::Killed { why: Why::Boot, .. }))
    }

    /// The template of this life, if the life has run a job and so shown that the template is of use.
    pub(crate) fn forked_well_by(&self) -> Option<WorkerId> {
        self.life.template.filter(|_| self.life.taken > 0)
    }

    /// Whether a fork of this template is known to have run a job.
    pub(crate) fn has_forked_well(&self) -> bool {
        self.life.forked_well
    }

    /// A fork of this template has run a job.
    pub(crate) fn note_good_fork(&mut self) {
        self.life.forked_well = true;
    }

    /// Whether the life is the template that was asked to fork `other`, and ends by an order or by its own word: the
    /// next one forks `other`.
    pub(crate) fn goes_before_it_forks(&self, other: &Slot) -> bool {
        let leaves = self.goes_for().is_some_and(|why| !matches!(why, Why::Boot | Why::Fault));
        leaves && other.life.template == Some(self.id)
    }

    /// Why the life is being ended, or is to end.
    fn goes_for(&self) -> Option<Why> {
        self.state.ended_for().or(self.life.leaving)
    }

    /// How a life that could not be made is to be judged; None if it was made.
    pub(crate) fn end_unborn(&self, why: String, template_goes: bool) -> Option<End> {
        match self.state {
            State::Starting { .. } if template_goes => Some(End::Planned),
            State::Starting { .. }
            | State::Stopping { why: Why::Boot, .. }
            | State::Killed { why: Why::Boot | Why::Fault, .. } => Some(End::Early(why)),
            // It was to end anyway.
            State::Stopping { .. } | State::Killed { .. } => Some(End::Planned),
            State::Empty | State::Due { .. } | State::Working { .. } | State::Unproven { .. } => None,
        }
    }

    /// Judgement on the life that just ended. Its jobs are taken off before.
    pub(crate) fn end(&self, now: Instant, pool: &PoolSettings, exit: &Exit) -> End {
        // Before the planned ends: we end such a life ourselves, but the next one must not follow at once.
        if let Some(why) = &self.life.unfit {
            return End::Early(why.clone());
        }
        let why = match (&self.state, &self.life.fault) {
            (State::Stopping { why: Why::Boot, .. } | State::Killed { why: Why::Boot, .. }, _) => {
                "not ready in time".into()
            }
            (State::Killed { why: Why::Fault, .. }, Some(fault)) => fault.clone(),
            // A life that was of no use would say it again at once, and the next one too.
            _ if self.goes_for() == Some(Why::OwnWord) && !self.was_of_use(now) && !self.life.forked_well => {
                "it ended by its own word before any job".into()
            }
            _ if self.goes_for() == Some(Why::OwnWord) => return End::Planned,
            (State::Stopping { .. } | State::Killed { .. }, _) => return End::Planned,
            // The life ended with the last job it was to have, so the end is that job's.
            (State::Working { busy: true, .. } | State::Unproven { .. }, _) if self.is_spent(pool) => {
                return End::Planned;
            }
            (State::Empty | State::Due { .. } | State::Starting { .. }, _) => describe(exit),
            (State::Working { .. } | State::Unproven { .. }, _) => describe(exit),
        };
        if self.was_of_use(now) { End::Good(why) } else { End::Early(why) }
    }

    /// The settlement of a job that this life has run.
    pub(crate) fn settlement(
        &self,
        now: Instant,
        running: &Running,
        pool: &PoolSettings,
        verdict: (Verdict, bool),
        exit: Option<&Exit>,
    ) -> Settlement {
        let name = WorkerName::new(pool.name.as_str(), self.id);
        running.settlement(now, (name, &self.life), verdict, exit)
    }
}
