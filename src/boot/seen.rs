//! The settings in force, to show them and to compare them with those of a reload.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use config::{Config, Origins, Shown};
use model::ConfigShown;

/// The settings in force. All copies are one.
#[derive(Clone)]
pub(super) struct Seen {
    /// The flag or variable of each setting that was typed: they never change.
    typed: Arc<BTreeMap<String, String>>,
    /// With secrets, which differ, too.
    shown: Arc<Mutex<Shown>>,
    /// How many slots they ask for.
    slots: Arc<AtomicU64>,
}

impl Seen {
    /// These settings, of which those were typed.
    pub(super) fn new(config: &Config, typed: BTreeMap<String, String>) -> Seen {
        let shown = all(config, &typed);
        let slots = Arc::new(AtomicU64::new(config.slots()));
        Seen { typed: Arc::new(typed), shown: Arc::new(Mutex::new(shown)), slots }
    }

    /// Other settings of the same command line, including secret ones.
    pub(super) fn shown(&self, config: &Config) -> Shown {
        all(config, &self.typed)
    }

    /// Has others in force.
    pub(super) fn replace(&self, shown: Shown, slots: u64) {
        *self.held() = shown;
        self.slots.store(slots, Ordering::Relaxed);
    }

    /// How many slots those in force ask for.
    pub(super) fn slots(&self) -> u64 {
        self.slots.load(Ordering::Relaxed)
    }

    /// Those in force, including secret ones.
    pub(super) fn held(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those in force, as anybody may see them who may look.
    pub(super) fn show(&self) -> ConfigShown {
        let shown = self.held().clone();
        shown.without_secrets().to_document()
    }
}

fn all(config: &Config, typed: &BTreeMap<String, String>) -> Shown {
    config::show(config, &Origins::of_source(config.file.as_ref(), typed.clone()), true)
}
