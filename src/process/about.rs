//! What a life is called where it is spoken of in the log.

use super::Children;
use crate::model::{JobId, WorkerId};

impl Children {
    /// The name of a worker's pool.
    pub fn pool(&self, worker: WorkerId) -> &str {
        self.plans.get(usize::from(worker.slot.pool)).map_or("", |plan| &plan.settings.name)
    }

    /// The job of a worker that has one and no other.
    pub fn only_job(&self, worker: WorkerId) -> Option<&JobId> {
        match self.lives.get(&worker)?.jobs.as_slice() {
            [only] => Some(&only.job.id),
            _ => None,
        }
    }
}
