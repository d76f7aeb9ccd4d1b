//! The slots of a pool by what decisions ask about them: each question has a group of the slots that answer it.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::jobs::Running;
use super::worker::{Slot, State};
use model::{Instant, JobId, PoolSettings, WorkerId};

/// Some slots of a pool in the order of a key; those with equal keys by position.
#[derive(Debug, PartialEq)]
pub(super) struct Group<K> {
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

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The least key, and the position of its slot.
    pub(super) fn first(&self) -> Option<(K, usize)> {
        self.order.first().copied()
    }

    /// The positions of the slots, in the order of their keys.
    pub(super) fn positions(&self) -> impl Iterator<Item = usize> {
        self.order.iter().map(|(_, at)| *at)
    }

    /// The positions of the slots with keys from `first` to `last`.
    pub(super) fn between(&self, first: K, last: K) -> impl Iterator<Item = usize> {
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
        let is_same = |(old, new): &(&JobId, &Running)| **old == new.job.id;
        let head = before.iter().zip(slot.leased()).take_while(is_same).count();
        let tail = before.iter().rev().zip(slot.leased().rev()).take_while(is_same).count();
        let tail = tail.min(shorter - head);
        let changed = head..before.len() - tail;
        let came = slot.leased().take(count - tail).skip(head).map(|running| running.job.id.clone());
        for gone in before.splice(changed, came.clone()).collect::<Vec<_>>() {
            self.order.remove(&(gone, at));
        }
        self.order.extend(came.map(|job| (job, at)));
    }
}

/// The groups of the slots of one pool.
#[derive(Debug, PartialEq)]
pub(super) struct Index {
    holders: Holders,
    /// All slots, by the life in them.
    pub(super) lives: Group<WorkerId>,
    /// Slots that need something at a time, by that time.
    pub(super) wakes: Group<Instant>,
    /// Slots with a job that could come again, by the first end of such a lease.
    pub(super) doubts: Group<Instant>,
    /// Slots whose worker has room for a job, by the number of jobs it has.
    pub(super) room: Group<usize>,
    /// Slots that have a worker or want one and are not leaving, those first that can be spared first.
    pub(super) filled: Group<(u8, usize, Reverse<u16>)>,
    /// Of these, the slots in which no worker has become ready yet.
    pub(super) to_come: Group<()>,
    /// Slots that have a worker or want one, apart from the template's.
    pub(super) wanted: Group<()>,
    /// Of these, the slots in which a worker has become ready.
    pub(super) booted: Group<()>,
    /// Slots that neither have a worker nor want one.
    pub(super) empty: Group<()>,
    /// Slots that want their next life.
    pub(super) down: Group<()>,
    /// Slots whose process is being made.
    pub(super) starting: Group<()>,
    /// Slots whose life has yet to become ready, or dies before.
    pub(super) booting: Group<()>,
    /// Slots whose worker has jobs or takes some.
    pub(super) at_work: Group<()>,
    /// Of these, the slots that are not leaving.
    pub(super) working: Group<()>,
    /// Of these, the slots without jobs, longest idle first.
    pub(super) idle: Group<(Instant, Reverse<WorkerId>)>,
    /// Slots whose worker is worn out by time, by that time.
    pub(super) ages: Group<Instant>,
    /// Slots whose worker is worn out by jobs or by memory.
    pub(super) worn: Group<()>,
    /// Slots that will run the jobs fetched ahead.
    pub(super) lasting: Group<()>,
    /// Slots that hold leases.
    pub(super) leased: Group<()>,
    /// Slots with jobs that wait to run alone there.
    pub(super) waits: Group<()>,
    /// Slots with a job that has this host for itself, or waits for that.
    pub(super) suspects: Group<()>,
    /// Slots with a process that may still be ended in time.
    pub(super) alive: Group<()>,
    /// Slots with a process that does not die.
    pub(super) stuck: Group<()>,
}

impl Index {
    /// The index of these slots.
    pub(super) fn of(slots: &[Slot], pool: &PoolSettings) -> Self {
        let mut index = Index {
            holders: Holders::default(),
            lives: Group::new(),
            wakes: Group::new(),
            doubts: Group::new(),
            room: Group::new(),
            filled: Group::new(),
            to_come: Group::new(),
            wanted: Group::new(),
            booted: Group::new(),
            empty: Group::new(),
            down: Group::new(),
            starting: Group::new(),
            booting: Group::new(),
            at_work: Group::new(),
            working: Group::new(),
            idle: Group::new(),
            ages: Group::new(),
            worn: Group::new(),
            lasting: Group::new(),
            leased: Group::new(),
            waits: Group::new(),
            suspects: Group::new(),
            alive: Group::new(),
            stuck: Group::new(),
        };
        slots.iter().enumerate().for_each(|(at, slot)| index.update(at, slot, pool));
        index
    }

    /// Puts the slot at this position where it belongs: this says which slots are in which group.
    pub(super) fn update(&mut self, at: usize, slot: &Slot, pool: &PoolSettings) {
        let (is_template, is_wanted) = (slot.is_template(), slot.is_wanted());
        let (is_down, is_stuck) = (slot.state == State::Down, slot.life.stuck.is_some());
        let is_filled = !is_template && is_wanted && !slot.is_leaving_for_good();
        let works = slot.works_on();
        let is_idle = slot.leased().next().is_none();
        let of = |is_in: bool| is_in.then_some(());
        self.holders.update(at, slot);
        self.lives.update(at, Some(slot.id));
        self.wakes.update(at, slot.wake_at(pool));
        self.doubts.update(at, slot.doubt_at());
        self.room.update(at, Some(slot.jobs.len()).filter(|_| slot.room(pool) > 0));
        self.filled.update(at, is_filled.then(|| slot.worth()));
        self.to_come.update(at, of(is_filled && !slot.booted));
        self.wanted.update(at, of(!is_template && is_wanted));
        self.booted.update(at, of(!is_template && is_wanted && slot.booted));
        self.empty.update(at, of(!is_template && !is_wanted && slot.waits.is_empty()));
        self.down.update(at, of(is_down && is_wanted));
        self.starting.update(at, of(slot.state == State::Starting));
        self.booting.update(at, of(slot.is_booting()));
        self.at_work.update(at, of(slot.is_at_work()));
        self.working.update(at, of(works));
        self.idle.update(at, (works && is_idle).then_some((slot.life.idle_since, Reverse(slot.id))));
        self.ages.update(at, slot.life.worn_at(is_idle).map(|(at, _)| at).filter(|_| works));
        self.worn.update(at, of(works && slot.life.worn_by_use().is_some()));
        self.lasting.update(at, of(slot.lasts()));
        self.leased.update(at, of(!is_idle));
        self.waits.update(at, of(!slot.waits.is_empty()));
        self.suspects.update(at, of(slot.leased().any(Running::is_suspect_of_all)));
        self.alive.update(at, of(!is_down && !is_stuck));
        self.stuck.update(at, of(is_stuck));
    }

    /// The positions of the slots that hold a lease of this job.
    pub(super) fn holders(&self, job: &JobId) -> impl Iterator<Item = usize> {
        let (first, last) = ((job.clone(), 0), (job.clone(), usize::MAX));
        self.holders.order.range(first..=last).map(|(_, at)| *at)
    }
}
