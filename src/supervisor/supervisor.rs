//! The decisions. A handler records what it learned; `reconcile` alone compares what is with what should be.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::end::End;
use super::pool::Pool;
use super::restart::Random;
use super::stop::Stopping;
use super::unsettled::Unsettled;
use super::why::Why;
use super::worker::{Slot, State};
use super::{Command, Event};
use model::{
    Class, Fence, Fit, Instant, JobId, PoolStatus, QueueName, Revocation, Settings, Stop, Tally, Unproven,
    WorkerId,
};

/// Keeps workers running, gives them jobs, and ends what must be ended. Events and the time go in, commands come out.
/// ```
/// use model::{Instant, PoolSettings, Settings};
/// use taskvisor_supervisor::{Command, Event, Supervisor};
/// let now = Instant::from_millis(0);
/// let pool = PoolSettings { jobs_per_life: None, ..PoolSettings::default() };
/// let settings = Settings { pools: vec![pool], ..Settings::default() };
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
    pub(super) end: End,
    /// The pools, each at its number.
    pub(super) pools: Vec<Pool>,
    /// Number of pools so far, also those that are gone: it numbers the next one.
    pub(super) founded: u64,
    pub(super) first_generation: u32,
    pub(super) unsettled: Unsettled,
    /// Counts by pool name, also of pools that are gone.
    pub(super) tallies: BTreeMap<String, Tally>,
    /// Leases revoked before the answer to the fetch that brings them.
    pub(super) early: BTreeMap<(JobId, Fence), Revocation>,
    pub(super) stop: Option<Stopping>,
    /// When to ask whether all is done; None = as soon as possible.
    pub(super) ask_at: Option<Instant>,
    /// Until when a suspect has the host for itself, if one has.
    pub(super) alone_until: Option<Instant>,
    /// Pools that an earlier start has left paused, by name, with the sentence that says so.
    pub(super) left_paused: BTreeMap<String, String>,
    /// When it last did anything.
    pub(super) seen: Instant,
    pub(super) random: Random,
    pub(super) orders: VecDeque<Command>,
}

impl Supervisor {
    /// A new supervisor: its first commands spawn the workers.
    pub fn new(settings: Settings, now: Instant) -> Self {
        let generation = settings.first_generation;
        let end = End::new(&settings);
        let pools = settings.pools.into_iter().zip(0..);
        let pools = pools.map(|(settings, number)| Pool::new(number, settings, generation, now));
        let mut supervisor = Supervisor {
            lease: settings.lease,
            stop_deadline: settings.stop_deadline,
            burst: settings.burst,
            end,
            pools: pools.collect(),
            founded: 0,
            first_generation: generation,
            unsettled: Unsettled::default(),
            tallies: BTreeMap::new(),
            early: BTreeMap::new(),
            stop: None,
            ask_at: None,
            alone_until: None,
            left_paused: BTreeMap::new(),
            seen: now,
            random: Random(settings.seed),
            orders: VecDeque::new(),
        };
        for life in settings.unproven {
            supervisor.inherit(now, life);
        }
        for (pool, change) in settings.changes {
            supervisor.on_change(now, Some(&pool), change);
        }
        supervisor.left_paused = settings.left_paused;
        supervisor.reconcile(now);
        supervisor
    }

    /// Handles an event. An event about something that is long gone changes nothing.
    pub fn handle(&mut self, now: Instant, event: Event) {
        self.handle_all(now, [event]);
    }

    /// Handles all events of one moment (none if only time has passed) and reconciles once: a hundred jobs that end
    /// together cost one comparison.
    pub fn handle_all(&mut self, now: Instant, events: impl IntoIterator<Item = Event>) {
        if self.is_over() {
            return;
        }
        self.notice_gap(now);
        events.into_iter().for_each(|event| self.take_in(now, event));
        self.reconcile(now);
    }

    fn take_in(&mut self, now: Instant, event: Event) {
        match event {
            // Only Ready and Exited change the state of a worker; Spawned does not.
            Event::Spawned(_) => {}
            Event::SpawnFailed(worker, why) => self.on_spawn_failed(now, worker, why),
            Event::Ready(worker) => self.on_ready(now, worker),
            Event::Exited { worker, exit, followed } => self.on_exited(now, worker, &exit, followed),
            Event::Stuck(worker, cause) => self.on_stuck(now, worker, cause),
            Event::Finished { worker, job, fence, outcome } => {
                self.on_finished(now, worker, (&job, fence), outcome);
            }
            Event::Faulty(worker, how) => self.on_faulty(worker, how),
            Event::Exceeded { worker, job, fence, excess } => {
                self.on_exceeded(now, worker, (&job, fence), excess);
            }
            Event::Outgrown(worker) => self.on_outgrown(worker),
            Event::Knows(pool, classes) => self.on_knows(pool, classes),
            Event::Waiting(pool, waiting) => self.on_waiting(now, pool, waiting),
            Event::Fetched(pool, jobs) => self.on_fetched(now, pool, jobs),
            Event::FetchFailed(pool) => self.on_fetch_failed(now, pool),
            Event::Renewed(lease) => self.on_renewed(now, &lease),
            Event::RenewFailed(job, fence) => self.on_renew_failed(now, &job, fence),
            Event::Revoked { job, fence, why } => self.lose_job(now, &job, fence, why),
            Event::Settled { job, fence, became } => self.on_settled(job, fence, became),
            Event::SettleFailed(job, fence) => self.unsettled.failed(now, job, fence, &mut self.random),
            Event::Woken(queues) => {
                let takes = |pool: &&mut Pool| queues.have_any_of(&pool.settings.queues);
                self.pools.iter_mut().filter(takes).for_each(Pool::woken);
            }
            Event::Counted(counts) => {
                self.pools.iter_mut().for_each(|pool| pool.intake.counted(now, &counts));
            }
            Event::Idle(left) => self.on_idle(now, left),
            Event::Stop(stage) => self.on_stop(now, stage),
            // A supervisor that stops ignores changes.
            _ if self.stop.is_some() => {}
            Event::Reload(settings) => self.on_reload(now, settings),
            Event::Resized(pool, workers) => self.on_resized(&pool, workers),
            Event::Change(pool, change) => self.on_change(now, pool.as_deref(), change),
        }
    }

    /// The next command, in the order of execution.
    pub fn next_command(&mut self) -> Option<Command> {
        self.orders.pop_front()
    }

    /// When [`Supervisor::handle_all`] is due, if nothing happens before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let pools = self.pools.iter().filter(|_| self.stop.is_none());
        let pools = pools.flat_map(|pool| {
            let size = [pool.start_at(), pool.grow_at(), pool.shrink_at(), pool.worn_at()];
            size.into_iter().chain([pool.fetch_at(), pool.ahead.due()])
        });
        let slots = self.pools.iter().flat_map(|pool| {
            let index = pool.slots.index();
            let stop = self.stop.as_ref().filter(|_| !index.at_work.is_empty());
            let stop = stop.map(|stop| stop.term_at(pool.settings.grace));
            [index.wakes.first().map(|(at, _)| at), stop]
        });
        let own = [self.ask_at, self.end.due()].into_iter().filter(|_| self.stop.is_none());
        let patience = self.stop.as_ref().and_then(|stop| stop.patience);
        let first = pools
            .chain(slots)
            .chain(own)
            .chain([patience, self.alone_until, self.unsettled.due()])
            .flatten()
            .min();
        first.filter(|_| !self.is_over())
    }

    /// The status of the pools with all that decisions depend on; the engine adds the processes.
    pub fn status(&self, now: Instant) -> Vec<PoolStatus> {
        let suspect = self.alone(now).map(|(suspect, _)| suspect);
        self.in_order().map(|pool| pool.status(now, suspect)).collect()
    }

    /// The same, and whether each pool takes jobs of a class.
    pub fn status_for(&self, now: Instant, class: Option<&Class>) -> Vec<(PoolStatus, Fit)> {
        let suspect = self.alone(now).map(|(suspect, _)| suspect);
        self.in_order().map(|pool| (pool.status(now, suspect), pool.fit_of(class))).collect()
    }

    /// The pools in the order of the settings; an outdated one comes before its heir.
    fn in_order(&self) -> impl Iterator<Item = &Pool> {
        let mut pools: Vec<&Pool> = self.pools.iter().filter(|pool| !pool.is_gone()).collect();
        pools.sort_by_key(|pool| (pool.rank, pool.age));
        pools.into_iter()
    }

    /// The stage of the stop, if one was ordered.
    pub fn stopping(&self) -> Option<Stop> {
        self.stop.as_ref().map(|stop| stop.stage)
    }

    /// A life of an earlier supervisor keeps its slot until it is proven dead. A pool without that slot gets one more
    /// for that time. A template has no jobs, so it is left out.
    fn inherit(&mut self, now: Instant, life: Unproven) {
        let lease = self.lease;
        let number = usize::from(life.worker.slot.pool).min(self.pools.len().saturating_sub(1));
        let Some(pool) = self.pools.get_mut(number).filter(|_| life.worker.slot.index > 0) else { return };
        let mut inherited = Slot::inherited(now, life, lease);
        let is_place = |slot: &Slot| slot.id.slot == inherited.id.slot && slot.state == State::Down;
        let at = pool.slots.iter().position(is_place);
        // If the slot was not wanted, it stays empty afterwards.
        if !at.is_some_and(|at| pool.slots[at].is_wanted()) {
            inherited.let_go(now, Why::Scaled);
        }
        match at {
            Some(at) => *pool.slots.edit(at, &pool.settings) = inherited,
            None => _ = pool.slots.push(inherited, &pool.settings),
        }
    }

    pub(super) fn on_stop(&mut self, now: Instant, stage: Stop) {
        let deadline = now + self.stop_deadline;
        let stop = self.stop.get_or_insert(Stopping::new(stage, deadline));
        stop.stage = stop.stage.max(stage);
        let deadline = stop.deadline;
        for pool in &mut self.pools {
            let sooner = |slot: &mut Slot| slot.deadline = slot.deadline.map(|own| own.min(deadline));
            pool.slots.edit_all(&pool.settings, sooner);
        }
    }
}

/// Questions of the engine; none of them changes the state.
impl Supervisor {
    /// Whether no job is here: none runs, none is on its way, and no verdict is unconfirmed.
    pub fn is_at_rest(&self) -> bool {
        let rests = |pool: &Pool| pool.intake.asked.is_none() && pool.ahead.is_empty();
        self.unsettled.is_empty() && self.pools.iter().all(rests) && !self.has_leases()
    }

    /// Whether a slot holds the lease of a job.
    pub(super) fn has_leases(&self) -> bool {
        self.pools.iter().any(|pool| !pool.slots.index().leased.is_empty())
    }

    /// The names of the pools that stay.
    pub fn pool_names(&self) -> impl Iterator<Item = &str> {
        self.pools.iter().filter(|pool| !pool.outdated).map(|pool| pool.settings.name.as_str())
    }

    /// The queues of the pools that stay.
    pub fn queues(&self) -> impl Iterator<Item = &QueueName> {
        self.pools.iter().filter(|pool| !pool.outdated).flat_map(|pool| &pool.settings.queues)
    }

    /// The classes that workers of the pools of a queue have said they know.
    pub fn known(&self, queue: &QueueName) -> std::collections::BTreeSet<&Class> {
        let pools = self.pools.iter().filter(|pool| !pool.outdated && pool.settings.queues.contains(queue));
        pools.filter_map(|pool| pool.settings.knows.as_ref()).flat_map(|knows| knows.keys()).collect()
    }

    /// The classes that workers of a pool have said they know; empty = they have said none.
    pub fn known_in(&self, pool: &str) -> impl Iterator<Item = &Class> {
        let pools = self.pools.iter().filter(move |one| !one.outdated && one.settings.name == pool);
        pools.filter_map(|pool| pool.settings.knows.as_ref()).flat_map(|knows| knows.keys())
    }

    /// The outfit of each pool, in the order of [`Supervisor::status`].
    pub fn outfits(&self) -> impl Iterator<Item = u32> {
        self.in_order().map(|pool| pool.settings.outfit)
    }

    /// The index of the pool and of the slot of a life. The pool is the one of its number, except for some lives of an
    /// earlier supervisor.
    pub(super) fn place_of(&self, worker: WorkerId) -> Option<(usize, usize)> {
        let place_in = |at: usize| {
            let slot = self.pools.get(at)?.slots.find(worker)?;
            Some((at, slot))
        };
        place_in(usize::from(worker.slot.pool)).or_else(|| (0..self.pools.len()).find_map(place_in))
    }

    pub(super) fn is_over(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.over)
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.pools.iter().flat_map(|pool| pool.slots.iter())
    }
}
