//! The slots of a pool, with an index of them, so that a decision costs the same among a thousand slots as among ten.
//!
//! Everyone may read the slots. To change one takes [`Slots::edit`], which brings the index up to date when the change
//! is made. So the index says at any time what a look at every slot would say.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};

use super::index::{Index, Kind};
use crate::slot::Slot;
use crate::stop::Stopping;
use model::{Instant, PoolSettings, SlotId, WorkerId};

/// The largest pool whose index a debug build compares with its slots.
const COMPARED: usize = 100;

/// The slots of a pool, each at its position for as long as the pool exists.
#[derive(Debug)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    index: Index,
    /// The position of each slot. Lives of an earlier supervisor may share one name.
    places: BTreeSet<(SlotId, usize)>,
    /// The positions of slots that have changed since [`Slots::tend`] last came by.
    changed: BTreeSet<usize>,
}

impl Deref for Slots {
    type Target = [Slot];

    fn deref(&self) -> &[Slot] {
        &self.slots
    }
}

impl Slots {
    pub(crate) fn new(slots: Vec<Slot>, pool: &PoolSettings) -> Self {
        let (index, changed) = (Index::of(&slots, pool), (0..slots.len()).collect());
        let places = slots.iter().zip(0..).map(|(slot, at)| (slot.id().slot, at)).collect();
        Slots { slots, index, places, changed }
    }

    /// The slots by what decisions ask about them.
    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    /// Whether the index is what a look at every slot says. A debug build asks this after each decision, and in a pool of
    /// more than [`COMPARED`] slots gets yes without a look: it takes 8 us a slot.
    pub(crate) fn is_indexed(&self, pool: &PoolSettings) -> bool {
        self.slots.len() > COMPARED || self.index == Index::of(&self.slots, pool)
    }

    /// Adds a slot, and gives its position.
    pub(crate) fn push(&mut self, slot: Slot, pool: &PoolSettings) -> usize {
        let at = self.slots.len();
        self.places.insert((slot.id().slot, at));
        self.slots.push(slot);
        // The end of the edit puts the slot into the index.
        drop(self.edit(at, pool));
        at
    }

    /// A slot to change. `pool` holds the settings of its pool, on which some groups of the index depend.
    pub(crate) fn edit<'a>(&'a mut self, at: usize, pool: &'a PoolSettings) -> Edit<'a> {
        Edit { slots: self, at, pool }
    }

    /// Changes every slot.
    pub(crate) fn edit_all(&mut self, pool: &PoolSettings, change: impl Fn(&mut Slot)) {
        (0..self.slots.len()).for_each(|at| change(&mut self.edit(at, pool)));
    }

    /// The settings of the pool have changed: another time may be due now, or another number of jobs find room.
    pub(crate) fn adapt(&mut self, pool: &PoolSettings) {
        *self = Slots::new(std::mem::take(&mut self.slots), pool);
    }

    /// Shows `tend` the slots in which something may be to do, in their order: those that have changed since the last
    /// time, those whose time has come, those at work when the stop ends all jobs, and those with jobs that wait for
    /// what happens in other slots. In the others nothing was left to do the last time, and nothing has come since.
    pub(crate) fn tend(
        &mut self,
        now: Instant,
        pool: &PoolSettings,
        stop: Option<&Stopping>,
        mut tend: impl FnMut(&mut Slot),
    ) {
        let mut due = std::mem::take(&mut self.changed);
        if stop.is_some_and(|stop| stop.term_at(pool.grace) <= now) {
            due.extend((0..self.slots.len()).filter(|at| self.slots[*at].is_at_work()));
        }
        due.extend(self.due(now));
        due.extend(self.waiting());
        let others = || (0..self.slots.len()).filter(|at| !due.contains(at));
        debug_assert!(others().all(|at| self.slots[at].rests(now, pool, stop)));
        for at in due {
            // Without `edit`, which would note the slot as changed, so that `tend` would come by again for
            // nothing.
            tend(&mut self.slots[at]);
            self.index.update(at, &self.slots[at], pool);
        }
    }

    /// The positions of the slots whose time has come, in their order.
    pub(crate) fn due(&self, now: Instant) -> BTreeSet<usize> {
        self.index.wakes.between(Instant(0), now).collect()
    }

    /// The positions of the slots with jobs that wait to run alone there.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = usize> {
        self.index.all(Kind::Closed).filter(|at| self.slots[*at].has_waiting())
    }

    /// The position of the slot with this very life.
    pub(crate) fn find(&self, worker: WorkerId) -> Option<usize> {
        self.places(worker.slot).find(|at| self.slots[*at].id() == worker)
    }

    /// The position of this slot, whichever life it has.
    pub(crate) fn find_slot(&self, slot: SlotId) -> Option<usize> {
        self.places(slot).next()
    }

    fn places(&self, slot: SlotId) -> impl Iterator<Item = usize> {
        self.places.range((slot, 0)..=(slot, usize::MAX)).map(|(_, at)| *at)
    }
}

/// One slot while it is changed.
pub(crate) struct Edit<'a> {
    slots: &'a mut Slots,
    at: usize,
    pool: &'a PoolSettings,
}

impl<'a> Edit<'a> {
    /// The settings of the pool.
    pub(crate) fn settings(&self) -> &'a PoolSettings {
        self.pool
    }
}

impl Deref for Edit<'_> {
    type Target = Slot;

    fn deref(&self) -> &Slot {
        &self.slots.slots[self.at]
    }
}

impl DerefMut for Edit<'_> {
    fn deref_mut(&mut self) -> &mut Slot {
        &mut self.slots.slots[self.at]
    }
}

impl Drop for Edit<'_> {
    fn drop(&mut self) {
        let Slots { slots, index, changed, .. } = &mut *self.slots;
        index.update(self.at, &slots[self.at], self.pool);
        changed.insert(self.at);
    }
}
