//! How many slots of a pool are filled: more when jobs wait, fewer when workers are idle.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::Duration;

use super::Command;
use super::pool::Pool;
use super::size::Answer;
use super::why::Why;
use super::worker::{Slot, State};
use model::{Instant, Scale, Signal, SlotId};

/// A worker that can be spared ends after this time without a job.
const IDLE: Duration = Duration::from_secs(60);

impl Pool {
    /// How many slots have a worker or want one, without those that are leaving.
    pub(super) fn filled(&self) -> usize {
        self.slots.index().filled.len()
    }

    /// Has workers leave until only `most` slots are filled, and gives how many stay. Idle workers leave first.
    pub(super) fn at_most(&mut self, now: Instant, most: usize, why: Why) -> usize {
        while self.filled() > most
            && let Some((_, least)) = self.slots.index().filled.first()
        {
            self.slots.edit(least, &self.settings).let_go(now, why);
        }
        if most == 0 && self.outdated && self.template().is_some() && self.slots.index().starting.is_empty() {
            self.slots.edit(0, &self.settings).let_go(now, why);
        }
        self.filled()
    }

    /// Makes the number of wanted slots match the settings.
    pub(super) fn fit(&mut self, now: Instant) {
        if self.outdated {
            return;
        }
        self.at_most(now, usize::from(self.settings.workers), Why::Scaled);
        self.begin_with(now, usize::from(self.min_workers()));
    }

    /// Wants at least this number of slots.
    pub(super) fn begin_with(&mut self, now: Instant, least: usize) {
        let mut missing = least.min(usize::from(self.settings.workers)).saturating_sub(self.filled());
        while missing > 0
            && let Some(at) = self.empty_place()
        {
            self.slots.edit(at, &self.settings).deadline = Some(now);
            missing -= 1;
        }
    }

    /// Changes the number of slots.
    pub(super) fn scale(&mut self, by: Scale) {
        let workers = by.of(self.settings.workers);
        self.settings.workers = workers;
        self.settings.min_workers = self.configured.min_workers.map(|min| min.min(workers));
    }

    /// Whether the pool was scaled since its settings were read.
    pub(super) fn is_scaled(&self) -> bool {
        self.settings.workers != self.configured.workers
    }

    /// Whether the pool waits for an answer of the broker.
    pub(super) fn is_asking(&self) -> bool {
        self.intake.asked.is_some() || self.size.is_asking()
    }

    /// Jobs may have come.
    pub(super) fn woken(&mut self) {
        self.intake.woken();
        self.size.woken();
    }

    /// More jobs may be waiting in the queues of the last ones.
    pub(super) fn expect_more(&mut self) {
        self.intake.maybe_waiting = true;
        self.size.woken();
    }

    /// Asks whether jobs wait, when all workers have been at work for a while.
    pub(super) fn ask_to_grow(&mut self, now: Instant, orders: &mut VecDeque<Command>) {
        if self.has_idle() || self.is_coming_up() || !self.may_grow() {
            self.size.spare();
        } else if self.size.pressed(now) {
            orders.push_back(Command::AskWaiting(self.number, self.settings.queues.clone()));
        }
    }

    /// Time of the next question to the broker whether jobs wait.
    pub(super) fn grow_at(&self) -> Option<Instant> {
        self.size.due()
    }

    /// Handles the answer: if jobs wait, fills one more slot; the next one only after that worker had time to help.
    pub(super) fn waiting(&mut self, now: Instant, waiting: bool) {
        match self.size.answered(now, waiting) {
            Answer::Grow if self.may_grow() => {
                if let Some(at) = self.empty_place() {
                    self.slots.edit(at, &self.settings).deadline = Some(now);
                }
            }
            Answer::Grow | Answer::Stay => {}
            Answer::Empty => self.intake.maybe_waiting = false,
        }
    }

    /// Ends workers that have been idle for long.
    pub(super) fn shrink(&mut self, now: Instant, orders: &mut VecDeque<Command>) {
        let kill_at = now + self.settings.grace;
        while let Some((_, idle)) = self.idlest().filter(|(at, _)| *at <= now) {
            let mut slot = self.slots.edit(idle, &self.settings);
            slot.send(now, (Signal::Term, Why::Idle), kill_at, orders);
        }
    }

    /// When the next idle worker ends.
    pub(super) fn shrink_at(&self) -> Option<Instant> {
        self.idlest().map(|(at, _)| at)
    }

    /// Whether a worker is idle and no job is on its way to it.
    fn has_idle(&self) -> bool {
        self.has_room() && self.intake.asked.is_none() && !self.intake.maybe_waiting
    }

    /// Whether workers that were started first have yet to become ready.
    fn is_coming_up(&self) -> bool {
        let index = self.slots.index();
        !index.wanted.is_empty() && index.booted.is_empty() || self.boots.probing.is_some()
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

    /// A slot that is empty and not wanted: an old one, or a new one.
    fn empty_place(&mut self) -> Option<usize> {
        if let Some(((), at)) = self.slots.index().empty.first() {
            return Some(at);
        }
        let index = self.slots.last().map_or(0, |slot| slot.id.slot.index).checked_add(1)?;
        let place = SlotId { pool: self.number, index };
        Some(self.slots.push(Slot::new(place, self.first_generation, self.since, None), &self.settings))
    }

    /// The worker that has been idle longest, if it can be spared, and when it will have been idle long enough.
    fn idlest(&self) -> Option<(Instant, usize)> {
        if self.slots.index().working.len() <= usize::from(self.min_workers()) {
            return None;
        }
        let asked =
            |at: usize| self.intake.asked.as_ref().is_some_and(|asked| asked.contains(&self.slots[at].id));
        let idlest = self.slots.index().idle.positions().find(|at| !asked(*at))?;
        Some((self.slots[idlest].life.idle_since + IDLE, idlest))
    }
}

impl Slot {
    /// Whether the slot will run the jobs fetched ahead.
    pub(super) fn lasts(&self) -> bool {
        let runs = matches!(self.state, State::Ready | State::Busy | State::Stopping(_));
        runs && !self.is_template() && !self.is_leaving_for_good()
    }

    /// Whether the slot stays empty after this life.
    pub(super) fn is_leaving_for_good(&self) -> bool {
        let ends = match self.state {
            State::Stopping(why) | State::Killed(why) => why.empties_the_place(),
            State::Down | State::Starting | State::Ready | State::Busy | State::Unproven => false,
        };
        ends || self.life.leaving.is_some_and(Why::empties_the_place)
    }

    /// The life is not needed any more: it ends its jobs and goes.
    pub(super) fn let_go(&mut self, now: Instant, why: Why) {
        match self.state {
            State::Down => self.enter(State::Down, now, None),
            State::Starting
            | State::Ready
            | State::Busy
            | State::Stopping(_)
            | State::Killed(_)
            | State::Unproven => {
                self.life.leaving = Some(why);
            }
        }
    }

    /// The smaller, the sooner the slot can be spared: first empty slots, then those that end, then those that start,
    /// then those with the fewest jobs; the last slot first.
    pub(super) fn worth(&self) -> (u8, usize, Reverse<u16>) {
        let state = match self.state {
            State::Down => 0,
            State::Killed(_) | State::Stopping(_) | State::Unproven => 1,
            State::Starting => 2,
            State::Ready | State::Busy => 3,
        };
        (state, self.leased().count(), Reverse(self.id.slot.index))
    }
}
