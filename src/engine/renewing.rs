//! The jobs whose leases this supervisor renews. A failed renewal is a complaint only until its job ends.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use broker::{Complaints, Error};
use model::{Instant, JobId, Lease};

/// What failed, for complaints.
pub(super) const RENEWING: &str = "failed to renew";

/// The jobs whose leases this supervisor renews, and the complaints about failed renewals. Clones share both.
#[derive(Clone, Debug)]
pub(super) struct Renewing {
    jobs: Arc<Mutex<HashSet<JobId>>>,
    told: Complaints,
}

impl Renewing {
    /// No job so far.
    pub(super) fn new(told: Complaints) -> Renewing {
        Renewing { jobs: Arc::default(), told }
    }

    /// Notes that the broker is asked to renew these leases.
    pub(super) fn asked(&self, leases: &[Lease]) {
        self.with(|jobs| jobs.extend(leases.iter().map(|lease| lease.job.clone())));
    }

    /// Takes the broker's answer, an error or none. After the end of the job it is no complaint.
    pub(super) fn answered(&self, job: &JobId, error: Option<&Error>, now: Instant) {
        // The job may end after this: `ended` removes the complaint.
        self.with(|jobs| match error.filter(|_| jobs.contains(job)) {
            Some(error) => self.told.wrong_for(RENEWING, job.as_str(), error, now),
            None => self.told.well_for(RENEWING, job.as_str(), now),
        });
    }

    /// Removes a job that is settled or lost, with the complaint about it.
    pub(super) fn ended(&self, job: &JobId, now: Instant) {
        self.with(|jobs| {
            jobs.remove(job);
            self.told.well_for(RENEWING, job.as_str(), now);
        });
    }

    fn with<R>(&self, act: impl FnOnce(&mut HashSet<JobId>) -> R) -> R {
        act(&mut self.jobs.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
