//! Where a list looks for its jobs, so that it meets few others.

use crate::model::{Filter, JobState};

/// A way through the jobs by their places, in SQL; ?1 is the state wanted, ?2 the place before which it begins, ?3 the tag,
/// ?4 the failure group.
pub(super) struct Way {
    /// What is gone through.
    pub(super) from: &'static str,
    /// The place of a job.
    pub(super) place: &'static str,
    /// What holds for all that are met.
    pub(super) among: &'static str,
}

impl Way {
    /// The shortest one. Jobs in the common states are met on the way through them all.
    pub(super) fn of(filter: &Filter, only: Option<JobState>) -> Way {
        if filter.tag.is_some() {
            let from = "tag CROSS JOIN job ON job.id = tag.job";
            return Way { from, place: "tag.job", among: "tag.tag = ?3" };
        }
        if filter.group.is_some() {
            return Way { from: "job INDEXED BY job_group", place: "job.id", among: "failure_group = ?4" };
        }
        if filter.tracked {
            let from = "tracked CROSS JOIN job ON job.id = tracked.job";
            return Way { from, place: "tracked.job", among: "TRUE" };
        }
        let (from, among) = match only {
            None | Some(JobState::Waiting | JobState::Delayed | JobState::Complete) => {
                ("job NOT INDEXED", "TRUE")
            }
            Some(JobState::Running | JobState::Canceling) => {
                ("job INDEXED BY job_expiry", "state = ?1 AND expires_at IS NOT NULL")
            }
            Some(JobState::Depends | JobState::Failed | JobState::Held | JobState::Canceled) => {
                ("job INDEXED BY job_odd", "state = ?1 AND state >= 5")
            }
        };
        Way { from, place: "job.id", among }
    }
}
