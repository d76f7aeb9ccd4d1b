//! Settings of the pure supervisor.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{
    Class, ClassFilter, Classes, CutOff, Fetched, Limits, Millis, Order, QUEUE_PRIORITY, QueueName, Retry,
    SizeRule, WorkerId, with_defaults,
};

with_defaults! {
    /// All settings of a supervisor.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Settings {
        /// The pools, in the order of the file.
        pub pools: Vec<PoolSettings> = Vec::new(),
        /// Changes by people since the settings were read, by pool: a new supervisor goes on with them.
        pub changes: Vec<(String, Change)> = Vec::new(),
        /// Pools that an earlier start has left paused, by name, with the sentence that says so: a burst does not wait for
        /// their jobs.
        pub left_paused: BTreeMap<String, String> = BTreeMap::new(),
        /// Length of a lease; renewed at a third of it.
        pub lease: Duration = Duration::from_secs(60),
        /// Time from the order to stop to the last KILL.
        pub stop_deadline: Duration = Duration::from_secs(25),
        /// First generation to use: above all that this keeper has used.
        pub first_generation: u32 = 1,
        /// Lives of an earlier supervisor of which a process still lives.
        pub unproven: Vec<Unproven> = Vec::new(),
        /// End when the queues are empty.
        pub burst: bool = false,
        /// Stop, as by an order, once this number of attempts have ended and count.
        pub end_after: Option<u64> = None,
        /// End after this time without any job.
        pub end_when_idle: Option<Duration> = None,
        /// Whether held jobs make the supervisor degraded.
        pub held_degrades: bool = true,
        /// Directories of code: a save there has all workers exchanged for new ones.
        pub watch: Vec<PathBuf> = Vec::new(),
        /// Seed of all random numbers, so that a run can be replayed.
        pub seed: u64 = 0,
    }
}

with_defaults! {
    /// The settings of a pool of equal workers. Its mode is given by two numbers: `jobs_at_once` and `jobs_per_life`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PoolSettings {
        /// The pool's name.
        pub name: String = "default".into(),
        /// Number of its [`SpawnSpec`](super::SpawnSpec); equal specs have equal numbers.
        pub spec: u32 = 0,
        /// Number of slots of the pool.
        pub workers: u16 = 1,
        /// The least number of workers; None = all of `workers`. The others start when jobs wait, and end when they are
        /// idle.
        pub min_workers: Option<u16> = None,
        /// Sizes by the time of day; at a start and a reload `workers` is set to the one in force.
        pub sizes: Vec<SizeRule> = Vec::new(),
        /// Whether a template forks its workers: a worker in slot 0 that takes no jobs.
        pub template: bool = false,
        /// Jobs in one worker at a time.
        pub jobs_at_once: u32 = 1,
        /// Jobs in one life; None = unlimited.
        pub jobs_per_life: Option<u64> = Some(1),
        /// The queues from which it takes jobs, in order.
        pub queues: Vec<QueueName> = vec![QueueName::from("default")],
        /// Priorities of the queues, from 1 to 100; others have [`QUEUE_PRIORITY`].
        pub queue_priorities: BTreeMap<QueueName, u8> = BTreeMap::new(),
        /// How to choose among the queues.
        pub order: Order = Order::Ordered,
        /// The number of jobs that are taken from a queue before the lottery draws again; 1 = every fetch draws.
        pub turn: usize = 1,
        /// The same by queue, where it differs.
        pub queue_turns: BTreeMap<QueueName, usize> = BTreeMap::new(),
        /// Which classes to take.
        pub filter: ClassFilter = ClassFilter::default(),
        /// The classes that its workers know, if that is known before they report it; None = any.
        pub knows: Option<Arc<Classes>> = None,
        /// Time from TERM to KILL.
        pub grace: Duration = Duration::from_secs(10),
        /// The same for a job that another supervisor may already run; zero: KILL without TERM.
        pub lost_grace: Duration = Duration::ZERO,
        /// Time from spawn to ready.
        pub boot_timeout: Duration = Duration::from_secs(30),
        /// What to do with its jobs if the broker does not answer until their leases end.
        pub when_cut_off: CutOff = CutOff::Kill,
        /// Limits of an attempt, for jobs and classes without their own.
        pub limits: Limits = Limits::default(),
        /// Limits by class; they win over those in the code of the class.
        pub class_limits: BTreeMap<Class, Limits> = BTreeMap::new(),
        /// The retry policy of jobs without their own.
        pub retry: Retry = Retry::NONE,
        /// When to replace a healthy worker by a new one.
        pub recycle: Recycle = Recycle::default(),
    }
}

/// When a worker is worn out. It ends its jobs first, and at most a quarter of a pool is exchanged at a time. Each life
/// gets up to a tenth more, so that workers that began together do not end together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recycle {
    /// After this number of jobs.
    pub jobs: Option<u64>,
    /// At this age of the life.
    pub age: Option<Duration>,
    /// After this time without a job.
    pub idle: Option<Duration>,
    /// With more memory than this after a job, in bytes.
    pub memory: Option<u64>,
}

/// How much longer than its own stop deadline the keeper waits for the supervisor.
const PATIENCE: Duration = Duration::from_secs(10);

impl Settings {
    /// Time from an order to stop until the keeper acts by itself, if the supervisor has not even read the order.
    pub fn stop_patience(&self) -> Duration {
        self.stop_deadline.saturating_add(PATIENCE)
    }

    /// Whether there is a pool of that name.
    pub fn has(&self, name: &str) -> bool {
        self.pools.iter().any(|pool| pool.name == name)
    }
}

impl PoolSettings {
    /// The name of the mode, which is given by two numbers.
    pub fn mode(&self) -> &'static str {
        match (self.jobs_per_life, self.jobs_at_once) {
            (Some(1), _) => "fork",
            (Some(_) | None, 2..) => "coroutine",
            (Some(_) | None, 0 | 1) => "prefork",
        }
    }

    /// Whether its workers would be the same.
    pub fn is_made_like(&self, other: &PoolSettings) -> bool {
        let made = |pool: &PoolSettings| (pool.spec, pool.template, pool.jobs_at_once, pool.jobs_per_life);
        made(self) == made(other)
    }

    /// Sets the size that its size rules give at that moment, if one has begun.
    pub fn resize_at(&mut self, moment: Millis) {
        if let Some((_, rule)) = SizeRule::in_force(&self.sizes, moment) {
            self.workers = rule.workers;
        }
    }

    /// The largest number of workers at any time of day.
    pub fn most_workers(&self) -> u16 {
        self.sizes.iter().map(|rule| rule.workers).fold(self.workers, u16::max)
    }

    /// Whether it takes jobs from the same queues in the same order.
    pub fn takes_as(&self, other: &PoolSettings) -> bool {
        let from = |pool: &PoolSettings| {
            let turns: Vec<usize> = pool.queues.iter().map(|queue| pool.turn_of(queue)).collect();
            (pool.order, turns, pool.queues_by_priority().collect::<Vec<_>>())
        };
        from(self) == from(other)
    }

    /// How many jobs a queue gives in a row once a lottery has drawn it.
    pub fn turn_of(&self, queue: &QueueName) -> usize {
        self.queue_turns.get(queue).copied().unwrap_or(self.turn)
    }

    /// Its queues, each with its priority.
    pub fn queues_by_priority(&self) -> impl Iterator<Item = (QueueName, u8)> {
        let priority = |queue| self.queue_priorities.get(queue).copied().unwrap_or(QUEUE_PRIORITY);
        self.queues.iter().map(move |queue| (queue.clone(), priority(queue)))
    }

    /// Whether both have the same largest and smallest size.
    pub fn has_size_of(&self, other: &PoolSettings) -> bool {
        (self.workers, self.min_workers) == (other.workers, other.min_workers)
    }
}

/// The lives that the keeper makes without an order for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follow {
    /// Number of lives to make.
    pub lives: u16,
    /// Each is killed at this time after it was made, unless ordered otherwise; None = it is not.
    pub fence: Option<Duration>,
}

/// A life of an earlier supervisor of which a process still lives: its jobs may not run elsewhere before that is proven
/// dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unproven {
    /// The worker's life.
    pub worker: WorkerId,
    /// Why it does not die, for people.
    pub cause: String,
    /// Its jobs, with their leases.
    pub jobs: Vec<Fetched>,
}

/// A change that a person may ask for, of a pool or of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Replace the workers by new ones; the old ones end their jobs first.
    Recycle,
    /// Take no more jobs; those that run go on.
    Pause,
    /// Take jobs again.
    Resume,
    /// Change the number of workers, until the settings give another one.
    Scale(Scale),
}

/// Another number of places in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// This number of places.
    To(u16),
    /// The difference: more, or if negative fewer.
    By(i32),
}

impl<'de> serde::Deserialize<'de> for Scale {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            to: Option<u16>,
            by: Option<i32>,
        }
        match Fields::deserialize(from)? {
            Fields { to: Some(number), by: None } => Ok(Scale::To(number)),
            Fields { to: None, by: Some(more) } => Ok(Scale::By(more)),
            Fields { to: Some(_), by: Some(_) } | Fields { to: None, by: None } => {
                Err(serde::de::Error::custom("either 'to', a number of workers, or 'by', how many more"))
            }
        }
    }
}

impl Scale {
    /// The new number, if it is `now`.
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
