//! Which classes the workers of a pool know. Also whose settings count: first the job's own, then its class's, then the
//! pool's.

use std::collections::{BTreeMap, BTreeSet};

use super::restart::Random;
use super::verdict;
use model::{Class, ClassSettings, Classes, Job, JobId, Limits, Outcome, PoolSettings, Retry, Verdict};

/// Limits of the classes that are remembered as unknown, and of the jobs of each.
const CLASSES: usize = 20;
const JOBS: usize = 100;

/// Whether a worker of the pool could run the job.
pub(super) fn knows(pool: &PoolSettings, job: &Job) -> bool {
    pool.knows.as_ref().is_none_or(|classes| classes.contains_key(&job.class))
}

/// The limits of an attempt, each from the first of these that sets it: the job, the pool's settings for its class,
/// what the worker said of the class, the pool.
pub(super) fn limits(pool: &PoolSettings, job: &Job) -> Limits {
    let own = Limits { time: job.time_limit, ..Limits::default() };
    let of_class = pool.class_limits.get(&job.class).copied().unwrap_or_default();
    let by_code = class(pool, job).map(|class| class.limits).unwrap_or_default();
    let limits = own.or(of_class).or(by_code).or(pool.limits);
    // Jobs that share a worker share its memory: no job's own limit of it can hold there.
    if pool.jobs_at_once > 1 { limits.shared(pool.limits) } else { limits }
}

/// What happens when an attempt fails.
pub(super) fn retry(pool: &PoolSettings, job: &Job) -> Retry {
    let of_class = || class(pool, job).map(|class| class.retry(pool.retry));
    job.retry.or_else(of_class).unwrap_or(pool.retry)
}

fn class<'a>(pool: &'a PoolSettings, job: &Job) -> Option<&'a ClassSettings> {
    pool.knows.as_ref()?.get(&job.class)
}

/// Jobs that no worker knew, by class, to show to people.
#[derive(Debug, Default)]
pub(super) struct Unknown(BTreeMap<Class, BTreeSet<JobId>>);

impl Unknown {
    /// The verdict on a job whose class no worker of the pool knows. Remembers the job.
    pub(super) fn refuse(&mut self, job: &Job, random: &mut Random) -> Verdict {
        self.note(job);
        verdict::unknown(job, random)
    }

    /// Learns from an outcome whether the worker knows the class.
    pub(super) fn heard(&mut self, job: &Job, outcome: &Outcome) {
        match outcome {
            Outcome::UnknownClass => self.note(job),
            Outcome::Complete { .. }
            | Outcome::Failed(_)
            | Outcome::FailedForGood(_)
            | Outcome::RetryAfter(..)
            | Outcome::Snoozed(_)
            | Outcome::CutShort(_) => drop(self.0.remove(&job.class)),
            Outcome::NotBegun | Outcome::CannotBegin(_) | Outcome::Interrupted(_) => {}
        }
    }

    fn note(&mut self, job: &Job) {
        if self.0.len() < CLASSES || self.0.contains_key(&job.class) {
            let jobs = self.0.entry(job.class.clone()).or_default();
            if jobs.len() < JOBS {
                jobs.insert(job.id.clone());
            }
        }
    }

    /// The workers know these classes.
    pub(super) fn learn(&mut self, classes: &Classes) {
        self.0.retain(|class, _| !classes.contains_key(class));
    }

    /// How many jobs of each class.
    pub(super) fn counts(&self) -> BTreeMap<Class, u64> {
        self.0.iter().map(|(class, jobs)| (class.clone(), jobs.len() as u64)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Bytes, Payload, QueueName};

    fn job(class: String, id: String) -> Job {
        Job {
            id: id.into(),
            queue: QueueName::from("default"),
            class: class.into(),
            payload: Payload::Data(Bytes::default()),
            priority: 0,
            tags: Vec::new(),
            attempt: 1,
            crashes: 0,
            interrupted: 0,
            unknown: 0,
            retry: None,
            time_limit: None,
        }
    }

    #[test]
    fn unknown_classes_do_not_pile_up() {
        let mut unknown = Unknown::default();
        for number in 0..1000 {
            unknown.note(&job(format!("c{}", number % 30), format!("j{number}")));
            unknown.note(&job("c0".into(), format!("j{number}")));
            unknown.note(&job("c0".into(), "again".into()));
        }
        let counts = unknown.counts();
        assert_eq!((counts.len(), counts[&Class::from("c0")]), (CLASSES, JOBS as u64));
    }
}
