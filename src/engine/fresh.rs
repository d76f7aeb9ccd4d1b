//! Settings that were read again, and how the workers of all settings so far are made.

use std::sync::Arc;

use super::pauses::Pauses;
use crate::api::Changed;
use crate::model::{Change, PoolStatus, Settings, SpawnSpec};

/// Reads the settings, or says what is wrong with them and where.
pub type ReadSettings = Arc<dyn Fn() -> Result<Fresh, String> + Send + Sync>;

/// Has changes outlive the supervisor that they were asked of: all that last, each time, and who paused what.
pub type KeepChanges = Box<dyn Fn(&[(String, Change)], &Pauses) + Send>;

/// What was read.
pub struct Fresh {
    /// The file it was read from; without one all is from flags and variables, which stay as they were.
    pub file: Option<String>,
    /// What to keep up.
    pub settings: Settings,
    /// How the workers of each of its pools are made.
    pub outfits: Vec<SpawnSpec>,
    /// What is not as it was.
    pub changed: Vec<Changed>,
    /// Has them outlive this supervisor, once they count.
    pub keep: Box<dyn FnOnce() + Send>,
}

/// All outfits there ever were: equal ones have one number.
#[derive(Debug, Default)]
pub struct SpawnSpecs(Vec<SpawnSpec>);

impl SpawnSpecs {
    /// Writes the number of its outfit into each pool.
    pub fn number(&mut self, settings: &mut Settings, outfits: Vec<SpawnSpec>) {
        for (pool, outfit) in settings.pools.iter_mut().zip(outfits) {
            let known = self.0.iter().position(|known| *known == outfit);
            let number = known.unwrap_or_else(|| {
                self.0.push(outfit);
                self.0.len() - 1
            });
            pool.outfit = number as u32;
        }
    }

    /// Writes into each pool whom its processes run as, if that is not the supervisor's user. Both are in the same order.
    pub fn name_users<'a>(
        &self,
        outfits: impl Iterator<Item = u32>,
        pools: impl Iterator<Item = &'a mut PoolStatus>,
    ) {
        for (pool, outfit) in pools.zip(outfits) {
            let identity = self.get(outfit).and_then(|outfit| outfit.identity.as_ref());
            pool.user = identity.map(|user| user.name.clone());
        }
    }

    /// The outfit of that number.
    pub fn get(&self, number: u32) -> Option<&SpawnSpec> {
        self.0.get(number as usize)
    }
}
