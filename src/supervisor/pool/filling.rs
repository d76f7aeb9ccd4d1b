//! How many slots of a pool are filled: more when jobs wait, fewer when workers are idle.

use std::collections::VecDeque;
use std::time::Duration;

use super::Pool;
use super::index::Kind;
use super::size::Answer;
use crate::Command;
use crate::slot::Slot;
use crate::why::Why;
use model::{Instant, Scale, Signal, SlotId};

/// A worker that can be spared ends after this time without a job.
const IDLE: Duration = Duration::from_secs(60);

impl Pool {
    /// How many slots have a worker or want one, without the template's.
    pub(super) fn wanted(&self) -> usize {
        let workers = self.slots.len() - usize::from(self.template().is_some());
        workers - self.slots.index().count(Kind::Vacant)
    }

    /// The same without those that stay empty afterwards.
    pub(super) fn filled(&self) -> usize {
        self.slots.index().count(Kind::Filled)
    }

    /// Has workers leave until only `most` slots are filled, and gives how many stay. Idle workers leave first.
    pub(crate) fn at_most(&mut self, now: Instant, most: usize, why: Why) -> usize {
        let spare = self.filled().saturating_sub(most);
        if spare > 0 {
            let mut filled: Vec<usize> = self.slots.index().all(Kind::Filled).collect();
            filled.sort_by_key(|at| self.slots[*at].worth());
            filled.truncate(spare);
            filled.into_iter().for_each(|at| self.slots.edit(at, &self.settings).let_go(now, why));
        }
        // The template goes last: a fork that is being made needs it.
        let forks = || self.slots.iter().any(Slot::is_starting);
        if most == 0 && self.outdated && self.template().is_some() && !forks() {
            self.slots.edit(0, &self.settings).let_go(now, why);
        }
        self.filled()
    }

    /// Makes the number of wanted slots match the settings.
    pub(crate) fn fit(&mut self, now: Instant) {
        if self.outdated {
            return;
        }
        self.at_most(now, usize::from(self.settings.workers), Why::Scaled);
        self.begin_with(now, usize::from(self.min_workers()));
    }

    /// Wants at least this number of slots.
    pub(crate) fn begin_with(&mut self, now: Instant, least: usize) {
        let least = least.min(usize::from(self.settings.workers));
        if self.filled() < least {
            self.fill(now, least);
        }
    }

    /// Wants `least` slots. A worker that was to leave once its jobs are done stays, or it would run beside those that
    /// are to come.
    fn fill(&mut self, now: Instant, least: usize) {
        for at in 0..self.slots.len() {
            if self.filled() < least && self.slots[at].may_stay() {
                self.slots.edit(at, &self.settings).stay(now, &self.settings);
            }
        }
        while self.filled() < least
            && let Some(at) = self.spare_slot()
        {
            self.slots.edit(at, &self.settings).want(now);
        }
    }

    /// Changes the number of slots.
    pub(crate) fn scale(&mut self, by: Scale) {
        let workers = by.of(self.settings.workers);
        self.settings.workers = workers;
        // From the configured minimum, so that a pool scaled down and up again has it back.
        self.settings.min_workers = self.configured.min_workers.map(|min| min.min(workers));
    }

    /// Whether the pool was scaled since its settings were read.
    pub(crate) fn is_scaled(&self) -> bool {
        self.settings.workers != self.configured.workers
    }

    /// Whether the pool waits for an answer of the broker.
    pub(crate) fn is_asking(&self) -> bool {
        self.intake.asked.is_some() || self.size.is_asking()
    }

    /// Jobs may have come.
    pub(crate) fn woken(&mut self) {
        self.intake.woken();
        self.size.woken();
    }

    /// More jobs may be waiting in the queues of the last ones.
    pub(crate) fn expect_more(&mut self) {
        self.intake.maybe_waiting = true;
        self.size.woken();
    }

    /// Asks whether jobs wait, when all workers have been at work for a while.
    pub(crate) fn ask_to_grow(&mut self, now: Instant, orders: &mut VecDeque<Command>) {
        if self.has_idle() || self.is_coming_up() || !self.may_grow() {
            self.size.spare();
        } else if self.size.pressed(now) {
            orders.push_back(Command::AskWaiting(self.number, self.settings.queues.clone()));
        }
    }

    /// Time of the next question to the broker whether jobs wait.
    pub(crate) fn grow_at(&self) -> Option<Instant> {
        self.size.due()
    }

    /// Handles the answer: if jobs wait, fills one more slot; the next one only after that worker had time to help.
    pub(crate) fn waiting(&mut self, now: Instant, waiting: bool) {
        match self.size.answered(now, waiting) {
            // The pool may have been paused or scaled since the question.
            Answer::Grow if self.may_grow() => self.fill(now, self.filled() + 1),
            Answer::Grow | Answer::Stay => {}
            Answer::Empty => self.intake.maybe_waiting = false,
        }
    }

    /// Ends workers that have been idle for long.
    pub(crate) fn shrink(&mut self, now: Instant, orders: &mut VecDeque<Command>) {
        let kill_at = now + self.settings.grace;
        while let Some((_, idle)) = self.idlest().filter(|(at, _)| *at <= now) {
            let mut slot = self.slots.edit(idle, &self.settings);
            slot.send(now, (Signal::Term, Why::Idle), kill_at, orders);
        }
    }

    /// When the next idle worker ends.
    pub(crate) fn shrink_at(&self) -> Option<Instant> {
        self.idlest().map(|(at, _)| at)
    }

    /// Whether a worker is idle and no job is on its way to it.
    fn has_idle(&self) -> bool {
        self.has_room() && self.intake.asked.is_none() && !self.intake.maybe_waiting
    }

    /// Whether workers that were started first have yet to become ready.
    fn is_coming_up(&self) -> bool {
        let is_booted = |slot: &Slot| !slot.is_template() && slot.is_wanted() && slot.has_booted();
        // The cheap question first: a worker that takes jobs has become ready.
        let has_booted = || self.slots.index().has(Kind::Working) || self.slots.iter().any(is_booted);
        // While workers cannot boot, one more would fare no better.
        self.boots.probing.is_some() || self.wanted() > 0 && !has_booted()
    }

    /// Whether the pool may have one more worker.
    fn may_grow(&self) -> bool {
        let most = if self.outdated || self.intake.paused || self.intake.held_up {
            0
        } else {
            usize::from(self.settings.workers)
        };
        self.filled() < most
    }

    /// The position of a slot without a worker, which wants none: an old one, or a new one.
    fn spare_slot(&mut self) -> Option<usize> {
        let is_free = |at: &usize| !self.slots[*at].has_waiting();
        if let Some(at) = self.slots.index().all(Kind::Vacant).find(is_free) {
            return Some(at);
        }
        let index = self.slots.last().map_or(0, |slot| slot.id().slot.index).checked_add(1)?;
        let slot = SlotId { pool: self.number, index };
        Some(self.slots.push(Slot::new(slot, self.first_generation, self.since, None), &self.settings))
    }

    /// The worker that has been idle longest, if it can be spared, and when it will have been idle long enough.
    fn idlest(&self) -> Option<(Instant, usize)> {
        // Only a pool with a range of workers ends idle ones; what a scale leaves over goes by that name.
        self.settings.min_workers?;
        if self.slots.index().count(Kind::Working) <= usize::from(self.min_workers()) {
            return None;
        }
        // A job is perhaps on its way to a worker for which a fetch is under way.
        let asked =
            |at: usize| self.intake.asked.as_ref().is_some_and(|asked| asked.contains(&self.slots[at].id()));
        let idlest = self.slots.index().idle.positions().find(|at| !asked(*at))?;
        Some((self.slots[idlest].idle_since()? + IDLE, idlest))
    }
}
