//! What the status shows of a pool.

use std::sync::Arc;

use super::Pool;
use model::{Class, Fit, Instant, JobId, PoolStatus};

impl Pool {
    /// Whether the pool takes jobs of a class.
    pub(crate) fn fit_of(&self, class: Option<&Class>) -> Fit {
        let settings = &self.settings;
        match class {
            Some(class) if !settings.filter.matches(class) => Fit::Filtered,
            Some(class) if settings.knows.as_ref().is_some_and(|known| !known.contains_key(class)) => {
                Fit::Unknown
            }
            Some(_) | None => Fit::Runs,
        }
    }

    /// The classes that the workers have said they know; empty = they have said none.
    pub(crate) fn known(&self) -> impl Iterator<Item = &Class> {
        self.settings.knows.iter().flat_map(|knows| knows.keys())
    }

    pub(crate) fn status(&self, now: Instant, suspect: Option<&JobId>) -> PoolStatus {
        let slots = self.slots.iter().filter(|slot| !slot.is_template() && slot.is_wanted());
        let name = &Arc::from(self.settings.name.as_str());
        PoolStatus {
            name: self.settings.name.clone(),
            mode: self.settings.mode().into(),
            queues: self.settings.queues.clone(),
            concurrency: self.settings.jobs_at_once,
            user: None,
            probing: self.boots.probing.clone(),
            paused: self.intake.paused,
            pause: None,
            suspect: suspect.cloned(),
            outdated: self.outdated,
            time_of_day: None,
            scaled: self.is_scaled().then_some(self.settings.workers),
            scaled_by: None,
            recycled: None,
            template: self.template().map(|template| template.status(now, name)),
            grace: self.settings.grace,
            unknown: self.unknown.counts(),
            slots: slots.map(|slot| slot.status(now, name)).collect(),
        }
    }
}
