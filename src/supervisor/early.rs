//! Leases revoked before the answer to the fetch that brings them.

use std::collections::BTreeMap;

use model::{Fence, JobId, Lease, Revocation};

/// Limit of the remembered leases.
const REMEMBERED: usize = 1000;

/// Leases that were revoked for jobs that are not here, while a fetch is under way.
#[derive(Debug, Default)]
pub(super) struct Early(BTreeMap<(JobId, Fence), Revocation>);

impl Early {
    /// A lease was revoked that a fetch under way may bring.
    pub(super) fn remember(&mut self, job: &JobId, fence: Fence, why: Revocation) {
        self.0.insert((job.clone(), fence), why);
        if self.0.len() > REMEMBERED {
            self.0.pop_first();
        }
    }

    /// Why this lease was revoked, if it was.
    pub(super) fn revoked(&self, lease: &Lease) -> Option<Revocation> {
        self.0.get(&(lease.job.clone(), lease.fence)).copied()
    }

    /// The same; from here on the lease is forgotten.
    pub(super) fn recall(&mut self, lease: &Lease) -> Option<Revocation> {
        self.0.remove(&(lease.job.clone(), lease.fence))
    }

    /// No fetch is under way that could still bring one of these leases.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}
