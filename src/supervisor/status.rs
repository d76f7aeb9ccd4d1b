//! What the status shows of the pools.

use crate::Supervisor;
use model::{Class, Fit, Instant, PoolStatus};

impl Supervisor {
    /// The status of the pools with all that decisions depend on; the engine adds the processes.
    pub fn status(&self, now: Instant) -> Vec<PoolStatus> {
        let suspect = self.alone(now).map(|(suspect, _)| suspect);
        self.pools.in_order().map(|pool| pool.status(now, suspect)).collect()
    }

    /// The same, and whether each pool takes jobs of a class.
    pub fn status_for(&self, now: Instant, class: Option<&Class>) -> Vec<(PoolStatus, Fit)> {
        let suspect = self.alone(now).map(|(suspect, _)| suspect);
        self.pools.in_order().map(|pool| (pool.status(now, suspect), pool.fit_of(class))).collect()
    }
}
