//! A job as it is shown.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::entry::EntryJson;
use super::new_job::{Carried, present};
use crate::format::{
    BeginBy, DueAt, EndedAt, ExpiresAt, JsonText, MaybeSeconds, PutAt, RenewedAt, StartedAt, json_text,
};
use crate::{
    Bytes, Class, Exec, Failure, Fence, Forensics, Instance, JobId, JobRecord, JobState, Millis, Need,
    Progress, QueueName, Retry, WorkerName,
};

/// A job. What has no value is left out.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Job")]
pub(crate) struct JobJson {
    /// The job's id.
    id: JobId,
    /// The queue it is or was in.
    queue: QueueName,
    /// The name of the code that runs it; `exec` for programs.
    class: Class,
    /// The state of the job.
    state: JobState,
    /// Its data, if it has some and that is JSON. Not in lists; `exec` and `raw` neither.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "Option<JsonText>")]
    data: Option<Box<RawValue>>,
    /// Its data, if that is not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    raw: Option<Bytes>,
    /// The program to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exec: Option<Exec>,
    /// In lists: the command, or the class and the beginning of its data, 80 characters at most; of a task of kale its call.
    /// Left out of a payload of more than 4 KiB. Outside lists a task of kale has one with all that can be decoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// Higher runs first.
    priority: i32,
    /// Tags of the job: free words.
    tags: Vec<String>,
    /// Whether it is tracked.
    #[serde(default)]
    tracked: bool,
    /// The jobs it waits for, those that are not complete. Not in lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    depends: Vec<Need>,
    /// The jobs that wait for it, 1000 at most. Not in lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    dependents: Vec<JobId>,
    /// Attempts spent or under way.
    attempt: u32,
    /// Tries after the first one. Left out with the next two = as its class or pool says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retries: Option<u32>,
    /// Wait before the first retry, in seconds; doubled for each later one.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "MaybeSeconds")]
    retry_delay: Option<Duration>,
    /// The longest wait before a retry, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "MaybeSeconds")]
    retry_cap: Option<Duration>,
    /// Longest run of one attempt, in seconds. Left out = as its class or pool says.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "MaybeSeconds")]
    time_limit: Option<Duration>,
    /// How often a worker died under it.
    crashes: u32,
    /// How often the supervisor or its host died, or the lease ended, while it ran. After 2 it runs alone on its host.
    interruptions: u32,
    /// How often no worker knew its class.
    #[serde(default)]
    unknown_class: u32,
    /// When it was put.
    #[serde(flatten, with = "PutAt::<Millis>")]
    put_at: Millis,
    /// The person or program that put it, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    put_by: Option<String>,
    /// The recurring job that put it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recurring: Option<String>,
    /// When it is due, if it is delayed or depends on others.
    #[serde(flatten, with = "DueAt::<Option<Millis>>")]
    due_at: Option<Millis>,
    /// By when it is to begin: it is dropped else.
    #[serde(flatten, with = "BeginBy::<Option<Millis>>")]
    begin_by: Option<Millis>,
    /// When its latest attempt started.
    #[serde(flatten, with = "StartedAt::<Option<Millis>>")]
    started_at: Option<Millis>,
    /// When it ended.
    #[serde(flatten, with = "EndedAt::<Option<Millis>>")]
    ended_at: Option<Millis>,
    /// The supervisor that runs or ran it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instance: Option<Instance>,
    /// The worker of another program that has it, by the name that qless keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    /// The worker that runs or ran it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    worker: Option<WorkerName>,
    /// The token of its latest lease.
    fence: Fence,
    /// How often that lease was renewed.
    #[serde(default)]
    renewals: u32,
    /// When it was renewed last.
    #[serde(flatten, with = "RenewedAt::<Option<Millis>>")]
    renewed_at: Option<Millis>,
    /// When it ends, while it is held.
    #[serde(flatten, with = "ExpiresAt::<Option<Millis>>")]
    expires_at: Option<Millis>,
    /// Progress of its latest attempt, as its worker reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    progress: Option<Progress>,
    /// The result of its worker.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "Option<JsonText>")]
    result: Option<Box<RawValue>>,
    /// Why it failed, is held or waits for a retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<Failure>,
    /// Why the broker will not deliver it again although it waits: SQS moves messages to a dead-letter queue by itself. Not in
    /// lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dead_letter: Option<String>,
    /// How its latest attempt ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    forensics: Option<Forensics>,
    /// Its history, oldest first: the latest 100 entries. Not in lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    history: Vec<EntryJson>,
}

impl From<JobRecord> for JobJson {
    fn from(job: JobRecord) -> JobJson {
        let progress = job.told_progress();
        let Carried { data, raw, exec } = Carried::shown(job.payload);
        JobJson {
            id: job.id,
            queue: job.queue,
            class: job.class,
            state: job.state,
            data,
            raw,
            exec,
            title: job.title,
            priority: job.priority,
            tags: job.tags,
            tracked: job.tracked,
            depends: job.needs,
            dependents: job.needed_by,
            attempt: job.attempt,
            retries: job.retry.map(|retry| retry.retries),
            retry_delay: job.retry.map(|retry| retry.delay),
            retry_cap: job.retry.map(|retry| retry.cap),
            time_limit: job.time_limit,
            crashes: job.crashes,
            interruptions: job.interrupted,
            unknown_class: job.unknown,
            put_at: job.put_at,
            put_by: job.put_by,
            recurring: job.recurring,
            due_at: job.due_at,
            begin_by: job.begin_by,
            started_at: job.started_at,
            ended_at: job.ended_at,
            instance: job.instance,
            holder: job.holder,
            worker: job.worker,
            fence: job.fence,
            renewals: job.renewals,
            renewed_at: job.renewed_at,
            expires_at: job.expires_at,
            progress,
            result: job.result.as_deref().and_then(json_text),
            failure: job.failure,
            dead_letter: job.dead_letter,
            forensics: job.forensics,
            history: job.history.into_iter().map(EntryJson::from).collect(),
        }
    }
}

impl From<JobJson> for JobRecord {
    fn from(job: JobJson) -> JobRecord {
        let retry = |retries| Retry {
            retries,
            delay: job.retry_delay.unwrap_or(Retry::CLASS.delay),
            cap: job.retry_cap.unwrap_or(Retry::CLASS.cap),
        };
        JobRecord {
            id: job.id,
            queue: job.queue,
            class: job.class,
            payload: Carried { data: job.data, raw: job.raw, exec: job.exec }.payload(),
            title: job.title,
            state: job.state,
            priority: job.priority,
            tags: job.tags,
            tracked: job.tracked,
            needs: job.depends,
            needed_by: job.dependents,
            attempt: job.attempt,
            retry: job.retries.map(retry),
            time_limit: job.time_limit,
            crashes: job.crashes,
            interrupted: job.interruptions,
            unknown: job.unknown_class,
            put_at: job.put_at,
            put_by: job.put_by,
            recurring: job.recurring,
            due_at: job.due_at,
            begin_by: job.begin_by,
            started_at: job.started_at,
            ended_at: job.ended_at,
            instance: job.instance,
            holder: job.holder,
            worker: job.worker,
            fence: job.fence,
            renewals: job.renewals,
            renewed_at: job.renewed_at,
            expires_at: job.expires_at,
            progress: job.progress,
            result: job.result.map(|json| json.get().to_owned()),
            failure: job.failure,
            dead_letter: job.dead_letter,
            forensics: job.forensics,
            history: job.history.into_iter().map(Into::into).collect(),
        }
    }
}
