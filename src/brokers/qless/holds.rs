//! The leases that this process holds, and messages about their jobs.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use model::{Fence, Instant, JobId};

/// How long to keep a message about a job for a lease that we learn of later: Redis does not order messages and
/// replies.
const EARLY: Duration = Duration::from_secs(2);
/// Limit of the jobs whose messages are kept.
const EARLY_MAX: usize = 1000;
#[derive(Default)]
pub(super) struct Holds(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    held: HashMap<JobId, Fence>,
    /// When the latest message came about each job of which we hold no lease.
    early: HashMap<JobId, Instant>,
}

impl Holds {
    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a job that was given to us. Gives the older lease that this ends, if we had one, and whether a message
    /// about the job came before.
    pub(super) fn granted(&self, job: &JobId, fence: Fence, now: Instant) -> (Option<Fence>, bool) {
        let mut inner = self.inner();
        let lost = inner.held.insert(job.clone(), fence).filter(|before| *before != fence);
        (lost, inner.early.remove(job).is_some_and(|at| now.since(at) < EARLY))
    }

    /// A lease was renewed: its messages are followed again, even if its loss was reported before.
    pub(super) fn renewed(&self, job: &JobId, fence: Fence) {
        self.inner().held.insert(job.clone(), fence);
    }

    /// A lease is over: settled, or lost and reported.
    pub(super) fn ended(&self, job: &JobId, fence: Fence) {
        let mut inner = self.inner();
        // A newer lease of the same job stays.
        if inner.held.get(job) == Some(&fence) {
            inner.held.remove(job);
        }
    }

    /// A message says that a job was canceled, put again, or given to another worker. Gives our lease, for which to ask
    /// the server.
    pub(super) fn heard(&self, job: &JobId, now: Instant) -> Option<(JobId, Fence)> {
        let mut inner = self.inner();
        let held = inner.held.get(job).map(|fence| (job.clone(), *fence));
        if held.is_none() {
            inner.early.retain(|_, at| now.since(*at) < EARLY);
            // Anybody can send messages, about any number of jobs.
            if inner.early.len() < EARLY_MAX {
                inner.early.insert(job.clone(), now);
            }
        }
        held
    }

    /// All leases held.
    pub(super) fn all(&self) -> Vec<(JobId, Fence)> {
        self.inner().held.iter().map(|(job, fence)| (job.clone(), *fence)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Instant = Instant::from_millis(10_000);

    #[test]
    fn event_of_a_job_is_checked_even_if_it_came_before_the_fetch_answer() {
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
        // The loss of the old hold was not reported before the job was fetched again.
        assert_eq!(holds.granted(&job, Fence(4), AT), (Some(Fence(2)), false));
        holds.ended(&job, Fence(4));
        assert_eq!(holds.all(), []);
    }
}
