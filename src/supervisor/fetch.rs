//! A pool, and how it takes work: only what it has ready workers for, and only when there may be some.

use std::collections::VecDeque;
use std::time::Duration;

use super::Command;
use super::restart::{Backoff, Boots, Random};
use super::worker::{Slot, State};
use crate::model::{Instant, PoolSettings, Take, WorkerId};

/// A wake-up that got lost costs no more than this.
const NET: Duration = Duration::from_secs(60);

/// A set of equal slots.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) number: u16,
    pub(super) settings: PoolSettings,
    pub(super) slots: Vec<Slot>,
    pub(super) intake: Intake,
    pub(super) boots: Boots,
}

/// What a pool knows of its queues.
#[derive(Debug)]
pub(super) struct Intake {
    /// The workers the fetch under way is for; None = none is.
    pub(super) asked: Option<Vec<WorkerId>>,
    /// Whether asking is worth it: cleared by asking, set by a wake-up (also one during the fetch) and by a full answer.
    pub(super) maybe_waiting: bool,
    /// When to ask, if it is worth it.
    due: Instant,
    /// When to ask even if it is not.
    net: Instant,
    backoff: Backoff,
}

impl Intake {
    pub(super) fn new(now: Instant) -> Self {
        Intake { asked: None, maybe_waiting: true, due: now, net: now + NET, backoff: Backoff::BROKER }
    }

    /// The answer: gives the workers it was asked for, None if nothing was asked.
    pub(super) fn answered(&mut self, jobs: usize) -> Option<Vec<WorkerId>> {
        let asked = self.asked.take()?;
        self.backoff.succeeded();
        self.maybe_waiting |= jobs >= asked.len();
        Some(asked)
    }

    /// No answer.
    pub(super) fn failed(&mut self, now: Instant, random: &mut Random) {
        if self.asked.take().is_some() {
            self.maybe_waiting = true;
            self.due = now + random.jitter(self.backoff.failed(), 20);
        }
    }

    /// When to ask.
    fn at(&self) -> Instant {
        if self.maybe_waiting { self.due } else { self.net }
    }
}

impl Pool {
    /// Asks for as many jobs as there is room for.
    pub(super) fn fetch(&mut self, now: Instant, orders: &mut VecDeque<Command>) {
        if self.intake.asked.is_some() || self.intake.at() > now {
            return;
        }
        let workers = self.room();
        if workers.is_empty() {
            return;
        }
        self.intake.asked = Some(workers.clone());
        self.intake.maybe_waiting = false;
        self.intake.net = now + NET;
        let queues = self.settings.queues.clone();
        orders.push_back(Command::Fetch {
            pool: self.number,
            queues,
            take: Take::InOrder,
            filter: self.settings.filter.clone(),
            workers,
        });
    }

    /// When to ask; None while there is no room, or no answer yet.
    pub(super) fn fetch_at(&self) -> Option<Instant> {
        let has_room = self.slots.iter().any(|slot| slot.room(&self.settings) > 0);
        (has_room && self.intake.asked.is_none()).then(|| self.intake.at())
    }

    /// Each worker as often as it has room; the least loaded first.
    fn room(&self) -> Vec<WorkerId> {
        let mut room: Vec<(usize, WorkerId)> = Vec::new();
        for slot in &self.slots {
            let load = slot.jobs.len();
            room.extend((load..load + slot.room(&self.settings)).map(|load| (load, slot.id)));
        }
        room.sort();
        room.into_iter().map(|(_, worker)| worker).collect()
    }

    /// The place of a worker with room: the one meant, or the least loaded one. A job to run alone needs an empty one.
    pub(super) fn place(&self, meant: Option<WorkerId>, alone: bool) -> Option<usize> {
        let has_room = |slot: &&Slot| slot.room(&self.settings) > 0 && (slot.jobs.is_empty() || !alone);
        let meant = self.slots.iter().filter(has_room).find(|slot| Some(slot.id) == meant);
        let other = || self.slots.iter().filter(has_room).min_by_key(|slot| slot.jobs.len());
        meant.or_else(other).map(|slot| usize::from(slot.id.slot.index - 1))
    }

    /// Starts what is down and due.
    pub(super) fn keep_up(&mut self, now: Instant, orders: &mut VecDeque<Command>) {
        let boot_timeout = self.settings.boot_timeout;
        while let Some(slot) = self.next_start().filter(|slot| slot.deadline.is_some_and(|due| due <= now)) {
            slot.start(now, boot_timeout);
            orders.push_back(Command::Spawn(slot.id));
        }
    }

    /// When the next start is due.
    pub(super) fn start_at(&self) -> Option<Instant> {
        self.startable().filter_map(|slot| slot.deadline).min()
    }

    fn next_start(&mut self) -> Option<&mut Slot> {
        let index = self.startable().min_by_key(|slot| slot.deadline)?.id.slot.index;
        self.slots.get_mut(usize::from(index - 1))
    }

    /// The slots that may start: all that are down; while probing the first of them, and that alone.
    fn startable(&self) -> impl Iterator<Item = &Slot> {
        let probing = self.boots.probing.is_some();
        let at_once = match probing {
            true if self.slots.iter().any(Slot::is_booting) => 0,
            true => 1,
            false => self.slots.len(),
        };
        self.slots.iter().filter(|slot| slot.state == State::Down).take(at_once)
    }
}
