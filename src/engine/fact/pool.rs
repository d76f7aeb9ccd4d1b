//! What happens to pools.

use tracing::Level;

use super::row::Row;
use crate::flood::Kind;
use model::{Fetched, Job, JobId};

/// What has happened to a pool, or was ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OfPool {
    /// It asks the broker for jobs.
    Fetching {
        /// Its number: of two pools with one name, each has a fetch of its own.
        number: u16,
        /// The most jobs that it takes.
        most: usize,
    },
    /// The broker has answered.
    Fetched {
        /// The number of the pool.
        number: u16,
        /// How many jobs have come.
        jobs: usize,
        /// One of them that was running when a supervisor died, and how often that has happened to it.
        suspect: Option<(JobId, u32)>,
    },
    /// The broker has not answered.
    FetchFailed {
        /// The number of the pool.
        number: u16,
    },
    /// All its workers are busy: whether jobs wait that it could take.
    Waiting(bool),
    /// The time of day gives it this number of workers.
    Resized(u16),
}

impl OfPool {
    pub(super) fn fetched(number: u16, fetched: &[Fetched]) -> OfPool {
        let suspect = fetched.iter().map(|fetched| &fetched.job).find(|job| job.is_suspect());
        let suspect = suspect.map(|job| (job.id.clone(), job.interrupted));
        OfPool::Fetched { number, jobs: fetched.len(), suspect }
    }

    pub(super) fn row(&self, of: &str, to: &mut dyn FnMut(&Row<'_>)) {
        let (row, trace) = (Row { pool: Some(of), ..Row::default() }, Level::TRACE);
        match self {
            OfPool::Fetching { most, .. } => to(&row.says(trace, format_args!("{most} jobs are asked for"))),
            OfPool::Fetched { jobs, suspect, .. } => {
                let count = |pool: &mut model::PoolCounters| pool.fetched += *jobs as u64;
                let row = row.count(|all| all.fetches += 1).pool_count(&count);
                let Some((job, times)) = suspect else {
                    return to(&row.says(trace, format_args!("{jobs} jobs have come")));
                };
                let minutes = Job::ALONE_FOR.as_secs() / 60;
                let text = format_args!(
                    "the supervisor or its host has died {times} times under a job: it is to run alone, and no other \
                     begins here for {minutes} minutes after it at most"
                );
                let row = Row { job: Some(job), ..row.flood(Kind::Suspects) };
                to(&row.says(Level::WARN, text));
            }
            OfPool::FetchFailed { .. } => {
                // The log has it as a complaint: once when it begins, and not with each try.
                let row = row.count(|all| all.fetches_failed += 1).seldom();
                to(&row.explains(format_args!("the broker could not be asked for jobs")));
            }
            OfPool::Waiting(true) => {
                let text = "all are at work and jobs wait: one more worker, if there is a place";
                to(&row.seldom().says(trace, format_args!("{text}")));
            }
            OfPool::Waiting(false) => {
                let text = "all are at work and no job waits: no more workers";
                to(&row.seldom().says(trace, format_args!("{text}")));
            }
            OfPool::Resized(workers) => {
                let text = format_args!("the time of day: pool {of} will have {workers} workers");
                to(&row.seldom().says(Level::INFO, text));
            }
        }
    }
}
