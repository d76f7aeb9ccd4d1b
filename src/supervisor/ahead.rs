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

use super::Command;
use super::classes;
use super::jobs::{self, Running};
use super::pool::Pool;
use super::restart::Random;
use super::settle::Unsettled;
use super::worker::{Slot, State};
use crate::model::{Fence, Instant, JobId, Verdict, WorkerId};

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

/// Where a fetched job goes.
pub(super) enum Place {
    /// To this slot.
    Now(usize),
    /// It is kept for a while.
    Later,
    /// It goes back to the broker.
    Nowhere,
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
    fn next_for(&mut self, worker: WorkerId, others: bool) -> Option<Running> {
        let own = self.jobs.iter().position(|kept| kept.meant == Some(worker));
        self.jobs.remove(own.or(others.then_some(0))?).map(|kept| kept.running)
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
            let runs = matches!(slot.state, State::Ready | State::Busy | State::Stopping(_));
            runs && !slot.is_template() && !slot.is_leaving_for_good()
        };
        let workers: Vec<&Slot> = self.slots.iter().filter(works).collect();
        let stock = self.ahead.depth() * workers.len();
        let missing = stock.saturating_sub(self.ahead.jobs.len());
        if missing * 2 < stock {
            return Vec::new();
        }
        let turns = (0..).flat_map(|turn| workers.iter().map(move |slot| self.later(slot, turn)));
        turns.take(missing).collect()
    }

    /// Who will have the place when it has had the jobs that it has ahead and `turn` more. No life is meant twice.
    fn later(&self, slot: &Slot, turn: u32) -> WorkerId {
        if !self.runs_one_job_a_life() {
            return slot.id;
        }
        let meant =
            self.ahead.jobs.iter().filter_map(|kept| kept.meant).filter(|meant| meant.slot == slot.id.slot);
        let last = meant.map(|meant| meant.generation).chain([slot.id.generation]).max().unwrap_or_default();
        WorkerId { generation: last.wrapping_add(turn + 1), ..slot.id }
    }

    /// Hands what was taken ahead to workers with room.
    pub(super) fn assign_ahead(
        &mut self,
        now: Instant,
        random: &mut Random,
        unsettled: &mut Unsettled,
        orders: &mut VecDeque<Command>,
    ) {
        let others = !self.runs_one_job_a_life();
        for slot in &mut self.slots {
            while slot.room(&self.settings) > 0
                && let Some(job) = self.ahead.next_for(slot.id, others)
            {
                if classes::knows(&self.settings, &job.job) {
                    slot.assign(now, job, &self.settings, orders);
                } else {
                    let verdict = self.unknown.refuse(&job.job, random);
                    unsettled.add(now, self.number, jobs::unstarted(&job.lease, verdict));
                }
            }
        }
    }

    fn runs_one_job_a_life(&self) -> bool {
        self.settings.jobs_per_life == Some(1)
    }

    /// Where a fetched job goes now: to the worker it is meant for, or to another if that will do. Else it is kept, or, if
    /// its life is over, goes back.
    pub(super) fn place_fetched(&self, meant: Option<WorkerId>) -> Place {
        if !self.runs_one_job_a_life() {
            return self.place(meant).map_or(Place::Later, Place::Now);
        }
        let at = self.slots.iter().position(|slot| Some(slot.id.slot) == meant.map(|meant| meant.slot));
        match at.map(|at| (at, &self.slots[at])) {
            Some((at, slot)) if Some(slot.id) == meant && slot.room(&self.settings) > 0 => Place::Now(at),
            Some((_, slot)) if Some(slot.id) == meant && slot.is_to_come() => Place::Later,
            Some((_, slot)) if Some(slot.id) < meant => Place::Later,
            Some(_) | None => Place::Nowhere,
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
            unsettled.add(now, self.number, jobs::unstarted(&kept.running.lease, verdict()));
        }
    }
}
