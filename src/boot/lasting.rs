//! The pauses of pools that outlast a stop: a file in the state directory.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::spawn_blocking;
use tracing::{info, warn};

use config::Config;
use engine::{Authors, Kept};
use model::{Change, Pause};

/// The name of the file. It is not there while no pool is paused.
const FILE: &str = "pauses.json";

/// The pauses of pools, by name.
type Pauses<T = Pause> = BTreeMap<String, T>;

/// The pauses that an earlier start has left, of the pools that there are, and who ordered them.
pub(super) fn pauses(config: &Config) -> (Vec<(String, Change)>, Authors) {
    let path = config.state_dir.join(FILE);
    let mut kept = read(&path).unwrap_or_else(|error| {
        warn!(%error, "failed to read {}, which says which pools are paused: none is", path.display());
        Pauses::new()
    });
    kept.retain(|pool, pause| {
        let is_there = config.settings.pools.iter().any(|settings| settings.name == *pool);
        let (by, because) = (&pause.by, pause.because());
        match is_there {
            true => {
                info!(pool, by, "paused before the start, and still is{because}: taskvisor resume {pool}")
            }
            false => warn!(pool, by, "a pool of this name was paused, and is not there any more{because}"),
        }
        is_there
    });
    (kept.keys().map(|pool| (pool.clone(), Change::Pause)).collect(), Authors::of_pauses(kept))
}

/// For each paused pool the sentence with which a burst says why it does not run the pool's jobs.
pub(super) fn in_words(kept: &Pauses) -> Pauses<String> {
    let words = |(pool, pause): (&String, &Pause)| {
        let Pause { since, by, .. } = pause;
        let (since, because) = (since.rfc3339(), pause.because());
        let hint = format!("to end that: taskvisor start without --burst, then taskvisor resume {pool}");
        (pool.clone(), format!("pool {pool} is paused by {by} since {since}{because} ({hint})"))
    };
    kept.iter().map(words).collect()
}

fn read(path: &Path) -> io::Result<Pauses> {
    match fs::read(path) {
        Ok(text) => Ok(serde_json::from_slice(&text)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Pauses::new()),
        Err(error) => Err(error),
    }
}

/// Writes the file when the pauses have changed, in a thread of its own: a disk may be slow.
pub(super) struct Writer {
    path: PathBuf,
    /// The content of the file after the pending write; None = not known, after a failed read or write.
    wanted: Arc<Mutex<Option<Pauses>>>,
    /// Held during a write: writes happen in the order of the changes.
    writing: Arc<Mutex<()>>,
}

impl Writer {
    /// A writer of the file in this state directory.
    pub(super) fn new(state_dir: &Path) -> Writer {
        let path = state_dir.join(FILE);
        let wanted = Arc::new(Mutex::new(read(&path).ok()));
        Writer { path, wanted, writing: Arc::default() }
    }

    /// Writes these pauses. None = the file has them already. The error says what the next start will not know.
    pub(super) fn keep(&self, pauses: Pauses) -> Kept {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        if wanted.as_ref() == Some(&pauses) {
            return None;
        }
        *wanted = Some(pauses);
        let (path, wanted, writing) = (self.path.clone(), self.wanted.clone(), self.writing.clone());
        Some(spawn_blocking(move || {
            let _writing = writing.lock().unwrap_or_else(PoisonError::into_inner);
            let locked = || wanted.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(pauses) = locked().clone() else { return Ok(()) };
            write(&path, &pauses).map_err(|error| {
                // The next change tries again, also one to the same pauses.
                locked().take_if(|wanted| *wanted == pauses);
                let path = path.display();
                let why = format!(
                    "failed to write to {path} which pools are paused, so the next start does not know it: {error}"
                );
                warn!("{why}");
                why
            })
        }))
    }
}

fn write(path: &Path, pauses: &Pauses) -> io::Result<()> {
    let sync_names = || path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all());
    if pauses.is_empty() {
        return match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.and_then(|()| sync_names()),
        };
    }
    let fresh = path.with_extension("new");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(&serde_json::to_vec(pauses)?)?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    sync_names()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Millis;

    #[test]
    fn the_file_holds_the_pauses_and_is_gone_without_any() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let pause = Pause { since: Millis(5_000), by: "uid 7".into(), reason: Some("lunch".into()) };
        let pauses = Pauses::from([("a".into(), pause)]);
        write(&path, &pauses).unwrap();
        assert_eq!(read(&path).unwrap(), pauses);
        write(&path, &Pauses::new()).unwrap();
        assert!(!path.exists() && read(&path).unwrap().is_empty());
        fs::write(&path, "{").unwrap();
        assert!(read(&path).is_err());
    }

    #[tokio::test]
    async fn what_could_not_be_written_is_told_and_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        // A directory of the file's name: it cannot be read, written or removed.
        fs::create_dir(&path).unwrap();
        fs::write(path.join("x"), "").unwrap();
        let writer = Writer::new(dir.path());
        let pause = Pause { since: Millis(5_000), by: "uid 7".into(), reason: None };
        let pauses = Pauses::from([("a".into(), pause)]);
        for pauses in [&pauses, &pauses, &Pauses::new(), &Pauses::new()] {
            let told = writer.keep(pauses.clone()).expect("it is tried").await.unwrap().unwrap_err();
            assert!(told.contains("failed to write to ") && told.contains(FILE), "{told}");
        }
        fs::remove_dir_all(&path).unwrap();
        fs::write(&path, "{").unwrap();
        let writer = Writer::new(dir.path());
        writer.keep(Pauses::new()).expect("an unreadable file does not stay").await.unwrap().unwrap();
        assert!(!path.exists() && writer.keep(Pauses::new()).is_none());
    }
}
