//! How many of a pool's places are filled: more when jobs wait, fewer when there is nothing for them to do.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::Duration;

use super::Command;
use super::pool::Pool;
use super::worker::{Slot, State, Why};
use crate::model::{Instant, Signal, WorkerId};

/// All are at work for so long before one more is started.
const PRESSURE: Duration = Duration::from_secs(1);

/// One that has had nothing to do for so long ends.
const IDLE: Duration = Duration::from_secs(60);

/// What decides over one more worker.
#[derive(Debug)]
pub(super) struct Size {
    /// When all have been at work for long enough; None while one has nothing to do, or there is no place.
    at: Option<Instant>,
    asked: bool,
    /// Whether asking is worth it: cleared by asking, set by a wake-up and by a fetch that brought all it asked for.
    maybe_waiting: bool,
}

impl Size {
    pub(super) fn new() -> Self {
        Size { at: None, asked: false, maybe_waiting: true }
    }
}

impl Pool {
    /// Jobs may be waiting.
    pub(super) fn woken(&mut self) {
        (self.intake.maybe_waiting, self.size.maybe_waiting) = (true, true);
    }

    /// Asks whether jobs wait, when all workers have been at work for a while.
    pub(super) fn ask_to_grow(&mut self, now: Instant, orders: &mut VecDeque<Command>) {
        if self.has_idle() || self.is_coming_up() || self.spare().is_none() {
            self.size.at = None;
            return;
        }
        let at = *self.size.at.get_or_insert(now + PRESSURE);
        if at <= now && self.size.maybe_waiting && !self.size.asked {
            (self.size.asked, self.size.maybe_waiting) = (true, false);
            orders.push_back(Command::AskWaiting(self.number, self.settings.queues.clone()));
        }
    }

    /// When that is due.
    pub(super) fn grow_at(&self) -> Option<Instant> {
        self.size.at.filter(|_| self.size.maybe_waiting && !self.size.asked)
    }

    /// The answer: one more place is filled; the next one not before it had time to help.
    pub(super) fn waiting(&mut self, now: Instant, waiting: bool) {
        if !std::mem::take(&mut self.size.asked) {
            return;
        }
        match (waiting, self.size.at) {
            (true, Some(_)) => {
                (self.size.maybe_waiting, self.size.at) = (true, Some(now + PRESSURE));
                if let Some(slot) = self.spare() {
                    slot.deadline = Some(now);
                }
            }
            (true, None) => self.size.maybe_waiting = true,
            // A wake-up since then says otherwise.
            (false, _) => self.intake.maybe_waiting &= self.size.maybe_waiting,
        }
    }

    /// Ends what has had nothing to do for long.
    pub(super) fn shrink(&mut self, now: Instant, orders: &mut VecDeque<Command>) {
        let kill_at = now + self.settings.grace;
        while let Some((_, idle)) = self.idlest().filter(|(at, _)| *at <= now) {
            let slot = self.slots.iter_mut().find(|slot| slot.id == idle);
            slot.into_iter().for_each(|slot| slot.send(now, (Signal::Term, Why::Idle), kill_at, orders));
        }
    }

    /// When that is due.
    pub(super) fn shrink_at(&self) -> Option<Instant> {
        self.idlest().map(|(at, _)| at)
    }

    /// Whether a worker has nothing to do, and nothing on its way to it.
    fn has_idle(&self) -> bool {
        self.has_room() && self.intake.asked.is_none() && !self.intake.maybe_waiting
    }

    /// Whether those that are to come first have yet to show that they can.
    fn is_coming_up(&self) -> bool {
        let mut wanted = self.slots.iter().filter(|slot| !slot.is_template() && slot.is_wanted()).peekable();
        let none_booted = wanted.peek().is_some() && !wanted.any(|slot| slot.booted);
        none_booted || self.boots.probing.is_some()
    }

    /// The next place to fill.
    fn spare(&mut self) -> Option<&mut Slot> {
        self.slots.iter_mut().find(|slot| !slot.is_wanted())
    }

    /// The worker that has been idle longest, if one can be spared, and when that is long enough.
    fn idlest(&self) -> Option<(Instant, WorkerId)> {
        let works = |slot: &&Slot| !slot.is_template() && matches!(slot.state, State::Ready | State::Busy);
        let asked = |slot: &Slot| self.intake.asked.as_ref().is_some_and(|asked| asked.contains(&slot.id));
        if self.slots.iter().filter(works).count() <= usize::from(self.min_workers()) {
            return None;
        }
        let idle =
            self.slots.iter().filter(works).filter(|slot| slot.leased().next().is_none() && !asked(slot));
        let idlest = idle.min_by_key(|slot| (slot.life.idle_since, Reverse(slot.id)))?;
        Some((idlest.life.idle_since + IDLE, idlest.id))
    }
}
