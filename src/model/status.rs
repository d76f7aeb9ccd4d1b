//! The data of `taskvisor status`. The supervisor fills in its own state, the engine what /proc shows.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::format::{MaybeSeconds, Seconds};
use super::{
    Class, DeadWorker, JobId, Ordered, Pause, Progress, QueueCounts, QueueName, SlotId, SlotName, Stop,
    TimedSize,
};

/// The whole picture. The schema's name goes up when a field changes its meaning or disappears.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// Schema of this document, always `taskvisor.status/2`.
    pub schema: String,
    /// The program's version.
    pub version: String,
    /// One word for it all, and the reasons when it is not `healthy`.
    #[serde(rename = "health")]
    pub verdict: Health,
    /// Why it is not healthy, one line each.
    pub reasons: Vec<String>,
    /// The machine it runs on.
    pub host: Host,
    /// The parent process.
    pub keeper: Process,
    /// Supervisors that ended before this one.
    pub supervisor_restarts: u32,
    /// How the latest of them ended, and who may have killed it, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supervisor_last_end: Option<String>,
    /// The deciding process.
    pub supervisor: Process,
    /// The page for browsers that it keeps beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web: Option<PageStatus>,
    /// Since the supervisor started.
    #[serde(rename = "uptime", with = "Seconds")]
    pub up: Duration,
    /// Stage of the stop, once ordered.
    pub stopping: Option<Stop>,
    /// From the order to stop to the last KILL.
    #[serde(default, rename = "stop_timeout", with = "Seconds")]
    pub stop_deadline: Duration,
    /// The broker, without secrets, e.g. `sqlite:/var/lib/taskvisor/store.db`.
    pub broker: String,
    /// Bytes of the store's files; none of a store in memory or in Redis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_bytes: Option<u64>,
    /// What is wrong with the broker, if anything.
    pub broker_trouble: Option<String>,
    /// What of the logs was lost since the supervisor started.
    #[serde(default, skip_serializing_if = "LogStatus::is_well")]
    pub logs: LogStatus,
    /// Jobs settled since the supervisor started, by verdict: `complete`, `failed`, `retry`, `released`, `held`, `canceled`.
    pub settled: BTreeMap<String, u64>,
    /// The pools with their slots.
    pub pools: Vec<PoolStatus>,
    /// Number of jobs of each queue, by state.
    pub queues: BTreeMap<QueueName, QueueCounts>,
    /// How long ago they were counted, if the broker did not do so at once when it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "MaybeSeconds")]
    pub queues_age: Option<Duration>,
}

impl Status {
    /// The schema this code writes.
    pub const SCHEMA: &'static str = "taskvisor.status/2";
}

/// The page for browsers, a process of its own beside the supervisor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageStatus {
    /// Its address, without the key that opens it; none until it listens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Its process; none while there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// How often it has ended and was started again.
    #[serde(default)]
    pub restarts: u32,
}

/// What of the logs was lost, and what is in the way of more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogStatus {
    /// Bytes that jobs and slots have printed and that could not be written.
    pub output_dropped: u64,
    /// Lines of the supervisor's own log that were not written, or not read, fast enough.
    pub lines_dropped: u64,
    /// What is wrong at the moment; each is one of the reasons, too.
    pub troubles: Vec<String>,
    /// Bytes that the output of jobs takes on the disk, in whole blocks.
    #[serde(default)]
    pub output_bytes: u64,
}

impl LogStatus {
    /// Whether all logs work.
    pub fn is_well(&self) -> bool {
        *self == LogStatus::default()
    }
}

/// The verdict of `status -q`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// All slots up or starting for the first time, broker well, nothing paused.
    Healthy,
    /// Some slots are down or stuck, pools are paused, the broker is in trouble, or jobs are held.
    Degraded,
    /// No slot can take a job.
    Unhealthy,
}

impl Health {
    /// The word people read.
    pub fn as_str(self) -> &'static str {
        match self {
            Health::Healthy => "healthy",
            Health::Degraded => "degraded",
            Health::Unhealthy => "unhealthy",
        }
    }
}

/// The machine, in short.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// The machine's name.
    pub name: String,
    /// Memory in bytes.
    pub memory_total: u64,
    /// Memory in use, in bytes.
    pub memory_used: u64,
    /// Load average of the last minute.
    pub load: f64,
    /// Number of processors.
    pub cpus: u32,
}

/// A process as /proc shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// Its pid, for people.
    pub pid: i32,
    /// The process's name.
    pub name: String,
    /// One letter: R, S, D, T, Z.
    pub state: String,
    /// Resident set in bytes.
    pub rss: u64,
    /// CPU time used so far.
    #[serde(with = "Seconds")]
    pub cpu: Duration,
    /// Its child processes, with theirs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Process>,
    /// Whether it has more of them: of the tree of a slot 500 processes are shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// The state of one pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PoolStatus {
    /// The pool's name.
    pub name: String,
    /// `fork`, `prefork` or `coroutine`.
    pub mode: String,
    /// Jobs at a time of one worker.
    #[serde(default = "one")]
    pub concurrency: u32,
    /// Its queues, in order.
    pub queues: Vec<QueueName>,
    /// The user its processes run as, if another than the supervisor's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Why it runs on one probing slot only, if it does.
    pub probing: Option<String>,
    /// Whether it takes no jobs for now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Since when, by whom and why, if it is paused and that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
    /// The job that has this host for itself, to run or until the others have ended, for 5 minutes each at most: meanwhile
    /// no pool takes another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspect: Option<JobId>,
    /// Whether another pool of its name, or nothing, comes in its place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outdated: bool,
    /// How many slots a person has asked for, if other than the settings say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaled: Option<u16>,
    /// Since when, and who did, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaled_by: Option<Ordered>,
    /// When its workers were last exchanged by a person, and who did that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recycled: Option<Ordered>,
    /// Its size by the time of day, if its settings have rules for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_of_day: Option<TimedSize>,
    /// The process that forks its workers, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<SlotStatus>,
    /// From TERM to KILL.
    #[serde(default, with = "Seconds")]
    pub grace: Duration,
    /// Jobs that came lately and that no worker knew, by class; not all, when there are very many.
    #[serde(default, rename = "unknown_classes", skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown: BTreeMap<Class, u64>,
    /// The places that have a worker or want one.
    pub slots: Vec<SlotStatus>,
}

fn one() -> u32 {
    1
}

/// State of a pool after an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolNow {
    /// The pool's name.
    pub pool: String,
    /// Number of workers before the order.
    pub workers_before: u16,
    /// Number of workers from now on.
    pub workers: u16,
    /// Whether it takes no jobs for now.
    pub paused: bool,
}

/// What holds after an order, for each pool that it concerns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolsNow {
    /// The pools, in the order of the settings.
    #[serde(default)]
    pub pools: Vec<PoolNow>,
}

impl SlotStatus {
    /// Whether it has a worker, or will have one as soon as the last one has ended: one that ends for a job, such as a
    /// canceled one, or is replaced. Not while workers die before they are ready.
    pub fn is_served(&self) -> bool {
        match self.state {
            SlotState::Ready | SlotState::Busy => true,
            SlotState::Stopping | SlotState::Killed => !self.failing,
            SlotState::Down | SlotState::Starting | SlotState::Unkillable => false,
        }
    }

    /// Whether this job was ended there, and a process of it does not die.
    pub fn has_unkillable(&self, job: &JobId) -> bool {
        self.state == SlotState::Unkillable && self.jobs.iter().any(|running| running.id == *job)
    }
}

/// The state of one slot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlotStatus {
    /// Name of the slot, e.g. `mail.1`.
    pub slot: SlotName,
    /// Its place as the keeper knows it: another one after a recycle. For the engine alone.
    #[serde(skip)]
    pub place: SlotId,
    /// Generation of the process; the next one while the slot is down.
    pub generation: u32,
    /// The state of the slot.
    pub state: SlotState,
    /// Time in that state.
    #[serde(with = "Seconds")]
    pub age: Duration,
    /// Time left of its backoff or of its grace, if it has one.
    #[serde(default, rename = "remaining", skip_serializing_if = "Option::is_none", with = "MaybeSeconds")]
    pub until: Option<Duration>,
    /// Jobs it runs.
    pub jobs: Vec<RunningJob>,
    /// Jobs that wait to run here alone, for a worker may have died of them.
    #[serde(default, rename = "waiting_jobs", skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<JobId>,
    /// Why it takes no more jobs and ends after those it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaving: Option<String>,
    /// Whether its last worker died before it was ready, and none has been ready since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failing: bool,
    /// Lives that ended other than as planned.
    pub restarts: u32,
    /// Why the latest of them ended, or why it is stuck.
    pub why: Option<String>,
    /// The last lines on stderr of the latest of them, if it died before it was ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// A fault of the application that its worker or template warns of: several lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// Modules that a template has imported for all jobs to come, because jobs needed them: their names, 200 at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preloaded: Vec<String>,
    /// Its processes, the leader first with its tree below; filled in by the engine.
    pub process: Option<Process>,
}

/// The states of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SlotState {
    /// No process: waiting for its backoff, or not wanted.
    Down,
    /// Its process starts and is not ready yet.
    Starting,
    /// Has room for a job.
    Ready,
    /// Runs all it can.
    Busy,
    /// Asked to end.
    Stopping,
    /// Killed; the proof is under way.
    Killed,
    /// Killed and does not die.
    Unkillable,
}

impl SlotState {
    /// The word people read.
    pub fn as_str(self) -> &'static str {
        match self {
            SlotState::Down => "down",
            SlotState::Starting => "starting",
            SlotState::Ready => "ready",
            SlotState::Busy => "busy",
            SlotState::Stopping => "stopping",
            SlotState::Killed => "killed",
            SlotState::Unkillable => "unkillable",
        }
    }
}

/// A job under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunningJob {
    /// The job's id.
    pub id: JobId,
    /// The class of the job. The name and arguments of a program are in `title`.
    pub class: Class,
    /// A short line for people, e.g. `gzip -t a.gz`.
    pub title: String,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// For how long.
    #[serde(with = "Seconds")]
    pub ran: Duration,
    /// Time limit of the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "MaybeSeconds")]
    pub time_limit: Option<Duration>,
    /// Why it is being ended, when it is.
    pub ending: Option<String>,
    /// Whether its slot takes no other job meanwhile: a worker or a supervisor died while it ran.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
    /// The worker that died in this attempt while it ran this job and others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub died_before: Option<DeadWorker>,
    /// Progress, as its worker reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// For how long its process has been stopped by a signal (SIGSTOP), if it is now and the attempt has a time limit.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "MaybeSeconds")]
    pub stopped: Option<Duration>,
    /// Its output, once that is more than its log keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flood: Option<Flood>,
}

/// The output of an attempt that prints more than its log keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Flood {
    /// Bytes that it has printed.
    pub printed: u64,
    /// How many of them were dropped.
    pub dropped: u64,
}
