//! Changes of a pool while its workers run: another size, a pause, settings that need no new workers.

use super::Pool;
use super::index::Kind;
use model::{Change, Instant, PoolSettings, Scale};

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

    /// How many slots have yet to get a worker that takes jobs.
    pub(crate) fn to_come(&self) -> usize {
        self.slots.index().count(Kind::ToCome)
    }

    /// Whether nothing is left of a pool that was to end.
    pub(crate) fn is_gone(&self) -> bool {
        let rests = self.slots.iter().all(|slot| !slot.is_wanted() && slot.is_idle());
        self.outdated && rests && self.ahead.is_empty() && !self.is_asking()
    }
}
