//! The settings in force: those of the file when it was last read, and people's changes of pools since. A supervisor
//! that is started again goes on with both, whatever became of the file; only a start and a reload read the file.

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

/// Environment variable set by `start`: the path of the stored settings.
pub const VARIABLE: &str = "TASKVISOR_SETTINGS_IN_FORCE";

/// Stores the settings just read, if they came from a file, and removes earlier changes. Gives the path.
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

/// The path of the stored settings.
pub fn path(config: &Config) -> PathBuf {
    config.run_dir.join("settings.yaml")
}

/// The path of the stored changes.
fn changes_path(config: &Config) -> PathBuf {
    config.run_dir.join("changes.json")
}

/// Stores settings or changes atomically, readable for us alone: settings may hold secrets.
pub fn keep(path: &Path, text: &str) -> io::Result<()> {
    let fresh = path.with_extension("new");
    write_private(&fresh, text)?;
    fs::rename(&fresh, path)
}

/// The changes that an earlier supervisor of the same keeper has stored, and who paused which pool.
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

/// Whether a size rule has begun since a pool was scaled, while no supervisor ran: then the rule counts.
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
    fn manual_scale_holds_until_the_next_time_of_day_size() {
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
