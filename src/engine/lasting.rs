//! People's changes of pools, which outlive this supervisor, and who made them.

use super::authors::Authors;
use super::fresh::{KeepChanges, Kept};
use model::Change;

/// The changes that last.
pub(super) struct LastingChanges {
    /// Authors of the latest pauses, scalings and recyclings, by pool.
    pub(super) authors: Authors,
    store: KeepChanges,
    keeping: Kept,
}

impl LastingChanges {
    /// Those of an earlier supervisor, and what stores them.
    pub(super) fn new(authors: Authors, store: KeepChanges) -> LastingChanges {
        LastingChanges { authors, store, keeping: None }
    }

    /// Stores the changes in force.
    pub(super) fn keep(&mut self, in_force: &[(String, Change)]) {
        self.keeping = (self.store)(in_force, &self.authors);
    }

    /// Takes what resolves when the latest change is stored.
    pub(super) fn take_keeping(&mut self) -> Kept {
        self.keeping.take()
    }
}
