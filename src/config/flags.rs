//! Flags and environment, before they are resolved.

use std::path::PathBuf;
use std::time::Duration;

use super::pool::Pool;
use super::purpose::Purpose;
use super::wq::WqSection;
use model::{LogFormat, LogLevel};

/// Flags and environment variables; a flag wins over the environment, which wins over the file.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// Value of `--config`.
    pub config: Option<PathBuf>,
    /// The file to read the text from instead.
    pub in_force: Option<PathBuf>,
    /// Value of `--state-dir`.
    pub state_dir: Option<PathBuf>,
    /// Value of `--run-dir`.
    pub run_dir: Option<PathBuf>,
    /// Value of `--broker`.
    pub broker: Option<String>,
    /// Value of `--url`.
    pub url: Option<String>,
    /// Value of `--token-file`.
    pub token_file: Option<PathBuf>,
    /// Value of `--lease`.
    pub lease: Option<Duration>,
    /// Value of `--stop-deadline`.
    pub stop_deadline: Option<Duration>,
    /// Value of `--log-format`.
    pub log_format: Option<LogFormat>,
    /// Value of `--log-level`.
    pub log_level: Option<LogLevel>,
    /// Whether `--burst` is given.
    pub burst: bool,
    /// Values of `--wq`.
    pub wq: WqSection,
    /// Value of `--end-after`.
    pub end_after: Option<u64>,
    /// Value of `--end-when-idle`.
    pub end_when_idle: Option<Duration>,
    /// Values of `--watch`.
    pub watch: Vec<PathBuf>,
    /// Settings of the only pool.
    pub pool: Pool,
    /// The purpose of reading the settings.
    pub purpose: Purpose,
}
