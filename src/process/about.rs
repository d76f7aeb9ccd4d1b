//! What a life is called where it is spoken of in the log.

use super::Children;
use super::plan::Role;
use crate::model::{Bytes, JobId, Work, WorkerId};

impl Children {
    /// The name of a worker's pool.
    pub fn pool(&self, worker: WorkerId) -> &str {
        self.plans.get(usize::from(worker.slot.pool)).map_or("", |plan| &plan.settings.name)
    }

    /// The command of a life that is to speak the worker protocol from its first moment.
    pub fn speaker(&self, worker: WorkerId) -> Option<&[Bytes]> {
        let plan = self.plans.get(usize::from(worker.slot.pool))?;
        match (plan.role(worker), &plan.outfit.work) {
            (Role::Worker | Role::Template, Work::Command(argv)) => Some(argv),
            (Role::Worker | Role::Template | Role::Parked | Role::Child, _) => None,
        }
    }

    /// The job of a worker that has one and no other.
    pub fn only_job(&self, worker: WorkerId) -> Option<&JobId> {
        match self.lives.get(&worker)?.jobs.as_slice() {
            [only] => Some(&only.job.id),
            _ => None,
        }
    }
}
