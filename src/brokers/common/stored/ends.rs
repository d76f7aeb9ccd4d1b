//! How jobs ended, in stored form.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::form::{Stored, kept, list, maybe, maybe_boxed};
use model::{
    Caught, DeadWorker, EndedFor, Exit, ExitStatus, Failure, Forensics, Millis, Signal, SignalSent, Snapshot,
    Usage, WorkerName,
};

kept! {
    Failure as FailureRow;
    Forensics as ForensicsRow;
    Caught as CaughtRow;
    DeadWorker as DeadWorkerRow;
    Exit as ExitRow;
    SignalSent as SignalSentRow;
    Snapshot as SnapshotRow;
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Failure")]
pub(super) struct FailureRow {
    group: String,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Forensics")]
pub(super) struct ForensicsRow {
    worker: Option<WorkerName>,
    ran: Duration,
    #[serde(default, with = "maybe")]
    exit: Option<Exit>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    shared: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cpu: Option<Duration>,
    #[serde(default, with = "list")]
    signals: Vec<SignalSent>,
    #[serde(skip)]
    ended_for: Option<EndedFor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    oom_kills: Option<u64>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    stderr_tail: String,
    #[serde(default)]
    output_dropped: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "maybe_boxed")]
    snapshot: Option<Box<Snapshot>>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "maybe_boxed")]
    died_before: Option<Box<DeadWorker>>,
    #[serde(default)]
    at: Option<Millis>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Exit")]
struct ExitRow {
    #[serde(with = "ExitStatusRow")]
    status: ExitStatus,
    #[serde(with = "UsageRow")]
    usage: Usage,
    left_behind: u32,
    oom: bool,
    #[serde(default)]
    oom_at_bound: bool,
    proof: Duration,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ExitStatus", rename_all = "snake_case")]
enum ExitStatusRow {
    Code(i32),
    Signal { signal: i32, core: bool },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Usage")]
struct UsageRow {
    user: Duration,
    system: Duration,
    max_rss: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "SignalSent")]
struct SignalSentRow {
    after: Duration,
    signal: Signal,
    why: String,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "DeadWorker")]
struct DeadWorkerRow {
    worker: WorkerName,
    ran: Duration,
    how: String,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Snapshot")]
struct SnapshotRow {
    #[serde(with = "list")]
    processes: Vec<Caught>,
    #[serde(default)]
    left_out: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Caught")]
struct CaughtRow {
    depth: u32,
    pid: i32,
    name: String,
    state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wchan: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    syscall: Option<u32>,
    rss: u64,
    cpu: Duration,
    threads: u64,
    #[serde(default)]
    files: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    open: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stacks: Option<String>,
}
