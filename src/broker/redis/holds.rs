//! The holds that this process has, and what it hears of them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::model::{Fence, Instant, JobId, Revocation};

/// What is said of a job is kept for so long for a hold that comes after: Redis orders no messages against answers.
const EARLY: Duration = Duration::from_secs(2);
/// Of so many jobs at most.
const EARLY_MAX: usize = 1000;
/// A hold younger than this may be meant, or the one before it.
const YOUNG: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Holds(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    held: HashMap<JobId, Hold>,
    /// What was said of jobs that are not held, with when.
    early: HashMap<JobId, Instant>,
}

#[derive(Clone, Copy)]
struct Hold {
    fence: Fence,
    since: Instant,
}

/// What is to be done about something that was said of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hearing {
    /// Nothing: it is not held here.
    Nothing,
    /// The hold is lost.
    Lost(Fence),
    /// It may be about the hold before: ask.
    Ask(Fence),
}

impl Holds {
    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A job was given to us: with the hold that is lost by that, if we had it already, and whether something was said
    /// of it before.
    pub(super) fn granted(&self, job: &JobId, fence: Fence, now: Instant) -> (Option<Fence>, bool) {
        let mut inner = self.inner();
        let before = inner.held.insert(job.clone(), Hold { fence, since: now });
        let lost = before.map(|hold| hold.fence).filter(|before| *before != fence);
        (lost, inner.early.remove(job).is_some_and(|at| now.since(at) < EARLY))
    }

    /// A hold goes on, also one whose loss was told already: it is followed again, and what is said of it just now may be
    /// from before.
    pub(super) fn renewed(&self, job: &JobId, fence: Fence, now: Instant) {
        self.inner().held.insert(job.clone(), Hold { fence, since: now });
    }

    /// A hold is over: settled, or lost and told.
    pub(super) fn ended(&self, job: &JobId, fence: Fence) {
        let mut inner = self.inner();
        if inner.held.get(job).is_some_and(|hold| hold.fence == fence) {
            inner.held.remove(job);
        }
    }

    /// Something was said of a job: that it is canceled, put anew, or given to another.
    pub(super) fn heard(&self, job: &JobId, now: Instant) -> Hearing {
        let mut inner = self.inner();
        match inner.held.get(job) {
            Some(hold) if now.since(hold.since) < YOUNG => Hearing::Ask(hold.fence),
            Some(hold) => Hearing::Lost(hold.fence),
            None => {
                inner.early.retain(|_, at| now.since(*at) < EARLY);
                if inner.early.len() < EARLY_MAX {
                    inner.early.insert(job.clone(), now);
                }
                Hearing::Nothing
            }
        }
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<(JobId, Fence)> {
        self.inner().held.iter().map(|(job, hold)| (job.clone(), hold.fence)).collect()
    }
}

/// What the event of a job means for who holds it; `None` for events of no account.
pub(super) fn revocation(event: &str) -> Option<Revocation> {
    match event {
        "lock_lost" => Some(Revocation::LockLost),
        "canceled" => Some(Revocation::Canceled),
        "put" => Some(Revocation::Moved),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Instant = Instant::from_millis(10_000);

    #[test]
    fn what_is_said_of_a_young_hold_is_asked_about() {
        let (holds, job) = (Holds::default(), JobId::from("a"));
        assert_eq!(holds.heard(&job, AT), Hearing::Nothing);
        // It was said just before the hold was known.
        assert_eq!(holds.granted(&job, Fence(3), AT + Duration::from_millis(5)), (None, true));
        assert_eq!(holds.heard(&job, AT + Duration::from_millis(900)), Hearing::Ask(Fence(3)));
        assert_eq!(holds.heard(&job, AT + Duration::from_millis(1100)), Hearing::Lost(Fence(3)));
        // And of one that was renewed a moment ago.
        holds.renewed(&job, Fence(3), AT + Duration::from_secs(30));
        assert_eq!(holds.heard(&job, AT + Duration::from_millis(30_900)), Hearing::Ask(Fence(3)));
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
