//! The messages between supervisor and worker: each frame is one line of JSON, as `docs/worker-protocol.md` describes.
//!
//! Both directions are here, for both sides: the supervisor reads [`Said`] and writes [`ToWorker`]; the worker the other way
//! round. A frame is an object with one key, so that it can be read in one pass and a job's data is never re-encoded.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use crate::bad_line::BadLine;
pub use crate::raw::Raw;

/// The version of the protocol.
pub const PROTOCOL: u32 = 1;

/// The longest frame, its newline included.
pub const FRAME_MAX: usize = 16 << 20;

/// The descriptor of the channel in a worker.
pub const CHANNEL: i32 = 3;

/// The descriptor for fork requests to a template.
pub const FORKS: i32 = 4;

/// Worker to supervisor.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said<'a> {
    /// The first frame.
    #[serde(borrow)]
    Hello(Hello<'a>),
    /// The worker takes jobs from now on.
    Ready(Empty),
    /// A job has ended.
    #[serde(borrow)]
    Done(Done<'a>),
    /// How far a job has come.
    #[serde(borrow)]
    Progress(Progress<'a>),
    /// A line for a job's log.
    #[serde(borrow)]
    Log(Log<'a>),
    /// The answer to `ping`.
    Pong(Empty),
    /// A fault of the application that costs no job by itself, for people.
    #[serde(borrow)]
    Warning(Warning<'a>),
    /// What a template has imported for all jobs to come.
    #[serde(borrow)]
    Preloaded(Preloaded<'a>),
    /// The worker is to be replaced, and may end by itself.
    #[serde(borrow)]
    Leaving(Leaving<'a>),
    /// The worker makes a call; answered by `reply`.
    #[serde(borrow)]
    Call(Call<'a>),
}

/// Supervisor to worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToWorker<'a> {
    /// Run a job.
    #[serde(borrow)]
    Run(Run<'a>),
    /// End a job.
    #[serde(borrow)]
    Cancel(Cancel<'a>),
    /// Answer with a `pong`.
    Ping(Empty),
    /// No more jobs come.
    Shutdown(Empty),
    /// The answer to `call`.
    #[serde(borrow)]
    Reply(Reply<'a>),
}

/// A frame without fields.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Empty {}

/// A worker's first frame: its protocol version and its classes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hello<'a> {
    /// The version that it speaks.
    pub protocol: u32,
    /// The library with which it is made, for people.
    #[serde(borrow, default)]
    pub sdk: Cow<'a, str>,
    /// The classes that it can run; None = any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<BTreeMap<String, Class>>,
    /// Whether it can fork job children.
    #[serde(default)]
    pub template: bool,
}

/// The settings of a class; times in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Class {
    /// Time limit of an attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<f64>,
    /// After this time the worker tells the job that its time is nearly over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_time_limit: Option<f64>,
    /// Bytes of memory of its process tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<u64>,
    /// CPU time of its process tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_limit: Option<f64>,
    /// Processes of its tree at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_limit: Option<u64>,
    /// Limit of the bytes that the attempt prints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_limit: Option<u64>,
    /// Tries after the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// Wait before the first retry, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_delay: Option<f64>,
    /// Limit of the wait before a retry, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_cap: Option<f64>,
}

/// The end of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done<'a> {
    /// The job's id.
    #[serde(borrow)]
    pub job: Cow<'a, str>,
    /// The same as in `run`.
    pub fence: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// The result, passed on unchanged.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub result: Option<&'a RawValue>,
    /// Why it did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// Seconds until the next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<f64>,
    /// Where it goes on, if it is complete only in its queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Next>,
    /// What it has left running in the worker, in words: threads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
    /// Seconds of CPU time that the job used, if the worker runs one at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
}

/// Where a job goes on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Next {
    /// The queue in which it goes on.
    pub queue: String,
    /// Shortest time until then, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<f64>,
    /// Not before these jobs are complete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends: Vec<String>,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The job is done.
    Complete,
    /// It is tried again while tries remain.
    Failed,
    /// Not tried again.
    FailedForGood,
    /// It is tried again after a time; the attempt is spent.
    Retry,
    /// Not done yet: back after a time; the attempt is not spent.
    Snooze,
    /// The worker has no code for it.
    UnknownClass,
    /// It was asked to end, and has.
    Canceled,
}

/// Why a job did not complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// A short name to count by.
    pub group: String,
    /// One line for people.
    #[serde(default)]
    pub message: String,
    /// A backtrace, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

/// How far a job has come.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Progress<'a> {
    /// The job's id.
    #[serde(borrow)]
    pub job: Cow<'a, str>,
    /// A fraction from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fraction: Option<f64>,
    /// A line for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A line for a job's log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Log<'a> {
    /// Id of the job.
    #[serde(borrow)]
    pub job: Cow<'a, str>,
    /// The text without a newline at its end.
    #[serde(borrow)]
    pub text: Cow<'a, str>,
}

/// A fault of the application, in words.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Warning<'a> {
    /// The fault and what to do; it may have several lines.
    #[serde(borrow)]
    pub text: Cow<'a, str>,
}

/// The modules that a template has imported because its jobs needed them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Preloaded<'a> {
    /// Their names, all of them, in the order of their imports.
    #[serde(borrow)]
    pub modules: Vec<Cow<'a, str>>,
}

/// The wish of a worker to be replaced.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Leaving<'a> {
    /// The reason, for people.
    #[serde(borrow, default)]
    pub why: Cow<'a, str>,
}

/// A request of the worker: a verb with its arguments.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Call<'a> {
    /// Number of the call; the answer has the same.
    pub n: u64,
    /// The verb that is called.
    #[serde(borrow)]
    pub verb: Cow<'a, str>,
    /// Its arguments, as JSON.
    #[serde(borrow)]
    pub args: &'a RawValue,
}

/// A job to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run<'a> {
    /// The job to run.
    #[serde(borrow)]
    pub job: Job<'a>,
}

/// A job as its worker sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job<'a> {
    /// The job's id.
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    /// The proof of the lease: `done` sends it back.
    pub fence: u64,
    /// The job's class.
    #[serde(borrow)]
    pub class: Cow<'a, str>,
    /// The queue in which it waited.
    #[serde(borrow)]
    pub queue: Cow<'a, str>,
    /// Its data, exactly as it was put.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub data: Option<&'a RawValue>,
    /// Its data, if that is not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Raw>,
    /// Number of this attempt, from 1.
    pub attempt: u32,
    /// Retries after the first attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// Higher runs first.
    pub priority: i32,
    /// Tags of the job: free words.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Time limit in seconds, counted from this frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<f64>,
    /// Seconds from this frame, after which the worker tells the job that its time is nearly over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_time_limit: Option<f64>,
    /// Seconds from SIGTERM or `cancel` until the job is killed, at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<f64>,
    /// A directory to work in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// A job to end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cancel<'a> {
    /// Id of the job.
    #[serde(borrow)]
    pub job: Cow<'a, str>,
    /// The reason, for people.
    #[serde(borrow)]
    pub why: Cow<'a, str>,
}

/// The answer to a call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reply<'a> {
    /// Number of the call.
    pub n: u64,
    /// The result of the call.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub ok: Option<&'a RawValue>,
    /// Why the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Reads one line, without its newline.
///
/// ```
/// use taskvisor_worker::protocol::{Said, decode};
/// let frame: Said = decode(br#"{"done":{"job":"j1","fence":1,"outcome":"complete","result":{"n": 1.0}}}"#).unwrap();
/// let Said::Done(done) = frame else { panic!() };
/// assert_eq!(done.result.unwrap().get(), r#"{"n": 1.0}"#);
/// assert_eq!(decode::<Said>(br#"{"dome":{}}"#).unwrap_err().to_string(), "unknown frame 'dome'");
/// ```
pub fn decode<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, BadLine> {
    serde_json::from_slice(line).map_err(|why| {
        // A long line may have a million names.
        let short = Some(line).filter(|line| line.len() <= 1 << 16);
        let named = short
            .and_then(|line| serde_json::from_slice::<BTreeMap<String, serde::de::IgnoredAny>>(line).ok());
        match named.and_then(|named| named.into_keys().next()) {
            Some(name) if !KNOWN.contains(&name.as_str()) => {
                BadLine::Unknown(name.chars().take(40).collect())
            }
            _ => {
                let line = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
                BadLine::Torn { why, line }
            }
        }
    })
}

/// The frame that answers a `call`, with its newline. `answer` is JSON on one line, or the reason why there is none. If
/// it were longer than a frame may be, the frame says that instead.
pub fn reply(n: u64, answer: Result<String, String>) -> Vec<u8> {
    const AROUND: usize = 64;
    // Longest reason, in characters.
    const LONGEST_WHY: usize = 2000;
    let why = match answer {
        Ok(json) if json.len() + AROUND <= FRAME_MAX => {
            return format!("{{\"reply\":{{\"n\":{n},\"ok\":{json}}}}}\n").into_bytes();
        }
        Ok(json) => format!("the answer has {} bytes, and a frame has {FRAME_MAX} at most", json.len()),
        Err(why) => why.chars().take(LONGEST_WHY).collect(),
    };
    let mut frame = Vec::new();
    encode(&ToWorker::Reply(Reply { n, ok: None, error: Some(why) }), &mut frame);
    frame
}

const KNOWN: [&str; 12] = [
    "hello", "ready", "done", "progress", "log", "pong", "call", "run", "cancel", "ping", "shutdown", "reply",
];

/// Appends a frame with its newline.
pub fn encode<T: Serialize>(frame: &T, out: &mut Vec<u8>) {
    // Keys are text and no field can fail: an error here would be a mistake of ours.
    serde_json::to_writer(&mut *out, frame).unwrap_or_default();
    out.push(b'\n');
}
