//! The slots of a pool by what decisions ask about them: each question has a group of the slots that answer it.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::slot::{Running, Slot};
use model::{Instant, JobId, PoolSettings, WorkerId};

/// Some slots of a pool in the order of a key; those with equal keys by position.
#[derive(Debug, PartialEq)]
pub(crate) struct Group<K> {
    /// The key of the slot at each position; None = the slot is not in the group.
    keys: Vec<Option<K>>,
    order: BTreeSet<(K, usize)>,
}

impl<K: Copy + Ord> Group<K> {
    fn new() -> Self {
        Group { keys: Vec::new(), order: BTreeSet::new() }
    }

    fn update(&mut self, at: usize, key: Option<K>) {
        if self.keys.len() <= at {
            self.keys.resize(at + 1, None);
        }
        let before = std::mem::replace(&mut self.keys[at], key);
        if before != key {
            before.map(|key| self.order.remove(&(key, at)));
            key.map(|key| self.order.insert((key, at)));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The least key, and the position of its slot.
    pub(crate) fn first(&self) -> Option<(K, usize)> {
        self.order.first().copied()
    }

    /// The positions of the slots, in the order of their keys.
    pub(crate) fn positions(&self) -> impl Iterator<Item = usize> {
        self.order.iter().map(|(_, at)| *at)
    }

    /// The positions of the slots with keys from `first` to `last`.
    pub(crate) fn between(&self, first: K, last: K) -> impl Iterator<Item = usize> {
        self.order.range((first, 0)..=(last, usize::MAX)).map(|(_, at)| *at)
    }
}

/// The slot of each job whose lease is held here.
#[derive(Debug, Default, PartialEq)]
struct Holders {
    /// The jobs of the slot at each position.
    jobs: Vec<Vec<JobId>>,
    order: BTreeSet<(JobId, usize)>,
}

impl Holders {
    /// A slot gains or loses one job in most cases: those before and behind it stay.
    fn update(&mut self, at: usize, slot: &Slot) {
        if self.jobs.len() <= at {
            self.jobs.resize(at + 1, Vec::new());
        }
        let (before, count) = (&mut self.jobs[at], slot.leased().count());
        let shorter = before.len().min(count);
        let is_same = |(old, new): &(&JobId, &Running)| **old == new.job().id;
        let head = before.iter().zip(slot.leased()).take_while(is_same).count();
        let tail = before.iter().rev().zip(slot.leased().rev()).take_while(is_same).count();
        let tail = tail.min(shorter - head);
        let changed = head..before.len() - tail;
        let came = slot.leased().take(count - tail).skip(head).map(|running| running.job().id.clone());
        for gone in before.splice(changed, came.clone()).collect::<Vec<_>>() {
            self.order.remove(&(gone, at));
        }
        self.order.extend(came.map(|job| (job, at)));
    }
}

/// A question about a slot that has the answer yes or no, and that decisions ask in each turn. What is asked seldom, or
/// while a pool is replaced or the supervisor stops, a look at the slots answers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// It neither has a worker nor wants one, and is not the template's.
    Vacant,
    /// It has a worker or wants one, is not the template's, and does not stay empty afterwards.
    Filled,
    /// It wants its next life.
    Due,
    /// Its life has yet to become ready, or dies before.
    Booting,
    /// Its worker takes jobs, and is not leaving.
    Working,
    /// The same, and its worker is worn out by jobs or by memory.
    Worn,
    /// It will run the jobs fetched ahead.
    Lasting,
    /// It is reserved for jobs that run alone: one runs there, or waits for that.
    Closed,
}

/// Number of the kinds.
const KINDS: usize = Kind::Closed as usize + 1;

/// The kinds of one slot, a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Kinds(u8);

impl Kinds {
    fn with(self, kind: Kind, is: bool) -> Kinds {
        Kinds(self.0 | u8::from(is) << kind as u8)
    }

    /// Of this slot.
    fn of(slot: &Slot) -> Kinds {
        let (is_wanted, works) = (slot.is_wanted(), slot.works_on());
        let is_workers = !slot.is_template();
        Kinds::default()
            .with(Kind::Vacant, is_workers && !is_wanted)
            .with(Kind::Filled, is_workers && is_wanted && !slot.is_leaving_for_good())
            .with(Kind::Due, slot.due_at().is_some())
            .with(Kind::Booting, slot.is_booting())
            .with(Kind::Working, works)
            .with(Kind::Worn, works && slot.is_worn_by_use())
            .with(Kind::Lasting, slot.lasts())
            .with(Kind::Closed, slot.is_closed())
    }
}

/// The slots of each kind, by position.
#[derive(Debug, Default, PartialEq)]
struct Members {
    /// The kinds of the slot at each position.
    kinds: Vec<Kinds>,
    of: [BTreeSet<usize>; KINDS],
}

impl Members {
    /// Moves the slot between the kinds that have changed; most edits change none.
    fn update(&mut self, at: usize, now: Kinds) {
        if self.kinds.len() <= at {
            self.kinds.resize(at + 1, Kinds::default());
        }
        let Kinds(before) = std::mem::replace(&mut self.kinds[at], now);
        let changed = before ^ now.0;
        for (kind, members) in self.of.iter_mut().enumerate() {
            match (changed >> kind & 1 == 1, now.0 >> kind & 1 == 1) {
                (true, true) => _ = members.insert(at),
                (true, false) => _ = members.remove(&at),
                (false, _) => {}
            }
        }
    }
}

/// The slots of one pool, by what decisions ask about them.
#[derive(Debug, PartialEq)]
pub(crate) struct Index {
    members: Members,
    holders: Holders,
    /// Slots that need something at a time, by that time.
    pub(crate) wakes: Group<Instant>,
    /// Slots with a job that could come again, by the first end of such a lease.
    pub(crate) doubts: Group<Instant>,
    /// Slots whose worker has room for a job, by the number of jobs it has.
    pub(crate) room: Group<usize>,
    /// Working slots without jobs, the one first that has been idle longest.
    pub(crate) idle: Group<(Instant, Reverse<WorkerId>)>,
    /// Working slots whose worker is worn out by time, by that time.
    pub(crate) ages: Group<Instant>,
}

impl Index {
    /// The index of these slots.
    pub(crate) fn of(slots: &[Slot], pool: &PoolSettings) -> Self {
        let mut index = Index {
            members: Members::default(),
            holders: Holders::default(),
            wakes: Group::new(),
            doubts: Group::new(),
            room: Group::new(),
            idle: Group::new(),
            ages: Group::new(),
        };
        slots.iter().enumerate().for_each(|(at, slot)| index.update(at, slot, pool));
        index
    }

    /// Puts the slot at this position where it belongs.
    pub(crate) fn update(&mut self, at: usize, slot: &Slot, pool: &PoolSettings) {
        let works = slot.works_on();
        self.members.update(at, Kinds::of(slot));
        self.holders.update(at, slot);
        self.wakes.update(at, slot.wake_at(pool));
        self.doubts.update(at, slot.doubt_at());
        self.room.update(at, Some(slot.load()).filter(|_| slot.room(pool) > 0));
        self.idle.update(at, slot.idle_since().map(|since| (since, Reverse(slot.id()))));
        self.ages.update(at, slot.worn_at().filter(|_| works));
    }

    /// The positions of the slots of a kind, in their order.
    pub(crate) fn all(&self, kind: Kind) -> impl Iterator<Item = usize> + Clone {
        self.members.of[kind as usize].iter().copied()
    }

    /// Number of the slots of a kind.
    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.members.of[kind as usize].len()
    }

    /// Whether a slot is of this kind.
    pub(crate) fn has(&self, kind: Kind) -> bool {
        self.count(kind) > 0
    }

    /// Whether a slot holds the lease of a job.
    pub(crate) fn has_leases(&self) -> bool {
        !self.holders.order.is_empty()
    }

    /// The positions of the slots that hold a lease of this job.
    pub(crate) fn holders(&self, job: &JobId) -> impl Iterator<Item = usize> {
        let (first, last) = ((job.clone(), 0), (job.clone(), usize::MAX));
        self.holders.order.range(first..=last).map(|(_, at)| *at)
    }
}
