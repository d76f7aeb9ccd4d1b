//! A pool and its heir: a second pool of its name, whose workers replace those of the first.

use super::Pool;
use super::index::Kind;
use crate::wear::Wear;
use crate::why::Why;
use model::{Change, Instant, PoolSettings};

/// What an heir takes over.
pub(crate) struct Estate {
    size: usize,
    rank: usize,
    changes: Vec<Change>,
}

/// The pool that goes.
impl Pool {
    /// The pool ends, as soon as its heir, if it has one, can replace it.
    pub(crate) fn retire(&mut self) {
        self.outdated = true;
    }

    /// An heir is to relieve the only worker of the pool, which is worn out.
    pub(crate) fn be_relieved(&mut self, wear: Wear) {
        self.worn = Some(wear);
    }

    /// Whether the pool ends.
    pub(crate) fn is_outdated(&self) -> bool {
        self.outdated
    }

    /// Whether it ends because its only worker is worn out.
    pub(crate) fn is_relieved(&self) -> bool {
        self.worn.is_some()
    }

    /// What an heir with these settings takes over: the number of workers, and the changes that last.
    pub(crate) fn estate(&self, fresh: &PoolSettings) -> Estate {
        let resized = !self.configured.has_size_of(fresh);
        // A new size in the settings replaces the one that a person has asked for.
        let lasting = |change: &Change| !(resized && matches!(change, Change::Scale(_)));
        Estate { size: self.filled(), rank: self.rank, changes: self.changes().filter(lasting).collect() }
    }

    /// Has workers leave until only as many stay as the heirs lack, and gives how many stay.
    pub(crate) fn make_way(&mut self, now: Instant, lacking: usize) -> usize {
        // Workers that were never ready run no jobs: nothing is lost with them.
        let keep = if self.boots.proven { lacking } else { 0 };
        self.at_most(now, keep, self.worn.map_or(Why::Replaced, Why::Relieved))
    }

    /// Number of jobs whose leases the pool holds in its slots.
    pub(crate) fn leased(&self) -> usize {
        self.slots.iter().map(|slot| slot.leased().count()).sum()
    }

    /// Whether nothing is left of a pool that was to end.
    pub(crate) fn is_gone(&self) -> bool {
        let rests = self.slots.iter().all(|slot| !slot.is_wanted() && slot.is_idle());
        self.outdated && rests && self.ahead.is_empty() && !self.is_asking()
    }
}

/// The pool that comes.
impl Pool {
    /// Begins with the size of the pool that it replaces, and with the changes made to that.
    pub(crate) fn take_over(&mut self, now: Instant, estate: Estate) {
        self.rank = estate.rank;
        estate.changes.into_iter().for_each(|change| self.change(change));
        self.begin_with(now, estate.size);
    }

    /// How many slots have yet to get a worker that takes jobs.
    pub(crate) fn to_come(&self) -> usize {
        self.slots.index().all(Kind::Filled).filter(|at| !self.slots[*at].has_booted()).count()
    }

    /// Notes whether the pool replaces another one: `outdated` has the names of those that are left.
    pub(crate) fn roll(&mut self, outdated: &[String]) {
        self.rolling = !self.outdated && outdated.contains(&self.settings.name);
    }

    /// The worn out worker that the pool replaces still has this number of jobs.
    pub(crate) fn leave_room(&mut self, leased: usize) {
        self.intake.beside = leased;
    }
}
