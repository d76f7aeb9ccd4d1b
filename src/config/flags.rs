//! Flags and environment, before they are resolved.

use std::path::PathBuf;
use std::time::Duration;

use super::file::File;
use super::pool::Pool;
use super::purpose::Purpose;

/// Flags and environment variables; a flag wins over the environment, which wins over the file.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// Value of `--config`.
    pub config: Option<PathBuf>,
    /// The file to read the text from instead.
    pub in_force: Option<PathBuf>,
    /// Value of `--url`.
    pub url: Option<String>,
    /// Value of `--token-file`.
    pub token_file: Option<PathBuf>,
    /// Whether `--burst` is given.
    pub burst: bool,
    /// Value of `--end-after`.
    pub end_after: Option<u64>,
    /// Value of `--end-when-idle`.
    pub end_when_idle: Option<Duration>,
    /// Values of `--watch`.
    pub watch: Vec<PathBuf>,
    /// Settings of the supervisor that were typed, or are in the environment.
    pub whole: File,
    /// Settings of the only pool.
    pub pool: Pool,
    /// The purpose of reading the settings.
    pub purpose: Purpose,
}
