//! What is kept of logs, how and where.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How the supervisor logs, and what is kept of the output of jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// For people or for programs.
    pub format: LogFormat,
    /// How much is logged.
    pub level: LogLevel,
    /// Where the supervisor's own log and what slots print outside of jobs are kept; None = both go to stderr.
    pub dir: Option<PathBuf>,
    /// When a new file is begun there, and how many older ones are kept.
    pub rotate: Rotate,
    /// The most output kept of one attempt, in bytes.
    pub job_cap: u64,
    /// The most output kept of all jobs, in bytes.
    pub quota: u64,
    /// How long the output of a job is kept after it was written.
    pub keep: Duration,
}

/// When a new log file is begun, and how many older ones are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotate {
    /// The most bytes of a file: a new one is begun before it has more.
    pub size: u64,
    /// Number of older files that are kept.
    pub keep: u32,
}

impl Default for LogSettings {
    fn default() -> Self {
        LogSettings {
            format: LogFormat::default(),
            level: LogLevel::default(),
            dir: None,
            rotate: Rotate { size: 50 << 20, keep: 10 },
            job_cap: 10 << 20,
            quota: 1 << 30,
            keep: Duration::from_secs(30 * 86_400),
        }
    }
}

/// For people or for programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Journald where stderr is the journal's, else text.
    #[default]
    Auto,
    /// A line of words.
    Text,
    /// A line of JSON.
    Json,
    /// An entry with fields in systemd's journal.
    Journald,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// Only what failed.
    Error,
    /// Warnings, too: what may fail.
    Warn,
    /// Events, too: what happened.
    #[default]
    Info,
    /// Details, too: why it happened.
    Debug,
    /// Everything there is to log.
    Trace,
}
