//! The settings in force: what the file said when it was last read. A supervisor that is started again goes on by them,
//! whatever became of the file since; only a start and a reload read that.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::config::Config;

/// Set by `start`: where they are.
pub(super) const VARIABLE: &str = "TASKVISOR_SETTINGS_IN_FORCE";

/// Where they are kept.
pub(super) fn path(config: &Config) -> PathBuf {
    config.run_dir.join("settings.yaml")
}

/// Keeps them, whole or not at all.
pub(super) fn keep(path: &Path, text: &str) -> io::Result<()> {
    let fresh = path.with_extension("new");
    fs::write(&fresh, text)?;
    fs::rename(&fresh, path)
}
