//! Jobs taken a moment ahead, for pools whose jobs are shorter than asking for the next one.
//!
//! A worker that has to wait for the broker after each job of 50 us does nothing most of the time, and each of its jobs costs
//! the broker a transaction of its own. Where jobs have been that short, the next ones are fetched while these run, and kept
//! here, under their leases, for a few milliseconds. No worker owns them: whichever has room takes the first. When they are
//! not taken soon, because the jobs have become long, they go back to their queue, unspent, and no more are taken ahead.

use std::collections::VecDeque;
use std::time::Duration;

use super::Command;
use super::classes;
use super::jobs::{self, Running};
use super::pool::Pool;
use super::restart::Random;
use super::settle::Unsettled;
use super::worker::{Slot, State};
use crate::model::{Fence, Instant, JobId, PoolSettings, Verdict, WorkerId};

/// Jobs that take longer than this are worth no haste.
const SHORT: Duration = Duration::from_millis(2);

/// So much work is taken ahead for each worker …
const STOCK: Duration = Duration::from_millis(4);

/// … and no more jobs than this.
const MOST: u32 = 16;

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

    /// Keeps one more.
    pub(super) fn keep(&mut self, running: Running, meant: Option<WorkerId>) {
        self.jobs.push_back(Kept { running, meant });
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

    /// The next one for this worker: the one it was fetched for, or the first.
    fn next_for(&mut self, worker: WorkerId) -> Option<Running> {
        let at = self.jobs.iter().position(|kept| kept.meant == Some(worker)).unwrap_or(0);
        self.jobs.remove(at).map(|kept| kept.running)
    }

    /// When the first has waited too long.
    pub(super) fn due(&self) -> Option<Instant> {
        self.jobs.front().map(|kept| kept.running.since + PATIENCE)
    }
}

impl Pool {
    /// The workers that more jobs are to be fetched for than have room, once half of the stock is used up.
    pub(super) fn ahead_for(&self) -> Vec<WorkerId> {
        // What takes several jobs at a time is asked for in batches anyway.
        if self.settings.jobs_at_once > 1 {
            return Vec::new();
        }
        let works = |slot: &&Slot| {
            !slot.is_template() && matches!(slot.state, State::Ready | State::Busy | State::Stopping(_))
        };
        let workers: Vec<&Slot> = self.slots.iter().filter(works).collect();
        let stock = self.ahead.depth() * workers.len();
        let missing = stock.saturating_sub(self.ahead.jobs.len());
        if missing * 2 < stock {
            return Vec::new();
        }
        let turns = (0..).flat_map(|turn| workers.iter().map(move |slot| later(slot, turn, &self.settings)));
        turns.take(missing).collect()
    }

    /// Hands what was taken ahead to workers with room.
    pub(super) fn assign_ahead(
        &mut self,
        now: Instant,
        random: &mut Random,
        unsettled: &mut Unsettled,
        orders: &mut VecDeque<Command>,
    ) {
        while !self.ahead.is_empty()
            && let Some(place) = self.place(None)
        {
            let slot = &mut self.slots[place];
            let Some(job) = self.ahead.next_for(slot.id) else { return };
            if classes::knows(&self.settings, &job.job) {
                slot.assign(now, job, &self.settings, orders);
            } else {
                let verdict = self.unknown.refuse(&job.job, random);
                unsettled.add(now, jobs::unstarted(&job.lease, verdict));
            }
        }
    }

    /// Gives back what nobody takes.
    pub(super) fn give_back_ahead(&mut self, now: Instant, stopping: bool, unsettled: &mut Unsettled) {
        let late = |kept: &Kept| now >= kept.running.since + PATIENCE;
        if !stopping && !self.ahead.jobs.front().is_some_and(late) {
            return;
        }
        self.ahead.pace = None;
        let verdict = || Verdict::Release { after: Duration::ZERO, counts: None };
        for kept in self.ahead.jobs.drain(..) {
            unsettled.add(now, jobs::unstarted(&kept.running.lease, verdict()));
        }
    }
}

/// Who will have a place when `turn` more jobs have gone there.
fn later(slot: &Slot, turn: u32, pool: &PoolSettings) -> WorkerId {
    match pool.jobs_per_life {
        Some(1) => WorkerId { generation: slot.id.generation.wrapping_add(turn + 1), ..slot.id },
        Some(_) | None => slot.id,
    }
}
