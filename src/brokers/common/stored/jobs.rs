//! New jobs in stored form.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::form::{Stored, kept, maybe};
use model::{
    Bytes, Class, Cron, Exec, Exists, JobId, Millis, NewJob, Overlap, Pause, Payload, Progress, QueueName,
    Recurring, Retry, Schedule,
};

kept! {
    Exec as ExecRow;
    Pause as PauseRow;
    Progress as ProgressRow;
    Recurring as RecurringRow;
    Retry as RetryRow;
    Schedule as ScheduleRow;
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Payload", rename_all = "snake_case")]
enum PayloadRow {
    #[serde(with = "ExecRow")]
    Exec(Exec),
    Data(Bytes),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Exec")]
pub(super) struct ExecRow {
    argv: Vec<Bytes>,
    cwd: Bytes,
    umask: u32,
    #[serde(default, skip_serializing_if = "is_empty")]
    stdin: Bytes,
}

fn is_empty(bytes: &Bytes) -> bool {
    bytes.0.is_empty()
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Retry")]
pub(super) struct RetryRow {
    retries: u32,
    delay: Duration,
    cap: Duration,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Progress")]
pub(super) struct ProgressRow {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fraction: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Pause")]
pub(super) struct PauseRow {
    since: Millis,
    by: String,
    reason: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "NewJob", deny_unknown_fields)]
struct NewJobRow {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<JobId>,
    #[serde(default, skip_serializing_if = "is_usual")]
    exists: Exists,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    queue: QueueName,
    class: Class,
    #[serde(with = "PayloadRow")]
    payload: Payload,
    #[serde(default)]
    priority: i32,
    #[serde(default)]
    delay: Duration,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<Duration>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    depends: Vec<JobId>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default, with = "maybe")]
    retry: Option<Retry>,
    #[serde(default)]
    time_limit: Option<Duration>,
    // Not stored here: who has put it is named when it fires.
    #[serde(skip)]
    by: Option<String>,
}

fn is_usual(exists: &Exists) -> bool {
    *exists == Exists::default()
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Recurring", deny_unknown_fields)]
pub(super) struct RecurringRow {
    name: String,
    #[serde(with = "ScheduleRow")]
    schedule: Schedule,
    #[serde(default)]
    overlap: Overlap,
    #[serde(default)]
    catch_up: Duration,
    #[serde(default = "one")]
    backlog: u32,
    #[serde(with = "NewJobRow")]
    job: NewJob,
}

fn one() -> u32 {
    1
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Schedule", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum ScheduleRow {
    Every {
        interval: Duration,
        #[serde(default)]
        offset: Duration,
    },
    Cron {
        line: Cron,
        #[serde(default = "utc")]
        zone: String,
    },
}

fn utc() -> String {
    "UTC".into()
}
