//! A set of equal workers: its places, and what is started in them.

use std::collections::VecDeque;

use super::Command;
use super::fetch::Intake;
use super::restart::Boots;
use super::worker::{Slot, State};
use crate::model::{Instant, PoolSettings, SlotId, WorkerId};

/// A set of equal slots.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) number: u16,
    pub(super) settings: PoolSettings,
    pub(super) slots: Vec<Slot>,
    pub(super) intake: Intake,
    pub(super) boots: Boots,
}

impl Pool {
    pub(super) fn new(number: u16, settings: PoolSettings, generation: u32, now: Instant) -> Self {
        let slot = |index| Slot::new(SlotId { pool: number, index }, generation, now);
        let slots = (1..=settings.workers).map(slot).collect();
        Pool { number, slots, intake: Intake::new(now, &settings), boots: Boots::default(), settings }
    }

    /// Each worker as often as it has room; the least loaded first.
    pub(super) fn room(&self) -> Vec<WorkerId> {
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
        let with_room = || self.slots.iter().filter(has_room);
        let meant = with_room().find(|slot| Some(slot.id) == meant);
        let found = meant.or_else(|| with_room().min_by_key(|slot| slot.jobs.len()))?.id;
        self.slots.iter().position(|slot| slot.id == found)
    }

    /// Whether a job would find a worker.
    pub(super) fn has_room(&self) -> bool {
        self.slots.iter().any(|slot| slot.room(&self.settings) > 0)
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
        let next = self.startable().min_by_key(|slot| slot.deadline)?.id;
        self.slots.iter_mut().find(|slot| slot.id == next)
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
