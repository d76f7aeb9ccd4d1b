//! What is in force: the settings as the file said when it was last read, and what people have asked of pools since. A
//! supervisor that is started again goes on by both, whatever became of the file; only a start and a reload read that.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use tracing::warn;

use crate::clock;
use crate::config::Config;
use crate::engine::{KeepChanges, Pauses};
use crate::failure::Failure;
use crate::log::write_private;
use crate::model::{Change, Millis, PoolSettings, SizeRule};

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
    let (mut changes, pauses): (Vec<(String, Change)>, Pauses) = read.unwrap_or_else(|error| {
        warn!(%error, "failed to read the changes that people made to pools: the pools start with their settings");
        Default::default()
    });
    let kept = fs::metadata(changes_path(config)).and_then(|found| found.modified()).ok();
    let kept = kept.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let kept = Millis(kept.and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or(i64::MAX));
    changes.retain(|(pool, change)| !is_over(&config.settings.pools, pool, *change, (kept, clock::wall())));
    (changes, pauses)
}

/// Whether a size by the time of day has come since a pool was scaled, while no supervisor ran: the size counts then.
fn is_over(pools: &[PoolSettings], pool: &str, change: Change, (kept, now): (Millis, Millis)) -> bool {
    let rules = pools.iter().find(|settings| settings.name == pool).map(|settings| &settings.sizes[..]);
    let come = rules.and_then(|rules| SizeRule::in_force(rules, now));
    matches!(change, Change::Scale(_)) && come.is_some_and(|(since, _)| since > kept)
}

/// Keeps the changes and pauses of pools on disk for the next supervisor of the same keeper.
pub fn keep_changes(config: &Config) -> KeepChanges {
    let path = changes_path(config);
    Box::new(move |changes, pauses| {
        let text = serde_json::to_string(&(changes, pauses)).map_err(io::Error::from);
        if let Err(error) = text.and_then(|text| keep(&path, &text)) {
            warn!(%error, "failed to save the changes that people made to pools: they end with this supervisor");
        }
    })
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::model::Scale;

    #[test]
    fn a_scale_counts_until_the_next_size_of_the_day_comes() {
        let rule = SizeRule { at: "0 8 * * *".parse().unwrap(), zone: TimeZone::UTC, workers: 16 };
        let pools = [PoolSettings { name: "p".into(), sizes: vec![rule], ..PoolSettings::default() }];
        let hour = |hour: i64| Millis((24 + hour) * 3_600_000);
        let is_over = |pool, change, kept, now| is_over(&pools, pool, change, (hour(kept), hour(now)));
        let scale = Change::Scale(Scale::To(3));
        assert!(!is_over("p", scale, 6, 7), "8 o'clock is to come");
        assert!(is_over("p", scale, 7, 9), "it came while nobody was there");
        assert!(!is_over("p", scale, 9, 10), "the scale is younger");
        assert!(!is_over("p", Change::Pause, 7, 9), "a pause lasts");
        assert!(!is_over("other", scale, 7, 9), "it has no sizes");
    }
}
