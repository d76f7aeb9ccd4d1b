//! A job as the broker stores it.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Class, Entry, Failure, Fence, Forensics, Instance, JobId, JobState, Millis, Payload, Progress, QueueName,
    Retry, WorkerName,
};

/// Everything the broker knows of a job: what `job show` prints.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRecord {
    /// The job's id.
    pub id: JobId,
    /// The queue it is or was in.
    pub queue: QueueName,
    /// The class of the job, which names the code that runs it.
    pub class: Class,
    /// The program to run, or the data for a worker. Left out (`None`) in lists.
    pub payload: Option<Payload>,
    /// In lists: the command, or the class and the beginning of its data, 80 characters at most; of a task of kale its call.
    /// Left out (`None`) of a payload of more than 4 KiB. Else only of such a task: [`JobRecord::KALE_TASK`] and its call.
    pub title: Option<String>,
    /// The state of the job.
    pub state: JobState,
    /// Higher runs first.
    pub priority: i32,
    /// Tags of the job: free words.
    pub tags: Vec<String>,
    /// Whether it is tracked.
    pub tracked: bool,
    /// The jobs that it needs and that are not complete. Left out in lists.
    pub needs: Vec<Need>,
    /// The jobs that wait for it, 1000 at most. Left out in lists.
    pub needed_by: Vec<JobId>,
    /// Attempts spent or under way.
    pub attempt: u32,
    /// The retry policy; None = that of the pool.
    pub retry: Option<Retry>,
    /// Time limit of one attempt; None = that of the pool.
    pub time_limit: Option<Duration>,
    /// How often a worker died under it.
    pub crashes: u32,
    /// How often the supervisor or its host died, or the lease ended, while it ran. After 2 it runs alone on its host.
    pub interrupted: u32,
    /// How often no worker knew its class.
    pub unknown: u32,
    /// When it was put.
    pub put_at: Millis,
    /// The user or program that put it, if known.
    pub put_by: Option<String>,
    /// The recurring job that put it.
    pub recurring: Option<String>,
    /// It does not run before this time, if it is delayed or depends on others.
    pub due_at: Option<Millis>,
    /// By when it is to begin, if it is dropped else, and has not begun yet.
    pub begin_by: Option<Millis>,
    /// When its latest attempt started.
    pub started_at: Option<Millis>,
    /// When it ended.
    pub ended_at: Option<Millis>,
    /// The supervisor that holds it, by its instance.
    pub instance: Option<Instance>,
    /// The worker of another program that has it, by the name that qless keeps.
    pub holder: Option<String>,
    /// The life and the slot in which it runs or last ran.
    pub worker: Option<WorkerName>,
    /// The fence of the latest lease.
    pub fence: Fence,
    /// How often that lease was extended.
    pub renewals: u32,
    /// When it was extended last.
    pub renewed_at: Option<Millis>,
    /// When the lease ends, while it is held.
    pub expires_at: Option<Millis>,
    /// Progress, as its worker reported it last; [`JobRecord::told_progress`] is what is shown.
    pub progress: Option<Progress>,
    /// The worker's result, as JSON text.
    pub result: Option<String>,
    /// Why it failed, is held or waits for a retry.
    pub failure: Option<Failure>,
    /// Why the broker will not deliver it again although it waits: SQS moves messages to a dead-letter queue by itself.
    /// Left out in lists.
    pub dead_letter: Option<String>,
    /// How its latest attempt ended.
    pub forensics: Option<Forensics>,
    /// What happened to it, oldest first: the latest 100 entries. Left out in lists.
    pub history: Vec<Entry>,
}

impl JobRecord {
    /// So begins the title of a task of kale that the broker's key opens, outside lists.
    pub const KALE_TASK: &str = "kale task ";

    /// About the bytes of what may be long: its payload, result, failure, forensics and history.
    pub fn bytes(&self) -> usize {
        let payload = self.payload.as_ref().map_or(0, Payload::bytes);
        let result = self.result.as_ref().map_or(0, String::len);
        let failure = self.failure.as_ref().map_or(0, Failure::bytes);
        let forensics = self.forensics.as_ref().map_or(0, Forensics::bytes);
        payload + result + failure + forensics + self.history.iter().map(Entry::bytes).sum::<usize>()
    }

    /// A job of which no more is known than this.
    pub fn new(id: JobId, queue: QueueName, class: Class, state: JobState) -> JobRecord {
        JobRecord {
            id,
            queue,
            class,
            payload: None,
            title: None,
            state,
            priority: 0,
            tags: Vec::new(),
            tracked: false,
            needs: Vec::new(),
            needed_by: Vec::new(),
            attempt: 0,
            retry: None,
            time_limit: None,
            crashes: 0,
            interrupted: 0,
            unknown: 0,
            put_at: Millis(0),
            put_by: None,
            recurring: None,
            due_at: None,
            begin_by: None,
            started_at: None,
            ended_at: None,
            instance: None,
            holder: None,
            worker: None,
            fence: Fence(0),
            renewals: 0,
            renewed_at: None,
            expires_at: None,
            progress: None,
            result: None,
            failure: None,
            dead_letter: None,
            forensics: None,
            history: Vec::new(),
        }
    }

    /// Its progress as every face shows it. What has ended well has come to its end, whatever its worker said last.
    pub fn told_progress(&self) -> Option<Progress> {
        let told = self.progress.clone()?;
        let fraction =
            told.fraction.map(|fraction| if self.state == JobState::Complete { 1.0 } else { fraction });
        (fraction.is_some() || told.message.is_some()).then_some(Progress { fraction, ..told })
    }

    /// The failure that explains its state: it failed, is held, or waits for a retry. A job that runs or was canceled
    /// has the failure of the attempt before.
    pub fn cause(&self) -> Option<&Failure> {
        self.failure.as_ref().filter(|_| !self.state.is_leased() && self.state != JobState::Canceled)
    }
}

/// A job that another one needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Need {
    /// The job's id.
    pub job: JobId,
    /// The state of the job.
    pub state: JobState,
}
