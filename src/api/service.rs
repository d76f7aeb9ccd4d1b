//! The functions of the API, independent of HTTP.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::Receiver;
use tokio::sync::mpsc::UnboundedReceiver;

use model::verb::{Answer, Verb};
use model::{
    Change, ConfigShown, Cursor, Diagnosis, Filter, Instance, JobCounts, JobId, JobState, Meters, Millis,
    NewJob, Page, Picture, PoolsNow, PublishedEvent, PutNote, QueueName, SeriesQuery, Status, Stop, Subject,
    TimeSeries, Why,
};
use wq::{self, Taken};

/// Every request that a client can make to a running supervisor.
#[async_trait]
pub trait Service: Send + Sync + 'static {
    /// The broker's name, without secrets.
    fn broker(&self) -> String;

    /// Puts jobs, all or none, and gives their ids when they are durable.
    async fn put(&self, jobs: Vec<NewJob>) -> Result<Queued, Problem>;

    /// Carries out a verb; `by` says who asks.
    async fn ask(&self, verb: Verb, by: String) -> Result<Answer, Problem>;

    /// The first page of a list, or the page at the cursor of the page before.
    async fn page(&self, filter: &Filter, at: Option<Cursor>) -> Result<Page, Problem>;

    /// Counts the jobs that a filter selects, up to its limit.
    async fn count_jobs(&self, filter: &Filter) -> Result<JobCounts, Problem>;

    /// What happened to jobs in each step of the last hour or day.
    fn series(&self, _query: &SeriesQuery) -> Result<TimeSeries, Problem> {
        Err(Problem::unavailable("there are no series here"))
    }

    /// The settings in force, without secrets.
    fn config(&self) -> Result<ConfigShown, Problem> {
        Err(Problem::unavailable("there are no settings here"))
    }

    /// What this machine lacks.
    async fn doctor(&self) -> Result<Diagnosis, Problem> {
        Err(Problem::unavailable("nobody looks at this machine"))
    }

    /// Counts the tasks whose ids begin this way, in any of these states (none = in any).
    async fn count_tasks(&self, begins: &str, states: &[JobState]) -> Result<u64, Problem>;

    /// The settings for notifications; `None` if none are accepted.
    fn tasks(&self) -> Option<Arc<wq::Settings>> {
        None
    }

    /// Puts the job of a notification and answers when it is durable.
    async fn notify(&self, job: NewJob) -> Result<Taken, Problem> {
        let task_id = self.put(vec![job]).await?.ids.pop();
        let unsaid = || Problem::new(500, "the broker did not say which job it has taken");
        task_id.map(|task_id| Taken { task_id, kept: false }).ok_or_else(unsaid)
    }

    /// Subscribes to events from now on.
    async fn news(&self) -> Receiver<Arc<PublishedEvent>>;

    /// Waits until the job has ended and gives its state. Dropped when the client goes away.
    async fn ended(&self, id: JobId) -> Result<JobState, Problem>;

    /// The output of a job: where it is, and what may be missing of it.
    async fn output(&self, id: &JobId) -> Result<JobOutput, Problem>;

    /// Tells the end of each job as it comes. Dropped when the client goes away.
    async fn ends(
        &self,
        jobs: Vec<JobId>,
    ) -> Result<UnboundedReceiver<(JobId, Result<JobState, Problem>)>, Problem>;

    /// The whole status of the supervisor.
    async fn status(&self) -> Result<Status, Problem>;

    /// Why a job, a slot or a pool is in its state.
    async fn why(&self, subject: Subject) -> Result<Why, Problem>;

    /// What the processes of a running job do now.
    async fn picture_of(&self, _id: JobId) -> Result<Picture, Problem> {
        Err(Problem::unavailable("nothing runs here"))
    }

    /// The status with all counters.
    async fn meters(&self) -> Result<Meters, Problem>;

    /// Returns when the supervisor's loop has turned.
    async fn turn(&self) -> Result<(), Problem>;

    /// Reads the settings again and applies them, all or none; a dry run only says what that would do, pool by pool.
    /// `by` says who asks, here and below.
    async fn reload(&self, dry_run: bool, by: String) -> Result<Reloaded, Problem>;

    /// Changes a pool, or all pools; gives what holds then.
    async fn change(
        &self,
        pool: Option<String>,
        change: Change,
        how: PauseOrder,
        by: String,
    ) -> Result<PoolsNow, Problem>;

    /// Waits until no job is here. Dropped when the client goes away.
    async fn at_rest(&self) -> Result<(), Problem>;

    /// Orders the stop and returns at once.
    async fn stop(&self, how: Stop, by: String) -> Result<(), Problem>;
}

/// The output of a job.
pub struct JobOutput {
    /// Reads the output, as far as it is here.
    pub reader: log::Reader,
    /// State of the job.
    pub state: JobState,
    /// The supervisor that ran the latest attempt, if it is another one.
    pub elsewhere: Option<Instance>,
    /// When the job was put.
    pub put_at: Millis,
}

/// A supervisor is here; its broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Here {
    /// Where the jobs are, without secrets.
    pub broker: Option<String>,
}

/// Jobs that were put.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Queued {
    /// Their ids, in the order of the jobs.
    pub ids: Vec<JobId>,
    /// Those of their queues that no pool takes jobs from: what is put there waits until one does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unserved: Vec<QueueName>,
    /// What keeps jobs of them from running: such a queue, or a class that no worker knows; 100 at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<PutNote>,
}

/// Settings that were read again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reloaded {
    /// From where; None = there is no file, and nothing else is read again.
    pub file: Option<String>,
    /// What becomes of each pool.
    pub pools: BTreeMap<String, String>,
    /// The settings that change, in the order of `config show`.
    #[serde(default)]
    pub changed: Vec<Changed>,
}

/// A setting that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Changed {
    /// The pool, or none for the whole supervisor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The name of the setting, e.g. `recycle.jobs`.
    pub setting: String,
    /// The value before, as in the file of settings; a secret is `hidden`.
    pub from: String,
    /// The value after the reload, written the same way.
    pub to: String,
}

/// A refusal or failure, as the client gets it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// The HTTP status.
    pub code: u16,
    /// What was attempted, on what, and why it failed.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// If some jobs of a put were put and others not: the id of each that was, in their order. Else empty.
    pub put: Vec<Option<JobId>>,
    /// Which of the others may have been put, as their broker has not answered: their numbers in the request, from 0.
    pub in_doubt: Vec<usize>,
}

impl Problem {
    /// A problem without a hint.
    pub fn new(code: u16, message: impl Into<String>) -> Self {
        Problem { code, message: message.into(), hint: None, put: Vec::new(), in_doubt: Vec::new() }
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// 400: the request itself is wrong.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Problem::new(400, message)
    }

    /// 404: no such job, queue or route.
    pub fn not_found(message: impl Into<String>) -> Self {
        Problem::new(404, message)
    }

    /// 409: not possible in this state.
    pub fn conflict(message: impl Into<String>) -> Self {
        Problem::new(409, message)
    }

    /// 503: not possible at the moment.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Problem::new(503, message)
    }

    /// The broker has not answered: the request may have been carried out.
    pub fn in_doubt(message: impl Into<String>) -> Self {
        Problem::new(504, message)
    }

    /// Whether the request may have been carried out.
    pub fn is_in_doubt(&self) -> bool {
        self.code == 504
    }
}

/// The body of `POST /v1/pause` and `POST /v1/pools/{pool}/pause`; it may be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseOrder {
    /// Why, for others to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the stop of the service ends the pause; else it holds until a resume, also after a stop and a start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub until_stop: bool,
}
