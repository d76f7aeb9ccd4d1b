//! The output of a job, as a supervisor hands it out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::format::{At, MaybeTime};
use super::{Bytes, Instance, JobState, Millis};

/// Which part of a job's output to read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutputQuery {
    /// Offset of the first byte. Output that has become shorter was emptied: it is read from its beginning.
    #[serde(default)]
    pub from: u64,
    /// Limit of the bytes after that offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Only this number of lines of those, the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<u32>,
    /// Whether the answer goes on until the job has ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follow: bool,
    /// Only what was printed to this stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<Stream>,
    /// Only the output of this attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Only what was printed at this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "MaybeTime")]
    pub since: Option<Millis>,
    /// Only what was printed before this time.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "MaybeTime")]
    pub until: Option<Millis>,
}

/// A stream of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// What it prints.
    Stdout,
    /// What it says of itself; also the `log` lines of a worker.
    Stderr,
}

/// A line of the answer: a part of the output, or, as the last one, its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OutputLine {
    /// A part of the output.
    Part(OutputPart),
    /// There is no more.
    End(OutputEnd),
}

/// A part of the output: of one stream and one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputPart {
    /// Offset of its first byte in the output.
    pub from: u64,
    /// When it was printed.
    #[serde(flatten, with = "At::<Millis>")]
    pub at: Millis,
    /// Printed in this attempt, if that was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Printed to this stream, if that was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<Stream>,
    /// What was printed.
    pub text: Bytes,
}

/// The end of the output, as far as there is one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputEnd {
    /// State of the job.
    pub state: JobState,
    /// Offset of what may come next.
    pub next: u64,
    /// The other supervisor that ran the latest attempt, where its output is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<Instance>,
    /// There is no output, and what was written before this time was removed.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "MaybeTime")]
    pub removed_until: Option<Millis>,
}
