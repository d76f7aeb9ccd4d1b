//! The decisions. A handler records what it learned; `reconcile` alone compares what is with what should be.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::fetch::{Intake, Pool};
use super::jobs::{self, Heard, Phase, Running};
use super::restart::{Boots, Random};
use super::settle::Unsettled;
use super::stop::Stopping;
use super::verdict;
use super::worker::{End, Slot, State, Why};
use super::{Command, Event};
use crate::model::{
    Exit, Fence, Fetched, Instant, JobId, Lease, Outcome, PoolSettings, PoolStatus, Revocation, Settings,
    SlotId, Stop, Verdict, WorkerId,
};

/// A job that cannot run at the moment it arrives is given back for so long.
const PAUSE: Duration = Duration::from_secs(1);

/// So much is remembered of jobs that are not here.
const REMEMBERED: usize = 1000;

/// Keeps workers up, gives them jobs, and ends what must be ended. It is told facts and the time, and gives orders.
/// ```
/// use taskvisor::model::{Instant, PoolSettings, Settings};
/// use taskvisor::supervisor::{Command, Event, Supervisor};
/// let now = Instant::from_millis(0);
/// let settings = Settings { pools: vec![PoolSettings::default()], ..Settings::default() };
/// let mut supervisor = Supervisor::new(settings, now);
/// let Some(Command::Spawn(worker)) = supervisor.next_command() else { panic!() };
/// supervisor.handle(now, Event::Ready(worker));
/// assert!(matches!(supervisor.next_command(), Some(Command::Fetch { pool: 0, .. })));
/// ```
#[derive(Debug)]
pub struct Supervisor {
    pub(super) lease: Duration,
    pub(super) stop_deadline: Duration,
    pub(super) burst: bool,
    pub(super) pools: Vec<Pool>,
    pub(super) unsettled: Unsettled,
    /// Rights lost before the fetch that brings them was answered.
    pub(super) early: BTreeMap<(JobId, Fence), Revocation>,
    /// Jobs under which a worker died together with others: each is tried again alone.
    suspects: BTreeSet<JobId>,
    pub(super) stop: Option<Stopping>,
    /// When to ask whether all is done; None = as soon as it may be.
    pub(super) ask_at: Option<Instant>,
    pub(super) random: Random,
    pub(super) orders: VecDeque<Command>,
}

impl Supervisor {
    /// Begins: its first commands spawn the workers.
    pub fn new(settings: Settings, now: Instant) -> Self {
        let generation = settings.first_generation;
        let pools = settings.pools.into_iter().zip(0..);
        let pools = pools.map(|(settings, pool)| Pool {
            number: pool,
            slots: (1..=settings.workers)
                .map(|index| Slot::new(SlotId { pool, index }, generation, now))
                .collect(),
            intake: Intake::new(now),
            boots: Boots::default(),
            settings,
        });
        let mut supervisor = Supervisor {
            lease: settings.lease,
            stop_deadline: settings.stop_deadline,
            burst: settings.burst,
            pools: pools.collect(),
            unsettled: Unsettled::default(),
            early: BTreeMap::new(),
            suspects: BTreeSet::new(),
            stop: None,
            ask_at: None,
            random: Random(settings.seed),
            orders: VecDeque::new(),
        };
        supervisor.reconcile(now);
        supervisor
    }

    /// Takes in a fact. What it is about may be long gone: then it changes nothing.
    pub fn handle(&mut self, now: Instant, event: Event) {
        if self.is_over() {
            return;
        }
        match event {
            // Only Ready and Exited say something about a worker; that it was made does not.
            Event::Spawned(_) => {}
            Event::SpawnFailed(worker, why) => self.on_spawn_failed(now, worker, why),
            Event::Ready(worker) => self.on_ready(now, worker),
            Event::Exited(worker, exit) => self.on_exited(now, worker, &exit),
            Event::Stuck(worker, cause) => self.on_stuck(now, worker, cause),
            Event::Finished(worker, job, fence, outcome) => {
                self.on_finished(now, worker, (&job, fence), outcome);
            }
            Event::Faulty(..) | Event::Knows(..) | Event::Waiting(..) => {}
            Event::Fetched(pool, jobs) => self.on_fetched(now, pool, jobs),
            Event::FetchFailed(pool) => self.on_fetch_failed(now, pool),
            Event::Renewed(lease) => self.on_renewed(now, &lease),
            Event::RenewFailed(job, fence) => self.on_renew_failed(now, &job, fence),
            Event::Revoked(job, fence, why) => self.lose_job(now, &job, fence, why),
            Event::Settled(job, fence) => self.unsettled.settled(job, fence),
            Event::SettleFailed(job, fence) => self.unsettled.failed(now, job, fence, &mut self.random),
            Event::Woken => self.pools.iter_mut().for_each(|pool| pool.intake.maybe_waiting = true),
            Event::Idle => self.on_idle(now),
            Event::Stop(stage) => self.on_stop(now, stage),
        }
        self.reconcile(now);
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.reconcile(now);
    }

    /// The next order, in the order they are to be given.
    pub fn next_command(&mut self) -> Option<Command> {
        self.orders.pop_front()
    }

    /// When [`Supervisor::handle_timeout`] is due, if nothing happens before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let pools = self.pools.iter().filter(|_| self.stop.is_none());
        let pools = pools.flat_map(|pool| [pool.fetch_at(), pool.start_at()]);
        let slots = self.pools.iter().flat_map(|pool| pool.slots.iter().map(move |slot| (pool, slot)));
        let slots = slots.flat_map(|(pool, slot)| {
            let stop = self.stop.as_ref().and_then(|stop| stop.signal_at(slot, pool.settings.grace));
            [slot.wake_at(&pool.settings), stop]
        });
        let ask = self.ask_at.filter(|_| self.stop.is_none());
        let patience = self.stop.as_ref().and_then(|stop| stop.patience);
        let first = pools.chain(slots).chain([ask, patience, self.unsettled.due()]).flatten().min();
        first.filter(|_| !self.is_over())
    }

    /// The pools with all that is decided by; the processes are for others to see.
    pub fn status(&self, now: Instant) -> Vec<PoolStatus> {
        self.pools.iter().map(|pool| pool.status(now)).collect()
    }

    /// Jobs settled so far, by verdict.
    pub fn settled(&self) -> &BTreeMap<String, u64> {
        &self.unsettled.counts
    }

    /// How far the stop has come, if it was ordered.
    pub fn stopping(&self) -> Option<Stop> {
        self.stop.as_ref().map(|stop| stop.stage)
    }

    fn on_spawn_failed(&mut self, now: Instant, worker: WorkerId, why: String) {
        let Some((_, slot, random, _)) = self.life(worker) else { return };
        match slot.state {
            State::Starting | State::Stopping(_) | State::Killed(_) => {
                slot.down(now, End::Early(why), |wait| random.jitter(wait, 20));
            }
            State::Down | State::Ready | State::Busy => {}
        }
    }

    fn on_ready(&mut self, now: Instant, worker: WorkerId) {
        let Some((_, slot, ..)) = self.life(worker) else { return };
        if slot.state == State::Starting {
            slot.ready(now);
            self.pools[usize::from(worker.slot.pool)].boots.succeeded();
        }
    }

    fn on_exited(&mut self, now: Instant, worker: WorkerId, exit: &Exit) {
        self.fence_off(now);
        let Some((pool, slot, random, mut book)) = self.life(worker) else { return };
        let (jobs, end) = (std::mem::take(&mut slot.jobs), slot.end(now, exit));
        for job in &jobs {
            let judged = job.judge(exit, jobs.len() == 1, pool.retry, random);
            book.close(now, job, slot, judged, Some(exit));
        }
        let died_in_boot = slot.is_booting();
        slot.down(now, end, |wait| random.jitter(wait, 20));
        self.suspect(&jobs);
        if died_in_boot {
            self.pools[usize::from(worker.slot.pool)].boots.died(now);
        }
    }

    /// Killed, by us or at the self-fence by the keeper, and not dead: its jobs are not settled.
    fn on_stuck(&mut self, now: Instant, worker: WorkerId, cause: String) {
        let Some((_, slot, ..)) = self.life(worker) else { return };
        slot.life.stuck = Some(cause);
        match slot.state {
            State::Killed(_) => {}
            State::Stopping(why) => slot.enter(State::Killed(why), now, None),
            State::Down | State::Starting | State::Ready | State::Busy => {
                let why = Why::Lost(Revocation::SelfFenced);
                slot.enter(State::Killed(why), now, None);
                slot.jobs.iter_mut().for_each(|job| job.phase = Phase::Ends(why));
            }
        }
    }

    fn on_finished(
        &mut self,
        now: Instant,
        worker: WorkerId,
        (job, fence): (&JobId, Fence),
        outcome: Outcome,
    ) {
        let Some((pool, slot, random, mut book)) = self.life(worker) else { return };
        let Some(index) = slot.jobs.iter().position(|running| running.is(job, fence)) else { return };
        let judged = match slot.jobs[index].hear(outcome, pool.jobs_at_once > 1) {
            Heard::Nothing => return,
            // Its tree may have left something behind: the word counts when the worker is proven dead.
            Heard::Outcome(outcome) if pool.jobs_per_life == Some(1) => {
                slot.jobs[index].phase = Phase::Said(outcome);
                slot.life.finished += 1;
                return slot.leave(now, pool.grace);
            }
            Heard::Outcome(outcome) => {
                slot.life.finished += 1;
                Some(verdict::of_outcome(outcome, &slot.jobs[index].job, pool.retry, random))
            }
            Heard::Stopped(why) => verdict::of_end(why, &slot.jobs[index].job, pool.retry, random),
        };
        let running = slot.jobs.remove(index);
        book.close(now, &running, slot, judged.map(|verdict| (verdict, false)), None);
        slot.weigh(now, pool);
    }

    fn on_fetched(&mut self, now: Instant, pool: u16, jobs: Vec<Fetched>) {
        let Some(intake) = self.pools.get_mut(usize::from(pool)).map(|pool| &mut pool.intake) else { return };
        let Some(asked) = intake.answered(jobs.len()) else { return };
        let meant = asked.into_iter().map(Some).chain(std::iter::repeat(None));
        for (fetched, meant) in jobs.into_iter().zip(meant) {
            self.place(now, pool, fetched, meant);
        }
        self.forget_early();
    }

    fn on_fetch_failed(&mut self, now: Instant, pool: u16) {
        if let Some(pool) = self.pools.get_mut(usize::from(pool)) {
            pool.intake.failed(now, &mut self.random);
        }
        self.forget_early();
    }

    /// Hands a job to a worker, or back at once if there is none for it (B14).
    fn place(&mut self, now: Instant, number: u16, fetched: Fetched, meant: Option<WorkerId>) {
        let (id, fence) = (fetched.job.id.clone(), fetched.lease.fence);
        let runs_here = self.slots().any(|slot| slot.jobs.iter().any(|running| running.job.id == id));
        let pool = &mut self.pools[usize::from(number)];
        let grace = pool.settings.grace;
        let alone = self.suspects.contains(&id);
        let place = if self.stop.is_none() { pool.place(meant, alone) } else { None };
        let refused = match self.early.remove(&(id.clone(), fence)) {
            Some(Revocation::Canceled) => Some(jobs::unstarted(&fetched, Verdict::Canceled)),
            Some(why) => return self.orders.push_back(Command::Dropped(id, fence, why.as_str())),
            // An earlier attempt that we lost is still dying here: two at a time are one too many.
            None if runs_here => Some(jobs::release(&fetched, grace)),
            None if jobs::fence_at(&fetched.lease, grace) <= now => Some(jobs::release(&fetched, PAUSE)),
            None if alone && place.is_none() => Some(jobs::release(&fetched, PAUSE)),
            None => None,
        };
        match (refused, place.map(|place| &mut pool.slots[place])) {
            (Some(settlement), _) => self.unsettled.add(now, settlement),
            (None, None) => self.unsettled.add(now, jobs::release(&fetched, Duration::ZERO)),
            (None, Some(slot)) => {
                self.orders.push_back(Command::Assign(slot.id, fetched.job.clone(), fence));
                let running = Running::new(now, fetched, pool.settings.time_limit, self.lease);
                slot.jobs.push(Running { alone, ..running });
                self.suspects.remove(&id);
                slot.life.taken += 1;
                slot.weigh(now, &pool.settings);
            }
        }
    }

    fn on_renewed(&mut self, now: Instant, right: &Lease) {
        let lease = self.lease;
        if let Some(running) = self.running(&right.job, right.fence)
            && running.is_ours()
        {
            running.renewed(now, right, lease);
        }
    }

    fn on_renew_failed(&mut self, now: Instant, job: &JobId, fence: Fence) {
        let mut random = std::mem::replace(&mut self.random, Random(0));
        if let Some(running) = self.running(job, fence) {
            running.renew_failed(now, &mut random);
        }
        self.random = random;
    }

    fn on_idle(&mut self, now: Instant) {
        if self.burst && self.is_quiet() {
            self.on_stop(now, Stop::Drain);
        }
    }

    fn on_stop(&mut self, now: Instant, stage: Stop) {
        let deadline = now + self.stop_deadline;
        let stop = self.stop.get_or_insert(Stopping::new(stage, deadline));
        stop.stage = stop.stage.max(stage);
        let deadline = stop.deadline;
        for slot in self.pools.iter_mut().flat_map(|pool| &mut pool.slots) {
            slot.deadline = slot.deadline.map(|own| own.min(deadline));
        }
    }

    /// The one way to lose a job (B28).
    pub(super) fn lose_job(&mut self, now: Instant, job: &JobId, fence: Fence, why: Revocation) {
        let pools = self.pools.iter_mut();
        let mut slots = pools.flat_map(|pool| pool.slots.iter_mut().map(|slot| (&pool.settings, slot)));
        let running = |slot: &Slot| slot.jobs.iter().position(|running| running.is(job, fence));
        let found = slots.find_map(|(pool, slot)| running(slot).map(|index| (pool, slot, index)));
        if let Some((pool, slot, index)) = found {
            slot.end_job(now, index, Why::Lost(why), pool, &mut self.orders);
        } else if self.unsettled.has(job, fence) {
            if self.unsettled.revoked(job, fence, why) {
                self.orders.push_back(Command::Dropped(job.clone(), fence, why.as_str()));
            }
        } else if self.pools.iter().any(|pool| pool.intake.asked.is_some()) {
            self.early.insert((job.clone(), fence), why);
            if self.early.len() > REMEMBERED {
                self.early.pop_first();
            }
        }
    }

    /// Which of several jobs a worker died of cannot be known. What is suspected elsewhere is forgotten in time.
    fn suspect(&mut self, jobs: &[Running]) {
        let ran = jobs.iter().filter(|job| job.phase == Phase::Runs && jobs.len() > 1);
        self.suspects.extend(ran.map(|job| job.job.id.clone()));
        while self.suspects.len() > REMEMBERED {
            self.suspects.pop_first();
        }
    }

    fn forget_early(&mut self) {
        if self.pools.iter().all(|pool| pool.intake.asked.is_none()) {
            self.early.clear();
        }
    }
}

/// What is there.
impl Supervisor {
    /// Nothing runs, nothing is to be told, and the last fetch found the queues empty.
    pub(super) fn is_quiet(&self) -> bool {
        let fetched = |pool: &Pool| pool.intake.asked.is_none() && !pool.intake.maybe_waiting;
        self.unsettled.is_empty()
            && self.pools.iter().all(fetched)
            && self.slots().all(|slot| slot.jobs.is_empty())
    }

    pub(super) fn is_over(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.over)
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.pools.iter().flat_map(|pool| &pool.slots)
    }

    fn running(&mut self, job: &JobId, fence: Fence) -> Option<&mut Running> {
        let slots = self.pools.iter_mut().flat_map(|pool| &mut pool.slots);
        slots.flat_map(|slot| &mut slot.jobs).find(|running| running.is(job, fence))
    }

    /// The life itself, never the one before or after it in the same place, with what its handlers need.
    fn life(&mut self, worker: WorkerId) -> Option<(&PoolSettings, &mut Slot, &mut Random, Book<'_>)> {
        let pool = self.pools.get_mut(usize::from(worker.slot.pool))?;
        let slot = pool.slots.get_mut(usize::from(worker.slot.index).checked_sub(1)?)?;
        let book = Book { unsettled: &mut self.unsettled, orders: &mut self.orders };
        let lives = slot.id == worker && slot.state != State::Down;
        lives.then_some((&pool.settings, slot, &mut self.random, book))
    }
}

/// Where the ends of jobs are written down.
struct Book<'a> {
    unsettled: &'a mut Unsettled,
    orders: &'a mut VecDeque<Command>,
}

impl Book<'_> {
    fn close(
        &mut self,
        now: Instant,
        running: &Running,
        slot: &Slot,
        judged: Option<(Verdict, bool)>,
        exit: Option<&Exit>,
    ) {
        match (judged, &running.phase) {
            (Some(verdict), _) => {
                let settlement = running.settlement(now, (slot.id, &slot.life), verdict, exit);
                self.unsettled.add(now, settlement);
            }
            (None, Phase::Ends(why)) => {
                let dropped = Command::Dropped(running.job.id.clone(), running.lease.fence, why.as_str());
                self.orders.push_back(dropped);
            }
            (None, Phase::Runs | Phase::Said(_)) => {}
        }
    }
}
