//! What the pure supervisor is told to keep up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{
    Class, ClassFilter, Classes, CutOff, Fetched, Limits, Millis, Order, QUEUE_PRIORITY, QueueName, Retry,
    SizeRule, WorkerId,
};

/// The whole of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The pools, in the order of the file.
    pub pools: Vec<PoolSettings>,
    /// What people have asked of them since, by name: a supervisor goes on where another one ended.
    pub changes: Vec<(String, Change)>,
    /// Length of a lease; renewed at a third of it.
    pub lease: Duration,
    /// From the order to stop to the last KILL.
    pub stop_deadline: Duration,
    /// First generation to use: above all that this keeper has seen.
    pub first_generation: u32,
    /// Lives of an earlier supervisor of which something still lives.
    pub unproven: Vec<Unproven>,
    /// End when the queues are empty.
    pub burst: bool,
    /// End after so many jobs; those that run then end, too.
    pub end_after: Option<u64>,
    /// End when there was nothing to do for so long.
    pub end_when_idle: Option<Duration>,
    /// Whether jobs that are held for a person make the supervisor degraded.
    pub held_degrades: bool,
    /// Seed of the jitter, so that a run can be replayed.
    pub seed: u64,
}

/// A set of equal workers. Modes are two numbers: `jobs_at_once` and `jobs_per_life`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// The pool's name.
    pub name: String,
    /// How its workers are made: equal numbers, equal outfits.
    pub outfit: u32,
    /// How many slots.
    pub workers: u16,
    /// How many of them at least; None = all. The others come when jobs wait, and go when they are idle.
    pub min_workers: Option<u16>,
    /// Other sizes by the time of day; at a start and a reload `workers` follows the one in force.
    pub sizes: Vec<SizeRule>,
    /// Whether its workers are forked by a template, a worker at place 0 that takes no jobs.
    pub template: bool,
    /// Jobs in one worker at a time.
    pub jobs_at_once: u32,
    /// Jobs in one life; None = no end.
    pub jobs_per_life: Option<u64>,
    /// The queues that its jobs come from, in order.
    pub queues: Vec<QueueName>,
    /// Their priorities, from 1 to 100; those that are left out have [`QUEUE_PRIORITY`].
    pub queue_priorities: BTreeMap<QueueName, u8>,
    /// From which of them first.
    pub order: Order,
    /// Which of their jobs.
    pub filter: ClassFilter,
    /// The classes its workers know, if that is known before they say it; None = any.
    pub knows: Option<Arc<Classes>>,
    /// From TERM to KILL.
    pub grace: Duration,
    /// The same for a job that somebody else may run already; zero: KILL without TERM.
    pub lost_grace: Duration,
    /// From spawn to ready.
    pub boot_timeout: Duration,
    /// What becomes of its jobs when the broker does not answer until their leases end.
    pub when_cut_off: CutOff,
    /// What an attempt may take, for jobs and classes that do not say.
    pub limits: Limits,
    /// The same for classes; wins over what their code says.
    pub class_limits: BTreeMap<Class, Limits>,
    /// When an attempt fails, for jobs that bring no policy.
    pub retry: Retry,
    /// When a worker that is well is exchanged for a new one.
    pub recycle: Recycle,
}

/// When a worker has run for long enough. It ends its jobs first, and never more than a quarter of a pool is exchanged at a
/// time; each life has up to a tenth more, so that what began together does not end together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recycle {
    /// After so many jobs.
    pub jobs: Option<u64>,
    /// At this age.
    pub age: Option<Duration>,
    /// When it has had nothing to do for so long.
    pub idle: Option<Duration>,
    /// With more memory than this after a job, in bytes.
    pub memory: Option<u64>,
}

/// The keeper gives the supervisor so much longer than its own stop deadline.
const PATIENCE: Duration = Duration::from_secs(10);

impl Settings {
    /// From an order to stop until the keeper acts by itself, if the supervisor has not even read it.
    pub fn stop_patience(&self) -> Duration {
        self.stop_deadline.saturating_add(PATIENCE)
    }

    /// Whether there is a pool of that name.
    pub fn has(&self, name: &str) -> bool {
        self.pools.iter().any(|pool| pool.name == name)
    }
}

impl PoolSettings {
    /// A mode is two numbers; this is their name.
    pub fn mode(&self) -> &'static str {
        match (self.jobs_per_life, self.jobs_at_once) {
            (Some(1), _) => "fork",
            (Some(_) | None, 2..) => "coroutine",
            (Some(_) | None, 0 | 1) => "prefork",
        }
    }

    /// Whether its workers would be the same.
    pub fn is_made_like(&self, other: &PoolSettings) -> bool {
        let made = |pool: &PoolSettings| (pool.outfit, pool.template, pool.jobs_at_once, pool.jobs_per_life);
        made(self) == made(other)
    }

    /// Has it begin with the size that its rules give it at that moment, if one has come.
    pub fn resize_at(&mut self, moment: Millis) {
        if let Some((_, rule)) = SizeRule::in_force(&self.sizes, moment) {
            self.workers = rule.workers;
        }
    }

    /// The most workers that it has at any time of day.
    pub fn most_workers(&self) -> u16 {
        self.sizes.iter().map(|rule| rule.workers).fold(self.workers, u16::max)
    }

    /// Whether it takes jobs from the same queues in the same order.
    pub fn takes_as(&self, other: &PoolSettings) -> bool {
        let from = |pool: &PoolSettings| (pool.order, pool.queues_by_priority().collect::<Vec<_>>());
        from(self) == from(other)
    }

    /// Its queues, each with its priority.
    pub fn queues_by_priority(&self) -> impl Iterator<Item = (QueueName, u8)> {
        let priority = |queue| self.queue_priorities.get(queue).copied().unwrap_or(QUEUE_PRIORITY);
        self.queues.iter().map(move |queue| (queue.clone(), priority(queue)))
    }

    /// Whether it is as large, at its most and at its least.
    pub fn has_size_of(&self, other: &PoolSettings) -> bool {
        (self.workers, self.min_workers) == (other.workers, other.min_workers)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            pools: Vec::new(),
            changes: Vec::new(),
            lease: Duration::from_secs(60),
            stop_deadline: Duration::from_secs(25),
            first_generation: 1,
            unproven: Vec::new(),
            burst: false,
            end_after: None,
            end_when_idle: None,
            held_degrades: true,
            seed: 0,
        }
    }
}

impl Default for PoolSettings {
    fn default() -> Self {
        PoolSettings {
            name: "default".into(),
            outfit: 0,
            workers: 1,
            min_workers: None,
            sizes: Vec::new(),
            template: false,
            jobs_at_once: 1,
            jobs_per_life: Some(1),
            queues: vec![QueueName::from("default")],
            queue_priorities: BTreeMap::new(),
            order: Order::Ordered,
            filter: ClassFilter::default(),
            knows: None,
            grace: Duration::from_secs(10),
            lost_grace: Duration::ZERO,
            boot_timeout: Duration::from_secs(30),
            when_cut_off: CutOff::Kill,
            limits: Limits::default(),
            class_limits: BTreeMap::new(),
            retry: Retry::NONE,
            recycle: Recycle::default(),
        }
    }
}

/// The lives that the keeper makes without being asked for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follow {
    /// How many lives.
    pub lives: u16,
    /// Each is killed so long after it was made, unless told otherwise; None = it is not.
    pub fence: Option<Duration>,
}

/// A life of an earlier supervisor of which something still lives: nobody else may run its jobs before that is proven dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unproven {
    /// The worker's life.
    pub worker: WorkerId,
    /// Why it does not die, for people.
    pub cause: String,
    /// The jobs it had, under their leases.
    pub jobs: Vec<Fetched>,
}

/// What a person may ask of a pool, or of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// New workers in place of the old ones, which end their jobs first.
    Recycle,
    /// No more jobs; those that run go on.
    Pause,
    /// Take jobs again.
    Resume,
    /// More or fewer places, until the settings say another number.
    Scale(Scale),
}

/// Another number of places in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// This number of places.
    To(u16),
    /// So many more, or fewer.
    By(i32),
}

impl Scale {
    /// The number that `now` becomes.
    pub fn of(self, now: u16) -> u16 {
        match self {
            Scale::To(number) => number,
            Scale::By(more) => i32::from(now).saturating_add(more).clamp(0, i32::from(u16::MAX)) as u16,
        }
    }
}

/// How to end. Each stage includes the ones before it; going back is not possible.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// Fetch no more; let jobs end until the stop deadline.
    Drain,
    /// TERM to all jobs at once.
    Terminate,
    /// KILL to all jobs at once.
    Kill,
}
