//! Jobs taken a moment ahead, for pools whose jobs are shorter than asking for the next one.
//!
//! A worker that has to wait for the broker after each job of 50 us does nothing most of the time, and each of its jobs costs
//! the broker a transaction of its own. Where jobs have been that short, the next ones are fetched while these run, and kept
//! here, under their leases, for a few milliseconds, and whichever worker has room takes the first. When they are not taken
//! soon, because the jobs have become long, they go back to their queue, unspent, and no more are taken ahead.
//!
//! Where a life runs one job, each waits for its own life, the one the broker has written down: if the supervisor dies, the
//! next one knows by that what the end of a life says of which job.

use std::collections::VecDeque;
use std::time::Duration;

use super::jobs::Running;
use crate::model::{Fence, Instant, JobId, SlotId, WorkerId};

/// Jobs that take longer than this are worth no haste.
const SHORT: Duration = Duration::from_millis(5);

/// So much work is taken ahead for each worker …
const STOCK: Duration = Duration::from_millis(12);

/// … and no more jobs than this.
const MOST: u32 = 128;

/// What is not taken in this time goes back.
const PATIENCE: Duration = Duration::from_millis(50);

/// The jobs a pool has taken ahead, and how fast it has been of late.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    jobs: VecDeque<Kept>,
    /// How long a job takes, the latest counting most; None = not known.
    pace: Option<Duration>,
}

#[derive(Debug)]
struct Kept {
    running: Running,
    /// Whose it is, as the broker knows it.
    meant: Option<WorkerId>,
}

impl Ahead {
    /// A job has ended after this time.
    pub(super) fn finished(&mut self, ran: Duration) {
        self.pace = Some(self.pace.map_or(ran, |pace| (pace * 7 + ran) / 8));
    }

    /// Jobs to have ahead for each worker.
    fn depth(&self) -> usize {
        let Some(pace) = self.pace.filter(|pace| *pace <= SHORT) else { return 0 };
        let jobs = STOCK.as_nanos() / pace.as_nanos().max(1);
        u32::try_from(jobs).unwrap_or(MOST).clamp(1, MOST) as usize
    }

    /// How many more to take for so many workers, once half of the stock is used up.
    pub(super) fn missing(&self, workers: usize) -> usize {
        let stock = self.depth() * workers;
        let missing = stock.saturating_sub(self.jobs.len());
        if missing * 2 < stock { 0 } else { missing }
    }

    /// The latest life of a slot that one of them is meant for, by its generation.
    pub(super) fn latest_life(&self, slot: SlotId) -> Option<u32> {
        let meant = self.jobs.iter().filter_map(|kept| kept.meant).filter(|meant| meant.slot == slot);
        meant.map(|meant| meant.generation).max()
    }

    /// Keeps one more.
    pub(super) fn keep(&mut self, running: Running, meant: Option<WorkerId>) {
        self.jobs.push_back(Kept { running, meant });
    }

    /// Takes no more jobs ahead until some have ended.
    pub(super) fn slow_down(&mut self) {
        self.pace = None;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(super) fn has(&self, job: &JobId) -> bool {
        self.jobs.iter().any(|kept| kept.running.job.id == *job)
    }

    /// Takes out the job, if it is there.
    pub(super) fn take(&mut self, job: &JobId, fence: Fence) -> Option<Running> {
        let at = self.jobs.iter().position(|kept| kept.running.is(job, fence))?;
        self.jobs.remove(at).map(|kept| kept.running)
    }

    /// The next one for this worker: the one it was fetched for, or else, if others will do, the first.
    pub(super) fn next_for(&mut self, worker: WorkerId, others: bool) -> Option<Running> {
        let own = self.jobs.iter().position(|kept| kept.meant == Some(worker));
        self.jobs.remove(own.or(others.then_some(0))?).map(|kept| kept.running)
    }

    /// Takes out all of them if the first has waited too long, or if `at_once`. Then no more are taken ahead until some
    /// have ended.
    pub(super) fn give_back(&mut self, now: Instant, at_once: bool) -> Vec<Running> {
        let late = |kept: &Kept| now >= kept.running.since + PATIENCE;
        if !at_once && !self.jobs.front().is_some_and(late) {
            return Vec::new();
        }
        self.pace = None;
        self.jobs.drain(..).map(|kept| kept.running).collect()
    }

    /// When the first has waited too long.
    pub(super) fn due(&self) -> Option<Instant> {
        self.jobs.front().map(|kept| kept.running.since + PATIENCE)
    }
}
