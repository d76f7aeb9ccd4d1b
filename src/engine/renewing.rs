//! The jobs whose renewals are asked for, until they end: only for these a failed renewal is a complaint.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use broker::{Complaints, Error};
use model::{Instant, JobId, Lease};

/// What failed, for complaints.
pub(super) const RENEWING: &str = "failed to renew";

/// The jobs whose renewals are asked for, and where failures are told. All copies are one.
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

    /// The renewals of these leases are asked for next.
    pub(super) fn asked(&self, leases: &[Lease]) {
        self.with(|jobs| jobs.extend(leases.iter().map(|lease| lease.job.clone())));
    }

    /// The broker has answered, with an error or without. After the end of its job that says nothing to anybody.
    pub(super) fn answered(&self, job: &JobId, error: Option<&Error>, now: Instant) {
        // The job may end at any moment: what is told here is taken back then.
        self.with(|jobs| match error.filter(|_| jobs.contains(job)) {
            Some(error) => self.told.wrong_for(RENEWING, job.as_str(), error, now),
            None => self.told.well_for(RENEWING, job.as_str(), now),
        });
    }

    /// The job is settled or lost: whether it was renewed concerns nobody any more.
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
