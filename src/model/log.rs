//! Settings of logs: which are kept, how and where.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::with_defaults;

with_defaults! {
    /// How the supervisor logs, and how much output of jobs it keeps.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct LogSettings {
        /// The format of the supervisor's log.
        pub format: LogFormat = LogFormat::default(),
        /// The level of the supervisor's log.
        pub level: LogLevel = LogLevel::default(),
        /// The directory for the supervisor's own log and for what slots print outside of jobs; None = both go to stderr.
        pub dir: Option<PathBuf> = None,
        /// When to begin a new file there, and how many older ones to keep.
        pub rotate: Rotate = Rotate::default(),
        /// Limit of the output kept of one attempt, in bytes.
        pub job_cap: u64 = 10 << 20,
        /// Limit of the output kept of all jobs, in bytes.
        pub quota: u64 = 1 << 30,
        /// How long the output of a job is kept after it was written.
        pub keep: Duration = Duration::from_secs(30 * 86_400),
    }
}

with_defaults! {
    /// When to begin a new log file, and how many older ones to keep.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Rotate {
        /// Limit of the bytes of a file: a new one begins before it has more.
        pub size: u64 = 50 << 20,
        /// Number of older files that are kept.
        pub keep: u32 = 10,
    }
}

/// The format of the supervisor's log.
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

/// The level of the supervisor's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// Only errors: what failed.
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
