//! What the supervisor knows, and questions about it. `turn` feeds it, the other files decide.

use std::collections::VecDeque;
use std::time::Duration;

use crate::Command;
use crate::early::Early;
use crate::end::{Burst, End};
use crate::pool::Pool;
use crate::pools::Pools;
use crate::restart::Random;
use crate::slot::Slot;
use crate::stop::Stopping;
use crate::tallies::Tallies;
use crate::unsettled::Unsettled;
use model::{Class, Fence, Fit, Instant, JobId, QueueName, Stop, WorkerId};

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
    pub(super) burst: Burst,
    pub(super) end: End,
    pub(super) pools: Pools,
    pub(super) unsettled: Unsettled,
    pub(super) tallies: Tallies,
    pub(super) early: Early,
    pub(super) stop: Option<Stopping>,
    /// Until when a suspect has the host for itself, if one has.
    pub(super) alone_until: Option<Instant>,
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
        let own = [self.burst.due(), self.end.due()].into_iter().filter(|_| self.stop.is_none());
        let patience = self.stop.as_ref().and_then(Stopping::due);
        let first = pools
            .chain(slots)
            .chain(own)
            .chain([patience, self.alone_until, self.unsettled.due()])
            .flatten()
            .min();
        first.filter(|_| !self.is_over())
    }

    /// The stage of the stop, if one was ordered.
    pub fn stopping(&self) -> Option<Stop> {
        self.stop.as_ref().map(Stopping::stage)
    }

    pub(super) fn on_stop(&mut self, now: Instant, stage: Stop) {
        let deadline = now + self.stop_deadline;
        // A second order keeps the deadline of the first.
        let deadline = self.stop.get_or_insert(Stopping::new(stage, deadline)).raise(stage);
        self.pools.iter_mut().for_each(|pool| pool.end_by(deadline));
    }
}

/// Questions of the engine; none of them changes the state.
impl Supervisor {
    /// Whether no job is here: none runs, none is on its way, and no verdict is unconfirmed.
    pub fn is_at_rest(&self) -> bool {
        self.unsettled.is_empty() && self.pools.iter().all(Pool::is_at_rest) && !self.has_leases()
    }

    /// The part of a job's time in which it did not run, which counts towards no limit; None = that worker does not have
    /// it.
    pub fn stopped(&self, worker: WorkerId, job: &JobId, fence: Fence) -> Option<Duration> {
        let (pool, slot) = self.pools.place_of(worker)?;
        self.pools.get(pool)?.slots().get(slot)?.stopped(job, fence)
    }

    /// Whether a slot holds the lease of a job.
    pub(super) fn has_leases(&self) -> bool {
        self.pools.iter().any(Pool::has_leases)
    }

    /// The names of the pools that stay.
    pub fn pool_names(&self) -> impl Iterator<Item = &str> {
        self.pools.lasting().map(Pool::name)
    }

    /// The queues of the pools that stay.
    pub fn queues(&self) -> impl Iterator<Item = &QueueName> {
        self.pools.lasting().flat_map(|pool| &pool.settings().queues)
    }

    /// The classes that workers of the pools of a queue have said they know.
    pub fn known(&self, queue: &QueueName) -> std::collections::BTreeSet<&Class> {
        self.pools.of_queue(queue).flat_map(Pool::known).collect()
    }

    /// Whether there are pools for a queue, and no worker of any of them knows the class.
    pub fn lacks(&self, queue: &QueueName, class: &Class) -> bool {
        let mut pools = self.pools.of_queue(queue).peekable();
        // `all` is true of no pools: a queue that no pool here serves is not short of a worker.
        pools.peek().is_some() && pools.all(|pool| pool.fit_of(Some(class)) == Fit::Unknown)
    }

    /// The classes that workers of a pool have said they know; empty = they have said none.
    pub fn known_in(&self, pool: &str) -> impl Iterator<Item = &Class> {
        self.pools.lasting().filter(move |one| one.name() == pool).flat_map(Pool::known)
    }

    /// The spec of each pool, in the order of [`Supervisor::status`].
    pub fn specs(&self) -> impl Iterator<Item = u32> {
        self.pools.in_order().map(|pool| pool.settings().spec)
    }

    pub(super) fn is_over(&self) -> bool {
        self.stop.as_ref().is_some_and(Stopping::is_over)
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.pools.iter().flat_map(Pool::slots)
    }
}
