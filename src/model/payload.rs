//! The payload of a job, and its retries.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::format::Octal;
use super::{Bytes, Class};

/// The payload of a job for its worker.
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
    /// Working directory of the program: an absolute path.
    pub cwd: Bytes,
    /// File mode creation mask.
    #[serde(with = "Octal")]
    pub umask: u32,
    /// Standard input; empty = end of file at once.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub stdin: Bytes,
}

impl Payload {
    /// The bytes of its words or its data.
    pub fn bytes(&self) -> usize {
        match self {
            Payload::Exec(exec) => {
                exec.argv.iter().map(|word| word.0.len()).sum::<usize>() + exec.stdin.0.len()
            }
            Payload::Data(data) => data.0.len(),
        }
    }

    /// Limit of the bytes of a stored payload that lists read.
    pub const SHOWN: usize = 4096;

    /// A short line for people: the command, or the class and the beginning of its data.
    pub fn title(&self, class: &Class) -> String {
        const LONGEST: usize = 80;
        let title = match self {
            Payload::Exec(exec) => {
                let words: Vec<_> = exec.argv.iter().map(|word| word.to_text()).collect();
                words.join(" ")
            }
            // Null is what a job has without data, so it says nothing.
            Payload::Data(data) if data.0 == b"null" => class.to_string(),
            Payload::Data(data) => format!("{class} {}", data.to_text()),
        };
        title.chars().take(LONGEST).collect()
    }

    /// Why no store could take it, in words; `None` if it is fine.
    pub fn fault(&self) -> Option<String> {
        const UMASK_MAX: u32 = 0o777;
        let Payload::Exec(Exec { argv, cwd, umask, .. }) = self else { return None };
        if argv.first().is_none_or(|program| program.0.is_empty()) {
            return Some("the command is empty: its first word is the program to run".into());
        }
        if argv.iter().chain([cwd]).any(|text| text.0.contains(&0)) {
            return Some("argv or cwd holds a zero byte, which no program can be given".into());
        }
        if !cwd.0.is_empty() && !cwd.0.starts_with(b"/") {
            let cwd = cwd.to_text();
            return Some(format!(
                "cwd '{cwd}' is relative: give the whole path, as the program does not start where it was put"
            ));
        }
        (*umask > UMASK_MAX).then(|| {
            format!("{umask} is no umask: it is a number from 0 to {UMASK_MAX}, octal {UMASK_MAX:o}")
        })
    }
}

fn is_empty(bytes: &Bytes) -> bool {
    bytes.0.is_empty()
}

/// The retry policy: what happens when an attempt fails.
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
