//! A slot and the life in it: its states, and the steps from TERM to KILL that end it.

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
use model::{Exit, Instant, PoolSettings, Signal, SlotId, Unproven, WorkerId};

/// State of a slot. The meaning of its deadline depends on the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No process; at the deadline the next life may start.
    Down,
    /// Being made; killed at the deadline.
    Starting,
    /// The worker has room for a job.
    Ready,
    /// The worker has no room for a job.
    Busy,
    /// Asked to end, or ending as planned; killed at the deadline.
    Stopping(Why),
    /// Killed; only the proof is missing.
    Killed(Why),
    /// The first process has ended by itself, or at the self-fence, and some process that it left does not die: only
    /// the proof is missing.
    Unproven,
}

/// A place in which one worker lives at a time.
#[derive(Debug)]
pub(super) struct Slot {
    /// The life in the slot; while the slot is down, the next one.
    pub(super) id: WorkerId,
    pub(super) state: State,
    /// When the slot came into that state.
    pub(super) since: Instant,
    pub(super) deadline: Option<Instant>,
    /// The jobs that the slot runs. As the slot owns them, a job is in one slot only.
    pub(super) jobs: Vec<Running>,
    /// Jobs that will run here without company, one after the other, once the others have ended.
    pub(super) waits: VecDeque<Running>,
    pub(super) life: Life,
    /// Whether a worker has become ready here, and none has failed to since.
    pub(super) booted: bool,
    /// Whether the last worker here died before it was ready, and none has been ready since.
    pub(super) failing: bool,
    /// Number of lives in a row in which a job could not be begun.
    pub(super) unfit: u32,
    pub(super) backoff: Backoff,
    /// Number of lives that ended unexpectedly; `why` says how the latest did.
    pub(super) restarts: u32,
    pub(super) why: Option<String>,
}

impl Slot {
    /// An empty slot; it wants a worker at `start`, if at all.
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
            unfit: 0,
            backoff: Backoff::RESTART,
            restarts: 0,
            why: None,
        }
    }

    /// The slot of a life that belonged to an earlier supervisor and of which a process still lives. Its jobs are ours
    /// until that is proven dead.
    pub(super) fn inherited(now: Instant, life: Unproven, lease: Duration) -> Self {
        let Unproven { worker, cause, jobs } = life;
        let mut slot = Slot::new(worker.slot, worker.generation, now, None);
        slot.enter(State::Killed(Why::Orphaned), now, None);
        slot.life.stuck = Some(cause);
        let jobs = jobs.into_iter().map(|job| Running::new(now, job, lease));
        slot.jobs = jobs.map(|job| Running { phase: Phase::Ends(Why::Orphaned), ..job }).collect();
        slot
    }

    /// Whether this is the slot of the template that forks the others; it never gets a job.
    pub(super) fn is_template(&self) -> bool {
        self.id.slot.index == 0
    }

    /// Whether the slot has a worker, or wants one.
    pub(super) fn is_wanted(&self) -> bool {
        self.state != State::Down || self.deadline.is_some()
    }

    /// Whether the worker has jobs or takes some.
    pub(super) fn is_at_work(&self) -> bool {
        matches!(self.state, State::Ready | State::Busy)
    }

    /// Whether the worker takes jobs, and is not leaving.
    pub(super) fn works_on(&self) -> bool {
        self.is_at_work() && !self.is_template() && self.life.leaving.is_none()
    }

    /// Whether the life has yet to take jobs.
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

    /// The worker is ready to take jobs.
    pub(super) fn ready(&mut self, now: Instant) {
        (self.booted, self.life.ready, self.life.idle_since) = (true, true, now);
        self.failing = false;
        self.enter(State::Ready, now, None);
    }

    /// The worker broke the protocol and cannot be trusted any more.
    pub(super) fn faulty(&mut self, how: String) {
        match self.state {
            State::Starting | State::Ready | State::Busy | State::Stopping(_) => self.life.fault = Some(how),
            State::Down | State::Killed(_) | State::Unproven => {}
        }
    }

    /// How many more jobs the worker can take.
    pub(super) fn room(&self, pool: &PoolSettings) -> usize {
        match self.state {
            State::Ready | State::Busy if self.is_template() || self.is_closed() => 0,
            State::Ready | State::Busy if self.life.leaving.is_some() || self.life.unfit.is_some() => 0,
            State::Ready | State::Busy => {
                let at_once = (pool.jobs_at_once as usize).saturating_sub(self.jobs.len());
                let in_life = pool.jobs_per_life.map(|limit| limit.saturating_sub(self.life.taken));
                let left = in_life.or_else(|| self.life.until_worn());
                left.map_or(at_once, |left| at_once.min(usize::try_from(left).unwrap_or(at_once)))
            }
            State::Down | State::Starting | State::Stopping(_) | State::Killed(_) | State::Unproven => 0,
        }
    }

    /// Updates the state: ready with room for a job, busy without.
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

    /// A worker that has run its last job ends by itself; it has the grace for it.
    pub(super) fn leave(&mut self, now: Instant, grace: Duration) {
        match self.state {
            State::Ready | State::Busy => self.enter(State::Stopping(Why::Spent), now, Some(now + grace)),
            State::Down | State::Starting | State::Stopping(_) | State::Killed(_) | State::Unproven => {}
        }
    }

    /// The signal that is due, if one is: all steps from TERM to KILL.
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
                .or_else(|| self.is_unfit().then_some((Signal::Term, Why::Unfit)))
                .or_else(|| {
                    self.life.leaving.filter(|_| self.jobs.is_empty()).map(|why| (Signal::Term, why))
                }),
        }
    }

    /// Kills the worker for a job that exceeds an urgent limit, that somebody else may already run, or that was asked
    /// to end and has not.
    fn kill_for_job(&self, now: Instant, pool: &PoolSettings) -> Option<(Signal, Why)> {
        self.jobs.iter().find_map(|job| match job.phase {
            Phase::Ends(why @ Why::Limit(excess)) if excess.is_urgent() => Some((Signal::Kill, why)),
            Phase::Ends(why) if pool.jobs_at_once == 1 && !why.is_anothers() => None,
            Phase::Ends(why) if job.deadline.is_some_and(|at| at <= now) => Some((Signal::Kill, why)),
            Phase::Ends(_) | Phase::Runs | Phase::Said(_) => None,
        })
    }

    /// TERM for a job alone in its worker: the job ends with the worker.
    fn term_for_job(&self, pool: &PoolSettings) -> Option<(Signal, Why)> {
        self.jobs.iter().find_map(|job| match job.phase {
            Phase::Ends(why) if pool.jobs_at_once == 1 => Some((Signal::Term, why)),
            Phase::Ends(_) | Phase::Runs | Phase::Said(_) => None,
        })
    }

    /// Whether the life ends because no job can be begun in it.
    fn is_unfit(&self) -> bool {
        self.jobs.is_empty() && self.life.unfit.is_some()
    }

    fn is_spent(&self, pool: &PoolSettings) -> bool {
        self.jobs.is_empty() && pool.jobs_per_life.is_some_and(|limit| self.life.taken >= limit)
    }

    /// Sends the signal, which ends all jobs of the worker.
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

    /// The life is over: the slot is empty, and may be filled again after a wait.
    pub(super) fn down(&mut self, now: Instant, end: End, mut wait: impl FnMut(Duration) -> Duration) {
        if self.was_of_use(now) {
            self.backoff.succeeded();
        }
        let wait = match end {
            End::Planned | End::Good(_) => Duration::ZERO,
            End::Early(_) => wait(self.backoff.failed()),
        };
        match (&self.life.unfit, self.life.taken) {
            (Some(_), _) => self.unfit += 1,
            (None, 1..) => self.unfit = 0,
            (None, 0) => {}
        }
        match end {
            End::Planned => {}
            End::Good(why) | End::Early(why) => {
                self.failing |= !self.life.ready || self.life.unfit.is_some();
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

    /// Whether the life did what it was made for. A life that did not is followed by a wait. One that was given a job
    /// did: a crash is then the job's, which has its own count and delay, and must not hold up the others.
    fn was_of_use(&self, now: Instant) -> bool {
        let lasted = self.life.taken > 0 || now.since(self.life.born) >= GOOD_LIFE;
        self.life.ready && self.life.unfit.is_none() && lasted
    }

    /// Judgement on the life that just ended.
    pub(super) fn end(&self, now: Instant, pool: &PoolSettings, exit: &Exit) -> End {
        if let Some(why) = &self.life.unfit {
            return End::Early(why.clone());
        }
        let why = match (self.state, &self.life.fault) {
            (State::Stopping(Why::Boot) | State::Killed(Why::Boot), _) => "not ready in time".into(),
            (State::Killed(Why::Fault), Some(fault)) => fault.clone(),
            (State::Stopping(_) | State::Killed(_), _) => return End::Planned,
            // Its jobs were taken off before: the life ended with the last job it was to have, so the end is that
            // job's.
            (State::Busy | State::Unproven, _) if self.is_spent(pool) => return End::Planned,
            (State::Down | State::Starting | State::Ready | State::Busy | State::Unproven, _) => {
                describe(exit)
            }
        };
        if self.was_of_use(now) { End::Good(why) } else { End::Early(why) }
    }

    /// Whether the life is on its way to its first ready, or dies because it did not get there.
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
    /// By our own signal, after its last job, or with it.
    Planned,
    /// By itself, after it did what it was made for.
    Good(String),
    /// By itself, too early.
    Early(String),
}
