//! A slot and the life in it: its states, and the ladder that ends it.

use std::collections::VecDeque;
use std::time::Duration;

use super::Command;
use super::jobs::{Phase, Running};
use super::life::Life;
use super::restart::{Backoff, GOOD_LIFE};
use super::stop::Stopping;
use super::verdict::describe;
use super::wear::Wears;
use super::why::Why;
use crate::model::{Exit, Instant, PoolSettings, Signal, SlotId, Unproven, WorkerId};

/// Where a slot is. Its one deadline means another thing in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No process; at the deadline the next life may start.
    Down,
    /// Being made; killed at the deadline.
    Starting,
    /// Has room for a job.
    Ready,
    /// Has no room for a job.
    Busy,
    /// Asked to end, or ending as planned; killed at the deadline.
    Stopping(Why),
    /// Killed; only the proof is missing.
    Killed(Why),
    /// Its first process has ended by itself, or at the self-fence, and what that left does not die: only the proof is
    /// missing.
    Unproven,
}

/// A place in which one worker lives at a time.
#[derive(Debug)]
pub(super) struct Slot {
    /// The life in it; while it is down, the next one.
    pub(super) id: WorkerId,
    pub(super) state: State,
    /// When it came into that state.
    pub(super) since: Instant,
    pub(super) deadline: Option<Instant>,
    /// What it runs. A job is in one slot because it is owned by one.
    pub(super) jobs: Vec<Running>,
    /// Jobs that are to run here without company, one after the other, once the others have ended.
    pub(super) waits: VecDeque<Running>,
    pub(super) life: Life,
    /// Whether a worker has been ready here, and none has failed to get there since.
    pub(super) booted: bool,
    /// Whether the last worker here died before it was ready, and none has been ready since.
    pub(super) failing: bool,
    pub(super) backoff: Backoff,
    /// Lives that ended other than as planned, and how the latest did.
    pub(super) restarts: u32,
    pub(super) why: Option<String>,
}

impl Slot {
    /// An empty place; it wants a worker at `start`, if at all.
    pub(super) fn new(slot: SlotId, generation: u32, now: Instant, start: Option<Instant>) -> Self {
        Slot {
            id: WorkerId { slot, generation },
            state: State::Down,
            since: now,
            deadline: start,
            jobs: Vec::new(),
            waits: VecDeque::new(),
            life: Life::new(now),
            booted: false,
            failing: false,
            backoff: Backoff::RESTART,
            restarts: 0,
            why: None,
        }
    }

    /// The place of a life that an earlier supervisor had, and of which something still lives. Its jobs are ours until that
    /// is proven dead.
    pub(super) fn inherited(now: Instant, life: Unproven, lease: Duration) -> Self {
        let Unproven { worker, cause, jobs } = life;
        let mut slot = Slot::new(worker.slot, worker.generation, now, None);
        slot.enter(State::Killed(Why::Orphaned), now, None);
        slot.life.stuck = Some(cause);
        let jobs = jobs.into_iter().map(|job| Running::new(now, job, lease));
        slot.jobs = jobs.map(|job| Running { phase: Phase::Ends(Why::Orphaned), ..job }).collect();
        slot
    }

    /// Whether it is the place of the template that forks the others; no job ever gets there.
    pub(super) fn is_template(&self) -> bool {
        self.id.slot.index == 0
    }

    /// Whether there is a worker, or is to be one.
    pub(super) fn is_wanted(&self) -> bool {
        self.state != State::Down || self.deadline.is_some()
    }

    /// Whether its worker has jobs or takes some.
    pub(super) fn is_at_work(&self) -> bool {
        matches!(self.state, State::Ready | State::Busy)
    }

    /// Whether it takes jobs, and is to go on with it.
    pub(super) fn works_on(&self) -> bool {
        self.is_at_work() && !self.is_template() && self.life.leaving.is_none()
    }

    /// Whether its life has yet to take jobs.
    pub(super) fn is_to_come(&self) -> bool {
        match self.state {
            State::Down | State::Starting => true,
            State::Ready | State::Busy | State::Stopping(_) | State::Killed(_) | State::Unproven => false,
        }
    }

    /// The next life begins.
    pub(super) fn start(
        &mut self,
        now: Instant,
        boot_timeout: Duration,
        template: Option<WorkerId>,
        wears: Wears,
    ) {
        self.life = Life { template, wears, ..Life::new(now) };
        self.enter(State::Starting, now, Some(now + boot_timeout));
    }

    /// The worker takes jobs.
    pub(super) fn ready(&mut self, now: Instant) {
        (self.booted, self.life.ready, self.life.idle_since) = (true, true, now);
        self.failing = false;
        self.enter(State::Ready, now, None);
    }

    /// The worker cannot be trusted any more.
    pub(super) fn faulty(&mut self, how: String) {
        match self.state {
            State::Starting | State::Ready | State::Busy | State::Stopping(_) => self.life.fault = Some(how),
            State::Down | State::Killed(_) | State::Unproven => {}
        }
    }

    /// How many more jobs it can take.
    pub(super) fn room(&self, pool: &PoolSettings) -> usize {
        match self.state {
            State::Ready | State::Busy if self.is_template() || self.is_closed() => 0,
            State::Ready | State::Busy if self.life.leaving.is_some() => 0,
            State::Ready | State::Busy => {
                let at_once = (pool.jobs_at_once as usize).saturating_sub(self.jobs.len());
                let in_life = pool.jobs_per_life.map(|limit| limit.saturating_sub(self.life.taken));
                let left = in_life.or_else(|| self.life.until_worn());
                left.map_or(at_once, |left| at_once.min(usize::try_from(left).unwrap_or(at_once)))
            }
            State::Down | State::Starting | State::Stopping(_) | State::Killed(_) | State::Unproven => 0,
        }
    }

    /// Ready is having room, busy is having none.
    pub(super) fn weigh(&mut self, now: Instant, pool: &PoolSettings) {
        if self.jobs.is_empty() {
            self.life.idle_since = now;
        }
        match (self.state, self.room(pool)) {
            (State::Ready, 0) => self.enter(State::Busy, now, None),
            (State::Busy, 1..) => self.enter(State::Ready, now, None),
            (State::Ready | State::Busy, _) => {}
            (State::Down | State::Starting | State::Stopping(_), _) => {}
            (State::Killed(_) | State::Unproven, _) => {}
        }
    }

    /// A worker that has said the last word of its life ends by itself; it is given the grace for it.
    pub(super) fn leave(&mut self, now: Instant, grace: Duration) {
        match self.state {
            State::Ready | State::Busy => self.enter(State::Stopping(Why::Spent), now, Some(now + grace)),
            State::Down | State::Starting | State::Stopping(_) | State::Killed(_) | State::Unproven => {}
        }
    }

    /// The signal that is due, if one is: the whole ladder.
    pub(super) fn due_signal(
        &self,
        now: Instant,
        pool: &PoolSettings,
        stop: Option<&Stopping>,
    ) -> Option<(Signal, Why)> {
        let late = self.deadline.is_some_and(|deadline| deadline <= now);
        let stops = stop.and_then(|stop| stop.signal(now, !self.jobs.is_empty(), pool.grace));
        match self.state {
            State::Down | State::Killed(_) | State::Unproven => None,
            State::Starting | State::Ready | State::Busy | State::Stopping(_)
                if self.life.fault.is_some() =>
            {
                Some((Signal::Kill, Why::Fault))
            }
            State::Starting if late => Some((Signal::Kill, Why::Boot)),
            State::Stopping(why) if late => Some((Signal::Kill, why)),
            State::Stopping(why) => {
                stops.filter(|signal| *signal == Signal::Kill).map(|signal| (signal, why))
            }
            State::Starting => {
                let leaves = self.life.leaving.map(|why| (Signal::Term, why));
                stops.map(|signal| (signal, Why::Stop)).or(leaves)
            }
            State::Ready | State::Busy => self
                .kill_for_job(now, pool)
                .or_else(|| stops.map(|signal| (signal, Why::Stop)))
                .or_else(|| self.term_for_job(pool))
                .or_else(|| self.is_spent(pool).then_some((Signal::Term, Why::Spent)))
                .or_else(|| {
                    self.life.leaving.filter(|_| self.jobs.is_empty()).map(|why| (Signal::Term, why))
                }),
        }
    }

    /// A job is killed that takes from others what they need, that somebody else may run already, or that was asked to end
    /// and has not. In company the last two are one.
    fn kill_for_job(&self, now: Instant, pool: &PoolSettings) -> Option<(Signal, Why)> {
        self.jobs.iter().find_map(|job| match job.phase {
            Phase::Ends(why @ Why::Limit(excess)) if excess.is_urgent() => Some((Signal::Kill, why)),
            Phase::Ends(why) if pool.jobs_at_once == 1 && !why.is_anothers() => None,
            Phase::Ends(why) if job.deadline.is_some_and(|at| at <= now) => Some((Signal::Kill, why)),
            Phase::Ends(_) | Phase::Runs | Phase::Said(_) => None,
        })
    }

    /// A job alone in its worker is ended with it.
    fn term_for_job(&self, pool: &PoolSettings) -> Option<(Signal, Why)> {
        self.jobs.iter().find_map(|job| match job.phase {
            Phase::Ends(why) if pool.jobs_at_once == 1 => Some((Signal::Term, why)),
            Phase::Ends(_) | Phase::Runs | Phase::Said(_) => None,
        })
    }

    fn is_spent(&self, pool: &PoolSettings) -> bool {
        self.jobs.is_empty() && pool.jobs_per_life.is_some_and(|limit| self.life.taken >= limit)
    }

    /// Sends the signal. All jobs of the worker end with it.
    pub(super) fn send(
        &mut self,
        now: Instant,
        (signal, why): (Signal, Why),
        kill_at: Instant,
        orders: &mut VecDeque<Command>,
    ) {
        match signal {
            Signal::Term => self.enter(State::Stopping(why), now, Some(kill_at)),
            Signal::Kill => self.enter(State::Killed(why), now, None),
        }
        for job in &mut self.jobs {
            job.ends_with_its_worker(why);
        }
        self.life.signals.push((now, signal, why));
        orders.push_back(Command::Signal { worker: self.id, signal, why: why.as_str().into() });
    }

    /// The life is over: what remains is an empty place and when it may be filled.
    pub(super) fn down(&mut self, now: Instant, end: End, mut wait: impl FnMut(Duration) -> Duration) {
        if self.was_of_use(now) {
            self.backoff.succeeded();
        }
        let wait = match end {
            End::Planned | End::Good(_) => Duration::ZERO,
            End::Early(_) => wait(self.backoff.failed()),
        };
        match end {
            End::Planned => {}
            End::Good(why) | End::Early(why) => {
                self.failing |= !self.life.ready;
                self.restarts += 1;
                self.why = Some(why);
            }
        }
        let unwanted = self.is_leaving_for_good();
        let next = self.life.next_after.map_or(now + wait, |after| after.max(now + wait));
        self.booted = self.life.ready && !unwanted;
        self.id = self.id.next();
        self.life = Life::new(now);
        self.enter(State::Down, now, (!unwanted).then_some(next));
    }

    /// A life that ended otherwise is followed by a wait. One that was given a job has done what it was made for: what
    /// crashes then is the job, which has a counter and a delay of its own, and must not hold up the others.
    fn was_of_use(&self, now: Instant) -> bool {
        self.life.ready && (self.life.taken > 0 || now.since(self.life.born) >= GOOD_LIFE)
    }

    /// How the life that just ended is to be judged.
    pub(super) fn end(&self, now: Instant, pool: &PoolSettings, exit: &Exit) -> End {
        let why = match (self.state, &self.life.fault) {
            (State::Stopping(Why::Boot) | State::Killed(Why::Boot), _) => "not ready in time".into(),
            (State::Killed(Why::Fault), Some(fault)) => fault.clone(),
            (State::Stopping(_) | State::Killed(_), _) => return End::Planned,
            // Its jobs were taken off it before: it ended with the last that it was to have, which is the job's own end.
            (State::Busy | State::Unproven, _) if self.is_spent(pool) => return End::Planned,
            (State::Down | State::Starting | State::Ready | State::Busy | State::Unproven, _) => {
                describe(exit)
            }
        };
        if self.was_of_use(now) { End::Good(why) } else { End::Early(why) }
    }

    /// Whether it is on its way to its first ready, or dies of not having got there.
    pub(super) fn is_booting(&self) -> bool {
        match self.state {
            State::Starting
            | State::Stopping(Why::Boot)
            | State::Killed(Why::Boot | Why::Fault)
            | State::Unproven => !self.life.ready,
            State::Down | State::Ready | State::Busy | State::Stopping(_) | State::Killed(_) => false,
        }
    }

    /// Moves to a state.
    pub(super) fn enter(&mut self, state: State, now: Instant, deadline: Option<Instant>) {
        (self.state, self.since, self.deadline) = (state, now, deadline);
    }
}

/// How a life ended.
pub(super) enum End {
    /// By our own signal, having said its last word, or with its last job.
    Planned,
    /// By itself, after it had been of use.
    Good(String),
    /// By itself, too early.
    Early(String),
}
