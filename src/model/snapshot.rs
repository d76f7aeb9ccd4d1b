//! A snapshot of a worker's processes at one moment.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::format::{At, Seconds};
use super::{JobId, Millis, WorkerName};

/// A worker's processes as /proc showed them just before they were ended for a limit. Neither their arguments, nor their
/// environment, nor their memory: no secret gets here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// The leader first, each process before its children.
    pub processes: Vec<Caught>,
    /// Number of processes beyond those that were kept.
    #[serde(default)]
    pub left_out: u32,
}

/// What the processes of a running job do now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Picture {
    /// Id of the job.
    pub job: JobId,
    /// The worker in which it runs.
    pub worker: WorkerName,
    /// How many other jobs run in that worker: what they do is in the picture, too.
    pub others: u64,
    /// When it was taken.
    #[serde(flatten, with = "At::<Millis>")]
    pub at: Millis,
    /// Users as whom its processes run and the supervisor does not: of these it may not know all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strangers: Vec<u32>,
    /// The processes of it.
    #[serde(flatten)]
    pub seen: Snapshot,
}

/// One process in a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SnapshotProcess")]
pub struct Caught {
    /// How far below the leader: 0 is the leader itself.
    pub depth: u32,
    /// The pid of the process, for people.
    pub pid: i32,
    /// The process's name.
    pub name: String,
    /// One letter: R, S, D, T, Z.
    pub state: String,
    /// Where in the kernel it waits, if it waits and that may be known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wchan: Option<String>,
    /// The number of the system call it is in, if it is in one and that may be known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub syscall: Option<u32>,
    /// Resident set in bytes.
    pub rss: u64,
    /// CPU time used so far.
    #[serde(with = "Seconds")]
    pub cpu: Duration,
    /// Number of its threads.
    pub threads: u64,
    /// How many files it has open; None = that may not be known.
    #[serde(default)]
    pub files: Option<u64>,
    /// The names of the first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<String>,
    /// The stacks of its threads, if it tells them when asked: files, lines and functions, but no values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stacks: Option<String>,
}
