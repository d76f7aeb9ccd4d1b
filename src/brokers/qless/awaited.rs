//! The jobs for whose end a caller waits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::Notify;

use common::lock;
use model::JobId;

/// The channel with the ids of canceled jobs that have no process any more: the line `canceled` on `ql:log` says that
/// they are to end.
pub(super) const OVER: &str = "ql:taskvisor:over";

/// A `Notify` for each job for which a caller waits.
#[derive(Default)]
pub(super) struct Awaited(Mutex<BTreeMap<JobId, Weak<Notify>>>);

impl Awaited {
    /// The `Notify` of a job, for as long as a caller keeps it.
    pub(super) fn bell(&self, job: &JobId) -> Arc<Notify> {
        let mut bells = lock(&self.0);
        // Nobody else removes the bells of callers that have gone.
        bells.retain(|_, bell| bell.strong_count() > 0);
        if let Some(bell) = bells.get(job).and_then(Weak::upgrade) {
            return bell;
        }
        let bell = Arc::new(Notify::new());
        bells.insert(job.clone(), Arc::downgrade(&bell));
        bell
    }

    /// Wakes those who wait for this job.
    pub(super) fn ring(&self, job: &JobId) {
        if let Some(bell) = lock(&self.0).get(job).and_then(Weak::upgrade) {
            bell.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn only_those_who_wait_for_a_job_are_woken_by_its_end() {
        let awaited = Awaited::default();
        let (one, same, other) =
            (awaited.bell(&"a".into()), awaited.bell(&"a".into()), awaited.bell(&"b".into()));
        assert!(Arc::ptr_eq(&one, &same));
        {
            let (mut woken, mut asleep) = (pin!(same.notified()), pin!(other.notified()));
            awaited.ring(&"a".into());
            let mut context = Context::from_waker(Waker::noop());
            assert!(woken.as_mut().poll(&mut context).is_ready());
            assert!(asleep.as_mut().poll(&mut context).is_pending());
        }
        drop((one, same));
        awaited.bell(&"c".into());
        assert_eq!(lock(&awaited.0).len(), 2, "b and c");
    }
}
