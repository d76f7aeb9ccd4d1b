//! Changes of a pool while its workers run: another size, a pause, settings that need no new workers.

use std::sync::Arc;

use super::Pool;
use model::{Change, Classes, Instant, PoolSettings, Scale};

impl Pool {
    /// Makes the change. It lasts until the settings or a person say otherwise.
    pub(crate) fn change(&mut self, change: Change) {
        match change {
            Change::Scale(by) => self.scale(by),
            Change::Pause => self.intake.paused = true,
            Change::Resume => {
                self.intake.paused = false;
                self.woken();
            }
            // The heir that replaces the workers needs no change of its own.
            Change::Recycle => {}
        }
    }

    /// The changes made since the settings were read that still last.
    pub(crate) fn changes(&self) -> impl Iterator<Item = Change> {
        let scaled = self.is_scaled().then_some(Change::Scale(Scale::To(self.settings.workers)));
        scaled.into_iter().chain(self.intake.paused.then_some(Change::Pause))
    }

    /// The workers say which classes they know.
    pub(crate) fn learn(&mut self, classes: Arc<Classes>) {
        self.unknown.learn(&classes);
        self.settings.knows = Some(classes);
    }

    /// A size rule gives the pool another size: it replaces a size that a person has asked for.
    pub(crate) fn size_to(&mut self, workers: u16) {
        self.configured.workers = workers;
        self.scale(Scale::To(workers));
    }

    /// People see the pool at this position among the others.
    pub(crate) fn stand_at(&mut self, rank: usize) {
        self.rank = rank;
    }

    /// Takes on settings that need no new workers.
    pub(crate) fn adapt(&mut self, now: Instant, fresh: PoolSettings) {
        let resized = !self.configured.has_size_of(&fresh);
        let size = (self.settings.workers, self.settings.min_workers);
        if !fresh.takes_as(&self.settings) {
            self.intake.turn_to(now, &fresh);
        }
        self.configured = fresh.clone();
        // The workers stay, so what they have said of their classes still holds.
        let knows = self.settings.knows.take().filter(|_| fresh.knows.is_none()).or(fresh.knows.clone());
        self.settings = PoolSettings { knows, ..fresh };
        // A size that a person has asked for lasts until the settings name another.
        if !resized {
            (self.settings.workers, self.settings.min_workers) = size;
        }
        self.slots.adapt(&self.settings);
    }
}
