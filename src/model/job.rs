//! Jobs: what they carry, where they are in their life, and the right to run one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::json::{JobJson, Octal, OldestWaitingAt, Since};
use super::{
    Bytes, Class, Entry, Fence, Forensics, Instance, Instant, JobId, Millis, Progress, QueueName, Today,
    WorkerName,
};

/// What a job carries to its worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// A program to run.
    Exec(Exec),
    /// Data for a worker that knows the class: raw JSON text as it was put, never re-encoded; or any other bytes.
    Data(Bytes),
}

/// A program with what was captured around it when it was put.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exec {
    /// Program and arguments. A program without a slash is looked up in the supervisor's PATH.
    pub argv: Vec<Bytes>,
    /// Working directory of the program.
    pub cwd: Bytes,
    /// File mode creation mask.
    #[serde(with = "Octal")]
    pub umask: u32,
    /// Standard input; empty = end of file at once.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub stdin: Bytes,
}

impl Payload {
    /// Bytes of a payload as it is kept that is shown in lists, at most.
    pub const SHOWN: usize = 4096;

    /// In a short line for people: the command, or the class and the beginning of its data.
    pub fn title(&self, class: &Class) -> String {
        const LONGEST: usize = 80;
        let title = match self {
            Payload::Exec(exec) => {
                let words: Vec<_> = exec.argv.iter().map(|word| word.to_text()).collect();
                words.join(" ")
            }
            Payload::Data(data) if data.0 == b"null" => class.to_string(),
            Payload::Data(data) => format!("{class} {}", data.to_text()),
        };
        title.chars().take(LONGEST).collect()
    }

    /// What no store could take.
    pub fn fault(&self) -> Option<String> {
        const UMASK_MAX: u32 = 0o777;
        let Payload::Exec(Exec { argv, cwd, umask, .. }) = self else { return None };
        if argv.first().is_none_or(|program| program.0.is_empty()) {
            return Some("argv names no program to run".into());
        }
        if argv.iter().chain([cwd]).any(|text| text.0.contains(&0)) {
            return Some("argv or cwd holds a zero byte, which no program can be given".into());
        }
        (*umask > UMASK_MAX).then(|| {
            format!("{umask} is no umask: it is a number from 0 to {UMASK_MAX}, octal {UMASK_MAX:o}")
        })
    }
}

fn is_empty(bytes: &Bytes) -> bool {
    bytes.0.is_empty()
}

/// What happens when an attempt fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Tries after the first one.
    pub retries: u32,
    /// Wait before the first retry; doubled for each later one.
    pub delay: Duration,
    /// The longest wait.
    pub cap: Duration,
}

impl Retry {
    /// One attempt only: the default of programs.
    pub const NONE: Retry = Retry { retries: 0, ..Retry::CLASS };
    /// The default of classes: 5 retries, 1 s doubled up to 15 min.
    pub const CLASS: Retry =
        Retry { retries: 5, delay: Duration::from_secs(1), cap: Duration::from_secs(15 * 60) };
}

/// A job as it is handed to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The job's id.
    pub id: JobId,
    /// The queue it was fetched from.
    pub queue: QueueName,
    /// What it is.
    pub class: Class,
    /// What it carries.
    pub payload: Payload,
    /// Higher runs first.
    pub priority: i32,
    /// Tags of the job: free words.
    pub tags: Vec<String>,
    /// Which attempt this is, starting at 1. An unspent attempt is counted again.
    pub attempt: u32,
    /// How often a worker died under it.
    pub crashes: u32,
    /// How often the supervisor or its host died, or the lease ended, while it ran.
    pub interrupted: u32,
    /// How often no worker knew its class.
    pub unknown: u32,
    /// When an attempt fails; None = as the pool says.
    pub retry: Option<Retry>,
    /// Longest run of this attempt; None = as the pool says.
    pub time_limit: Option<Duration>,
}

/// Our right to run a job, until `expires_at`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Of which job.
    pub job: JobId,
    /// The number that proves the lease.
    pub fence: Fence,
    /// End of the right, on our clock, counted from the moment the request was *sent*.
    pub expires_at: Instant,
}

/// A job with the right to run it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The job to run.
    pub job: Arc<Job>,
    /// The lease on it.
    pub lease: Lease,
}

/// Where a job is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Ready to run.
    Waiting = 0,
    /// Not before its time.
    Delayed = 1,
    /// Not before the jobs it needs are complete.
    Depends = 8,
    /// A supervisor holds a lease on it.
    Running = 2,
    /// Canceled while it ran; `canceled` when its processes are proven dead.
    Canceling = 3,
    /// The job is done.
    Complete = 4,
    /// Out of tries.
    Failed = 5,
    /// Needs a person; kept with its reason.
    Held = 6,
    /// Ended by a person.
    Canceled = 7,
}

impl JobState {
    /// Every state, in the order of a job's life.
    pub const ALL: [JobState; 9] = [
        JobState::Waiting,
        JobState::Delayed,
        JobState::Depends,
        JobState::Running,
        JobState::Canceling,
        JobState::Complete,
        JobState::Failed,
        JobState::Held,
        JobState::Canceled,
    ];

    /// Nothing more will happen to the job by itself.
    pub fn has_ended(self) -> bool {
        match self {
            JobState::Complete | JobState::Failed | JobState::Held | JobState::Canceled => true,
            JobState::Waiting
            | JobState::Delayed
            | JobState::Depends
            | JobState::Running
            | JobState::Canceling => false,
        }
    }

    /// Whether somebody holds a lease on it.
    pub fn is_leased(self) -> bool {
        matches!(self, JobState::Running | JobState::Canceling)
    }

    /// The word people type and read.
    pub fn as_str(self) -> &'static str {
        match self {
            JobState::Waiting => "waiting",
            JobState::Delayed => "delayed",
            JobState::Depends => "depends",
            JobState::Running => "running",
            JobState::Canceling => "canceling",
            JobState::Complete => "complete",
            JobState::Failed => "failed",
            JobState::Held => "held",
            JobState::Canceled => "canceled",
        }
    }
}

impl std::fmt::Display for JobState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl std::str::FromStr for JobState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        JobState::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| format!("no job state is called '{text}'"))
    }
}

/// Everything the broker knows of a job: what `job show` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "JobJson", into = "JobJson")]
pub struct JobRecord {
    /// The job's id.
    pub id: JobId,
    /// Where it is or was.
    pub queue: QueueName,
    /// What it is.
    pub class: Class,
    /// What it carries. Left out (`None`) in lists.
    pub payload: Option<Payload>,
    /// Only in lists: the command, or the class and the beginning of its data, 80 characters at most. Left out (`None`) of
    /// a payload of more than 4 KiB.
    pub title: Option<String>,
    /// Where it is in its life.
    pub state: JobState,
    /// Higher runs first.
    pub priority: i32,
    /// Tags of the job: free words.
    pub tags: Vec<String>,
    /// Whether somebody follows it.
    pub tracked: bool,
    /// What it waits for: the jobs it needs that are not complete. Left out in lists.
    pub needs: Vec<Need>,
    /// The jobs that wait for it, 1000 at most. Left out in lists.
    pub needed_by: Vec<JobId>,
    /// Attempts spent or under way.
    pub attempt: u32,
    /// When an attempt fails; None = as the pool says.
    pub retry: Option<Retry>,
    /// Longest run of one attempt; None = as the pool says.
    pub time_limit: Option<Duration>,
    /// How often a worker died under it.
    pub crashes: u32,
    /// How often the supervisor or its host died, or the lease ended, while it ran. After 2 it runs alone on its host.
    pub interrupted: u32,
    /// How often no worker knew its class.
    pub unknown: u32,
    /// When it was put.
    pub put_at: Millis,
    /// By whom, if that is known.
    pub put_by: Option<String>,
    /// Which recurring job put it.
    pub recurring: Option<String>,
    /// Not before this time, when it is delayed or depends on others.
    pub due_at: Option<Millis>,
    /// When its latest attempt started.
    pub started_at: Option<Millis>,
    /// When it ended.
    pub ended_at: Option<Millis>,
    /// Who runs it.
    pub instance: Option<Instance>,
    /// The worker of another program that has it, by the name that qless keeps.
    pub holder: Option<String>,
    /// In which life of which slot it runs or last ran.
    pub worker: Option<WorkerName>,
    /// The proof of the latest lease.
    pub fence: Fence,
    /// How often that lease was extended.
    pub renewals: u32,
    /// When it was extended last.
    pub renewed_at: Option<Millis>,
    /// When it ends, while it is held.
    pub expires_at: Option<Millis>,
    /// How far it has come, as its worker says.
    pub progress: Option<Progress>,
    /// What the worker gave back, as JSON text.
    pub result: Option<String>,
    /// Why it failed, is held or waits for a retry.
    pub failure: Option<super::Failure>,
    /// How its latest attempt ended.
    pub forensics: Option<Forensics>,
    /// What happened to it, oldest first: the latest 100 entries. Left out in lists.
    pub history: Vec<Entry>,
}

/// A job that another one needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Need {
    /// The job's id.
    pub job: JobId,
    /// Where it is in its life.
    pub state: JobState,
}

/// Jobs of one queue by state, and whether it is paused.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueCounts {
    /// Jobs in each state; a state without jobs is left out.
    pub jobs: BTreeMap<JobState, u64>,
    /// When the oldest waiting job was put.
    #[serde(flatten, with = "OldestWaitingAt::<Option<Millis>>")]
    pub oldest_waiting: Option<Millis>,
    /// Paused: since when, by whom, why.
    pub paused: Option<Pause>,
    /// How many of its jobs may run at a time, if that is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<u64>,
    /// Whether no pool takes jobs from it, of this supervisor or of another that shares the broker and lives. Only a
    /// supervisor can say: the store alone knows no pools.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unserved: bool,
    /// How its jobs have fared today, if any has.
    #[serde(default, skip_serializing_if = "Today::is_quiet")]
    pub today: Today,
}

impl QueueCounts {
    /// Its jobs that could run now or later.
    pub fn to_run(&self) -> u64 {
        let states = [JobState::Waiting, JobState::Delayed, JobState::Depends];
        states.iter().filter_map(|state| self.jobs.get(state)).sum()
    }
}

/// A pause of a queue: nothing is fetched from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pause {
    /// When the pause began.
    #[serde(flatten, with = "Since::<Millis>")]
    pub since: Millis,
    /// Who asked for it, e.g. `uid 1000`.
    pub by: String,
    /// Why, as given.
    pub reason: Option<String>,
}
