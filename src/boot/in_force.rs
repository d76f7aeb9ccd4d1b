//! What is in force: the settings as the file said when it was last read, and what people have asked of pools since. A
//! supervisor that is started again goes on by both, whatever became of the file; only a start and a reload read that.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tracing::warn;

use crate::config::Config;
use crate::engine::{KeepChanges, Pauses};
use crate::failure::Failure;
use crate::log::write_private;
use crate::model::Change;

/// Set by `start`: where the settings are.
pub const VARIABLE: &str = "TASKVISOR_SETTINGS_IN_FORCE";

/// Begins with those that were read, if there is a file of them, and no changes: where they are.
pub fn begin(config: &Config) -> Result<Option<PathBuf>, Failure> {
    let changes = changes_path(config);
    match fs::remove_file(&changes) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Failure::from(error).of(format!("failed to remove {}", changes.display())));
        }
        Ok(()) | Err(_) => {}
    }
    let Some(file) = &config.file else { return Ok(None) };
    let path = path(config);
    keep(&path, &file.text)
        .map_err(|error| Failure::from(error).of(format!("failed to write {}", path.display())))?;
    Ok(Some(path))
}

/// Where the settings are kept.
pub fn path(config: &Config) -> PathBuf {
    config.run_dir.join("settings.yaml")
}

/// Where the changes are.
fn changes_path(config: &Config) -> PathBuf {
    config.run_dir.join("changes.json")
}

/// Keeps either, whole or not at all, and for us alone: settings may hold secrets.
pub fn keep(path: &Path, text: &str) -> io::Result<()> {
    let fresh = path.with_extension("new");
    write_private(&fresh, text)?;
    fs::rename(&fresh, path)
}

/// The changes that an earlier supervisor of the same keeper has kept, and who paused what.
pub fn changes(config: &Config) -> (Vec<(String, Change)>, Pauses) {
    let read = match fs::read(changes_path(config)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Default::default(),
        read => read.and_then(|text| Ok(serde_json::from_slice(&text)?)),
    };
    read.unwrap_or_else(|error| {
        warn!(%error, "failed to read what was asked of pools: they go by their settings");
        Default::default()
    })
}

/// Keeps the changes and pauses of pools on disk for the next supervisor of the same keeper.
pub fn keep_changes(config: &Config) -> KeepChanges {
    let path = changes_path(config);
    Box::new(move |changes, pauses| {
        let text = serde_json::to_string(&(changes, pauses)).map_err(io::Error::from);
        if let Err(error) = text.and_then(|text| keep(&path, &text)) {
            warn!(%error, "failed to keep what was asked of pools: the next supervisor will not know of it");
        }
    })
}
