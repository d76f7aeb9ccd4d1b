//! The names of lives and pools for the log.

use std::sync::Arc;

use super::Children;
use super::plan::Role;
use model::{Bytes, Flood, JobId, Work, WorkerId, WorkerName};

impl Children {
    /// The current name of the pool with this number. A number is used again only when no process of the earlier pool
    /// lives.
    pub fn pool(&self, number: u16) -> Arc<str> {
        self.plans
            .get(usize::from(number))
            .map_or_else(|| format!("#{number}").into(), |plan| plan.name.clone())
    }

    /// The name of this life for people.
    pub fn name(&self, worker: WorkerId) -> WorkerName {
        WorkerName::new(self.pool(worker.slot.pool), worker)
    }

    /// How much a job has printed there, once that is more than its log keeps.
    pub fn flood(&self, worker: WorkerId, job: &JobId) -> Option<Flood> {
        let jobs = &self.lives.get(&worker)?.jobs;
        jobs.iter().find(|running| running.job.id == *job)?.printed.flood()
    }

    /// The command of a life that must speak the worker protocol from the start.
    pub fn speaker(&self, worker: WorkerId) -> Option<&[Bytes]> {
        let plan = self.plans.get(usize::from(worker.slot.pool))?;
        match (plan.role(worker), &plan.spec.work) {
            (Role::Worker | Role::Template, Work::Command(argv)) => Some(argv),
            (Role::Worker | Role::Template | Role::Parked | Role::Child, _) => None,
        }
    }
}
