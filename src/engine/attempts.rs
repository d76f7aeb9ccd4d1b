//! Attempts in progress: how long each of them takes.

use std::collections::HashMap;
use std::time::Duration;

use super::fact::{Fact, OfJob, OfWorker};
use model::{Class, Fence, Instant, JobId, WorkerName};

/// The attempts of one supervisor.
#[derive(Debug, Default)]
pub(super) struct Attempts(HashMap<(JobId, Fence), Attempt>);

#[derive(Debug)]
struct Attempt {
    began: Instant,
    worker: Option<WorkerName>,
    class: Class,
    pid: i32,
}

/// An attempt that is over.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ran {
    /// The class of its job.
    pub(super) class: Class,
    /// How long it ran.
    pub(super) time: Duration,
    /// The process id of its worker; 0 where none is known.
    pub(super) pid: i32,
}

impl Attempts {
    /// Handles a fact: an attempt may begin, or some may be over, which `over` gets.
    pub(super) fn take_in(&mut self, now: Instant, fact: &Fact, mut over: impl FnMut(Ran)) {
        match fact {
            Fact::Job(at, OfJob::Assigned { fence, class, pid, .. }) => {
                let (worker, class) = (at.worker.clone(), class.clone());
                let attempt = Attempt { began: now, worker, class, pid: *pid };
                self.0.insert((at.job.clone(), *fence), attempt);
            }
            Fact::Job(at, OfJob::Finished(fence)) => {
                self.0.remove(&(at.job.clone(), *fence)).map(|attempt| attempt.ran(now)).map(over);
            }
            Fact::Worker(worker, OfWorker::Exited { .. }) => {
                // A worker that died has not reported the ends of its jobs.
                let its = self.0.extract_if(|_, attempt| attempt.worker.as_ref() == Some(worker));
                its.for_each(|(_, attempt)| over(attempt.ran(now)));
            }
            Fact::Worker(..) | Fact::Job(..) | Fact::Pool(..) | Fact::Service(_) => {}
        }
    }
}

impl Attempt {
    fn ran(self, now: Instant) -> Ran {
        Ran { class: self.class, time: now.since(self.began), pid: self.pid }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::JobAt;
    use model::ExitStatus;

    #[test]
    fn attempt_is_over_once_with_its_report_or_with_its_worker() {
        let (mut attempts, mut over) = (Attempts::default(), Vec::new());
        let at = Instant::from_millis;
        let worker: WorkerName = "mail.1#7".parse().unwrap();
        let mut hear = |millis, job: &str, what| {
            let fact = Fact::Job(JobAt { job: job.into(), worker: Some(worker.clone()) }, what);
            attempts
                .take_in(at(millis), &fact, |ran| over.push((ran.class.to_string(), ran.time.as_millis())));
        };
        for job in ["a", "b"] {
            let (queue, class) = ("q".into(), job.into());
            hear(5, job, OfJob::Assigned { fence: Fence(1), queue, class, attempt: 1, pid: 9 });
        }
        hear(25, "a", OfJob::Finished(Fence(1)));
        hear(35, "a", OfJob::Finished(Fence(1)));
        hear(35, "b", OfJob::Finished(Fence(2)));
        let exited = OfWorker::Exited { status: ExitStatus::Code(0), oom: false, followed: false };
        attempts.take_in(at(45), &Fact::Worker(worker, exited), |ran| {
            assert_eq!((ran.pid, ran.time.as_millis()), (9, 40))
        });
        assert_eq!(over, [("a".to_owned(), 20)]);
        assert!(attempts.0.is_empty());
    }
}
