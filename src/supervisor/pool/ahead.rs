//! Jobs fetched a moment ahead, for pools whose jobs are shorter than a call to the broker.
//!
//! A worker that waits for the broker after each job of 50 us is idle most of the time, and each of its jobs costs the
//! broker a transaction. A pool with such short jobs fetches the next ones while these run. It keeps them here under
//! their leases for a few milliseconds, and the first worker with room takes the first job. If no worker takes them
//! soon, because the jobs have become long, the pool releases them, unspent, and fetches no more ahead.
//!
//! In a pool with one job per life, the broker records the life for which each job was fetched, and only that life gets
//! it. If the supervisor dies, the next one knows by this record to which job the end of a life belongs.

use std::collections::VecDeque;
use std::time::Duration;

use crate::slot::Running;
use model::{Fence, Instant, JobId, SlotId, WorkerId};

/// Longest average job for which a pool fetches ahead.
const SHORT: Duration = Duration::from_millis(5);

/// Work to have ahead for each worker.
const STOCK: Duration = Duration::from_millis(12);

/// Largest number of jobs ahead for each worker.
const MOST: u32 = 128;

/// The pool releases jobs that no worker has taken in this time.
const PATIENCE: Duration = Duration::from_millis(50);

/// The jobs a pool has taken ahead, and how fast it has been of late.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    jobs: VecDeque<Kept>,
    /// Average time of a job, recent ones counting most; None = not known.
    pace: Option<Duration>,
}

#[derive(Debug)]
struct Kept {
    running: Running,
    /// The worker for which the job was fetched, as the broker has recorded it.
    meant: Option<WorkerId>,
}

impl Ahead {
    /// Records that a job ended after this time.
    pub(crate) fn finished(&mut self, ran: Duration) {
        self.pace = Some(self.pace.map_or(ran, |pace| (pace * 7 + ran) / 8));
    }

    /// Jobs to have ahead for each worker.
    fn depth(&self) -> usize {
        let Some(pace) = self.pace.filter(|pace| *pace <= SHORT) else { return 0 };
        let jobs = STOCK.as_nanos() / pace.as_nanos().max(1);
        u32::try_from(jobs).unwrap_or(MOST).clamp(1, MOST) as usize
    }

    /// How many more jobs to fetch for this number of workers; 0 until half of the stock is used up.
    pub(crate) fn missing(&self, workers: usize) -> usize {
        let stock = self.depth() * workers;
        let missing = stock.saturating_sub(self.jobs.len());
        if missing * 2 < stock { 0 } else { missing }
    }

    /// The latest generation of a slot for which a job is kept here.
    pub(crate) fn latest_life(&self, slot: SlotId) -> Option<u32> {
        let meant = self.jobs.iter().filter_map(|kept| kept.meant).filter(|meant| meant.slot == slot);
        meant.map(|meant| meant.generation).max()
    }

    /// Keeps one more job.
    pub(crate) fn keep(&mut self, running: Running, meant: Option<WorkerId>) {
        self.jobs.push_back(Kept { running, meant });
    }

    /// Takes no more jobs ahead until some have ended.
    pub(crate) fn slow_down(&mut self) {
        self.pace = None;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(crate) fn has(&self, job: &JobId) -> bool {
        self.jobs.iter().any(|kept| kept.running.job().id == *job)
    }

    /// Takes out the job, if it is here.
    pub(crate) fn take(&mut self, job: &JobId, fence: Fence) -> Option<Running> {
        let at = self.jobs.iter().position(|kept| kept.running.is(job, fence))?;
        self.jobs.remove(at).map(|kept| kept.running)
    }

    /// The next job for this worker: the one fetched for it, or else, if `others`, the first.
    pub(crate) fn next_for(&mut self, worker: WorkerId, others: bool) -> Option<Running> {
        let own = self.jobs.iter().position(|kept| kept.meant == Some(worker));
        self.jobs.remove(own.or(others.then_some(0))?).map(|kept| kept.running)
    }

    /// Takes out all jobs if the first has waited too long, or if `at_once`. After that no more are fetched ahead until
    /// some have ended.
    pub(crate) fn give_back(&mut self, now: Instant, at_once: bool) -> Vec<Running> {
        let late = |kept: &Kept| now >= kept.running.since() + PATIENCE;
        if !at_once && !self.jobs.front().is_some_and(late) {
            return Vec::new();
        }
        self.pace = None;
        self.jobs.drain(..).map(|kept| kept.running).collect()
    }

    /// When the first job will have waited too long.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.jobs.front().map(|kept| kept.running.since() + PATIENCE)
    }
}
