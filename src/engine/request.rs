//! Requests to the loop, and the view that it shows.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::oneshot;

use super::count_cache::Counted;
use super::fresh::Fresh;
use super::line::Line;
use super::takers::{Takers, Wanted};
use api::{PauseOrder, Problem};
use model::{
    Change, Class, Counters, Fence, JobId, LogStatus, PoolStatus, PoolsNow, Process, QueueCounts, QueueName,
    Stop, Why, WorkerId,
};
use supervisor::Step;

/// The counts of each queue.
pub(super) type Queues = BTreeMap<QueueName, QueueCounts>;

/// A request to the loop.
pub(super) enum Request {
    /// Give the supervisor's view, with the process of each slot.
    View(oneshot::Sender<View>),
    /// Give what the loop knows of a subject.
    Why(WhySubject, Answer),
    /// Say for how long a job of that worker did not run; None = the worker does not have the job.
    Stopped {
        /// The worker that asks.
        worker: WorkerId,
        /// The job that it runs.
        job: JobId,
        /// The number of its lease.
        fence: Fence,
        /// Gets that time.
        answer: oneshot::Sender<Option<Duration>>,
    },
    /// Answer, to show that the loop turns.
    Turn(oneshot::Sender<()>),
    /// Change a pool, or all pools; a refusal says why.
    Change {
        /// The pool's name; None = all pools.
        pool: Option<String>,
        /// What is to change.
        change: Change,
        /// Why, if it is a pause, and how long that lasts.
        how: PauseOrder,
        /// The author of the request, e.g. `uid 1000`.
        by: String,
        /// Gets the answer when the change is made and kept.
        answer: oneshot::Sender<Result<PoolsNow, Problem>>,
    },
    /// Settings were read, or could not be.
    Reload {
        /// The settings, or what is wrong with them.
        fresh: Result<Fresh, String>,
        /// Whether it is a dry run.
        dry_run: bool,
        /// The author of the request, e.g. `uid 1000`.
        by: String,
        /// Gets what changes, by pool.
        answer: oneshot::Sender<Vec<(String, Step)>>,
    },
    /// Give what the pools take, and which of these classes no worker knows.
    Takers(Wanted, oneshot::Sender<Takers>),
    /// Answer when no job is here.
    AtRest(oneshot::Sender<()>),
    /// Stop; the text says who asks.
    Stop(Stop, String),
    /// Write this to the log.
    Log(Line),
    /// The queues were counted at the loop's request.
    Counted(Counted<Queues>),
}

/// The loop's part of a status.
pub(crate) struct View {
    /// The pools with their slots; of the processes only the pid is known.
    pub pools: Vec<PoolStatus>,
    /// Jobs settled since the start, by verdict.
    pub settled: BTreeMap<String, u64>,
    /// The stage of the stop, if one was ordered.
    pub stopping: Option<Stop>,
    /// Time from the order to stop to the last KILL.
    pub stop_deadline: Duration,
    /// How much of the logs was dropped, and what is wrong with writing them.
    pub logs: LogStatus,
    /// Whether held jobs make the verdict degraded.
    pub held_degrades: bool,
    /// The error in the settings that were read last.
    pub settings_trouble: Option<String>,
    /// The keeper's process as /proc shows it.
    pub keeper: Process,
    /// Number of supervisors that ended before this one.
    pub restarts: u32,
    /// How the latest of them ended, in words.
    pub last_end: Option<String>,
    /// The counters for metrics.
    pub counters: Counters,
}

#[cfg(test)]
impl View {
    /// A view of these pools, and nothing else.
    pub(super) fn of(pools: Vec<PoolStatus>) -> View {
        View {
            pools,
            settled: BTreeMap::new(),
            stopping: None,
            stop_deadline: Duration::ZERO,
            logs: LogStatus::default(),
            held_degrades: true,
            settings_trouble: None,
            keeper: Process::default(),
            restarts: 0,
            last_end: None,
            counters: Counters::default(),
        }
    }
}

/// The subject of a question `why`, as far as the loop can answer.
pub(super) enum WhySubject {
    /// A job, by its id.
    Job {
        /// The id of the job.
        id: JobId,
        /// Its queue and its class; None if the broker does not say.
        of: Option<(QueueName, Class)>,
    },
    /// A slot: `POOL.N`.
    Slot(String),
    /// A pool, by its name.
    Pool(String),
}

/// Where to send the answer.
pub(super) type Answer = oneshot::Sender<Result<Why, Problem>>;
