//! The section `log` of the file.

use std::path::PathBuf;
use std::time::Duration;

use super::row::{Flag, Kind};
use super::section::settings;
use super::size::Size;
use model::{LogFormat, LogLevel, LogSettings, Rotate};

settings! {
    /// The section `log` of the file.
    #[serde(deny_unknown_fields)]
    pub struct LogSection("log.") => LogSettings {
        /// The format of the supervisor's log.
        format: LogFormat => (at format) {
            flags: &[
                Flag::new("log.format", "log-format", "FORMAT", Kind::Words(&["auto", "text", "json", "journald"]), "For people, for programs or for the journal [default: {}]"),
            ],
            docs: "[format](watching.md#read-the-logs) of the supervisor's own log: `text`, `json`, `journald`, or `auto`: `journald` where stderr is the journal's, else `text`",
            conf: "text, json, journald (entries with fields), or auto: journald where stderr is the journal's, else text (--log-format).",
        }
        /// The level of the supervisor's log.
        level: LogLevel => (at level) {
            flags: &[
                Flag::new("log.level", "log-level", "LEVEL", Kind::Words(&["error", "warn", "info", "debug", "trace"]), "How much [default: {}]").env("TASKVISOR_LOG"),
            ],
            docs: "`error`, `warn`, `info`, `debug` or `trace`",
            conf: "error, warn, info, debug or trace (--log-level)",
        }
        /// Limit of the output kept of one attempt.
        job_cap: Size => (at job_cap) {
            docs: "the most output kept of one attempt of a job",
            conf: "The most output kept of one attempt of a job.",
        }
        /// Limit of the output kept of all jobs.
        quota: Size => (at quota) {
            docs: "the most output kept of all jobs, in blocks of 4 KiB: above it that of ended jobs is removed, the oldest first, down to nine tenths",
            conf: "The most disk space for the output of all jobs. Above it that of ended jobs is removed, the oldest first.",
        }
        /// How long output is kept.
        keep: Duration => (at keep) {
            docs: "how long output is kept since it was written",
            conf: "How long output is kept since it was written.",
        }
        /// The directory for the supervisor's own log and for what slots print outside of jobs.
        dir: PathBuf => (at dir) {
            default_in_docs: "`null`: stderr",
            docs: "a directory for [log files](watching.md#read-the-logs)",
            conf: "Keep files in this directory: taskvisor.log, and slot-POOL.N.log with what a worker prints outside of jobs. null = both go to stderr.",
        }
        /// When to rotate the files in `dir`.
        rotate: RotateSection => (at rotate) {
            docs: "their size, and the number of older files: a slot takes 550 MiB at most",
            conf: "Rotate these files before they exceed this size, and keep this number of older ones.",
        }
    }
}

settings! {
    /// When to rotate a file.
    #[serde(deny_unknown_fields)]
    pub struct RotateSection("log.rotate.") => Rotate {
        /// Largest size of a file.
        size: Size => (at size) {}
        /// Number of older files to keep.
        keep: u32 => (at keep) {}
    }
}
