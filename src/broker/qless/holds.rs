//! The holds that this process has, and what it hears of them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::model::{Fence, Instant, JobId};

/// What is said of a job is kept for so long for a hold that comes after: Redis orders no messages against answers.
const EARLY: Duration = Duration::from_secs(2);
/// Of so many jobs at most.
const EARLY_MAX: usize = 1000;
#[derive(Default)]
pub(super) struct Holds(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    held: HashMap<JobId, Fence>,
    /// What was said of jobs that are not held, with when.
    early: HashMap<JobId, Instant>,
}

impl Holds {
    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A job was given to us: with the hold that is lost by that, if we had it already, and whether something was said
    /// of it before.
    pub(super) fn granted(&self, job: &JobId, fence: Fence, now: Instant) -> (Option<Fence>, bool) {
        let mut inner = self.inner();
        let lost = inner.held.insert(job.clone(), fence).filter(|before| *before != fence);
        (lost, inner.early.remove(job).is_some_and(|at| now.since(at) < EARLY))
    }

    /// A hold goes on, also one whose loss was told already: it is followed again.
    pub(super) fn renewed(&self, job: &JobId, fence: Fence) {
        self.inner().held.insert(job.clone(), fence);
    }

    /// A hold is over: settled, or lost and told.
    pub(super) fn ended(&self, job: &JobId, fence: Fence) {
        let mut inner = self.inner();
        if inner.held.get(job) == Some(&fence) {
            inner.held.remove(job);
        }
    }

    /// Something was said of a job: that it is canceled, put anew, or given to another. Gives the hold to ask about.
    pub(super) fn heard(&self, job: &JobId, now: Instant) -> Option<(JobId, Fence)> {
        let mut inner = self.inner();
        let held = inner.held.get(job).map(|fence| (job.clone(), *fence));
        if held.is_none() {
            inner.early.retain(|_, at| now.since(*at) < EARLY);
            if inner.early.len() < EARLY_MAX {
                inner.early.insert(job.clone(), now);
            }
        }
        held
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<(JobId, Fence)> {
        self.inner().held.iter().map(|(job, fence)| (job.clone(), *fence)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Instant = Instant::from_millis(10_000);

    #[test]
    fn what_is_said_of_a_job_is_asked_about_also_if_it_was_said_before_the_hold_was_known() {
        let (holds, job) = (Holds::default(), JobId::from("a"));
        assert_eq!(holds.heard(&job, AT), None);
        assert_eq!(holds.granted(&job, Fence(3), AT + Duration::from_millis(5)), (None, true));
        assert_eq!(holds.heard(&job, AT + Duration::from_millis(900)), Some((job.clone(), Fence(3))));
        holds.renewed(&job, Fence(3));
        assert_eq!(holds.all(), [(job, Fence(3))]);
    }

    #[test]
    fn a_hold_ends_with_its_own_fence() {
        let (holds, job) = (Holds::default(), JobId::from("a"));
        assert_eq!(holds.granted(&job, Fence(2), AT), (None, false));
        holds.ended(&job, Fence(1));
        assert_eq!(holds.all(), [(job.clone(), Fence(2))]);
        // Its loss was not told before it was given to us again.
        assert_eq!(holds.granted(&job, Fence(4), AT), (Some(Fence(2)), false));
        holds.ended(&job, Fence(4));
        assert_eq!(holds.all(), []);
    }
}
