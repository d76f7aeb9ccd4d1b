//! What the supervisor knows, and questions about it. `turn` feeds it, the other files decide.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::Command;
use crate::end::End;
use crate::pool::Pool;
use crate::restart::Random;
use crate::slot::Slot;
use crate::stop::Stopping;
use crate::unsettled::Unsettled;
use model::{Class, Fence, Fit, Instant, JobId, QueueName, Revocation, Stop, Tally, WorkerId};

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
    /// The next command, in the order of execution.
    pub fn next_command(&mut self) -> Option<Command> {
        self.orders.pop_front()
    }

    /// When [`Supervisor::handle_all`] is due, if nothing happens before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        // A supervisor that stops starts no life, fetches nothing and grows no pool.
        let pools = self.pools.iter().filter(|_| self.stop.is_none());
        let pools = pools.map(Pool::due);
        let slots = self.pools.iter().flat_map(|pool| {
            let stop = self.stop.as_ref().filter(|_| pool.is_at_work());
            [pool.wake_at(), stop.map(|stop| stop.term_at(pool.settings().grace))]
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

    /// The pools in the order of the settings; an outdated one comes before its heir.
    pub(super) fn in_order(&self) -> impl Iterator<Item = &Pool> {
        let mut pools: Vec<&Pool> = self.pools.iter().filter(|pool| !pool.is_gone()).collect();
        pools.sort_by_key(|pool| pool.standing());
        pools.into_iter()
    }

    /// The stage of the stop, if one was ordered.
    pub fn stopping(&self) -> Option<Stop> {
        self.stop.as_ref().map(|stop| stop.stage)
    }

    pub(super) fn on_stop(&mut self, now: Instant, stage: Stop) {
        let deadline = now + self.stop_deadline;
        // A second order keeps the deadline of the first.
        let stop = self.stop.get_or_insert(Stopping::new(stage, deadline));
        stop.stage = stop.stage.max(stage);
        let deadline = stop.deadline;
        self.pools.iter_mut().for_each(|pool| pool.end_by(deadline));
    }
}

/// Questions of the engine; none of them changes the state.
impl Supervisor {
    /// Whether no job is here: none runs, none is on its way, and no verdict is unconfirmed.
    pub fn is_at_rest(&self) -> bool {
        self.unsettled.is_empty() && self.pools.iter().all(Pool::is_at_rest) && !self.has_leases()
    }

    /// Whether a slot holds the lease of a job.
    pub(super) fn has_leases(&self) -> bool {
        self.pools.iter().any(Pool::has_leases)
    }

    /// The names of the pools that stay.
    pub fn pool_names(&self) -> impl Iterator<Item = &str> {
        self.lasting().map(Pool::name)
    }

    /// The queues of the pools that stay.
    pub fn queues(&self) -> impl Iterator<Item = &QueueName> {
        self.lasting().flat_map(|pool| &pool.settings().queues)
    }

    /// The classes that workers of the pools of a queue have said they know.
    pub fn known(&self, queue: &QueueName) -> std::collections::BTreeSet<&Class> {
        self.of_queue(queue).flat_map(Pool::known).collect()
    }

    /// Whether there are pools for a queue, and no worker of any of them knows the class.
    pub fn lacks(&self, queue: &QueueName, class: &Class) -> bool {
        let mut pools = self.of_queue(queue).peekable();
        // `all` is true of no pools: a queue that no pool here serves is not short of a worker.
        pools.peek().is_some() && pools.all(|pool| pool.fit_of(Some(class)) == Fit::Unknown)
    }

    /// The classes that workers of a pool have said they know; empty = they have said none.
    pub fn known_in(&self, pool: &str) -> impl Iterator<Item = &Class> {
        self.lasting().filter(move |one| one.name() == pool).flat_map(Pool::known)
    }

    /// The pools that are to stay.
    pub(super) fn lasting(&self) -> impl Iterator<Item = &Pool> {
        self.pools.iter().filter(|pool| !pool.is_outdated())
    }

    fn of_queue(&self, queue: &QueueName) -> impl Iterator<Item = &Pool> {
        self.lasting().filter(move |pool| pool.settings().queues.contains(queue))
    }

    /// The spec of each pool, in the order of [`Supervisor::status`].
    pub fn specs(&self) -> impl Iterator<Item = u32> {
        self.in_order().map(|pool| pool.settings().spec)
    }

    /// The index of the pool and of the slot of a life. The pool is the one of its number, except for some lives of an
    /// earlier supervisor.
    pub(super) fn place_of(&self, worker: WorkerId) -> Option<(usize, usize)> {
        let place_in = |at: usize| {
            let slot = self.pools.get(at)?.find(worker)?;
            Some((at, slot))
        };
        place_in(usize::from(worker.slot.pool)).or_else(|| (0..self.pools.len()).find_map(place_in))
    }

    pub(super) fn is_over(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.over)
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.pools.iter().flat_map(Pool::slots)
    }
}
