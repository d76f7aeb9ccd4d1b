//! The pauses of pools that outlast a stop: a file in the state directory.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::mem;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tracing::{info, warn};

use broker::Complaints;
use config::Config;
use engine::{Authors, Kept};
use model::{Change, Pause};

/// The name of the file. It is not there while no pool is paused.
const FILE: &str = "pauses.json";

/// Pause between two tries to write it.
const AGAIN: Duration = Duration::from_secs(5);

/// What fails, in complaints.
const UNREAD: &str = "it is not known which pools were paused before the start";
const UNKEPT: &str = "the next start does not know which pools are paused";

/// The pauses of pools, by name.
type Pauses<T = Pause> = BTreeMap<String, T>;

/// The pauses that an earlier start has left, of the pools that there are, and who ordered them.
pub(super) fn pauses(config: &Config, complaints: &Complaints) -> (Vec<(String, Change)>, Authors) {
    let path = config.state_dir.join(FILE);
    let mut kept = read(&path).unwrap_or_else(|error| {
        let why = format!("failed to read {}: {error}", path.display());
        complaints.stands(UNREAD, &why, clock::now());
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

/// Writes the file when the pauses have changed, in a thread of its own: a disk may be slow. All copies are one.
#[derive(Clone)]
pub(super) struct Writer {
    path: PathBuf,
    wanted: Arc<Mutex<Wanted>>,
    /// Held during a write: writes happen in the order of the changes.
    writing: Arc<Mutex<()>>,
    complaints: Complaints,
}

/// What the file is to hold.
struct Wanted {
    pauses: Pauses,
    /// Whether the file holds it after the pending write, as far as is known.
    is_kept: bool,
    /// Whether somebody tries again: one is enough, however often it fails meanwhile.
    is_retried: bool,
}

impl Writer {
    /// A writer of the file in this state directory. What it cannot write is a complaint, and tried again.
    pub(super) fn new(state_dir: &Path, complaints: Complaints) -> Writer {
        let path = state_dir.join(FILE);
        let found = read(&path);
        let wanted = Wanted { is_kept: found.is_ok(), is_retried: false, pauses: found.unwrap_or_default() };
        Writer { path, wanted: Arc::new(Mutex::new(wanted)), writing: Arc::default(), complaints }
    }

    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes these pauses. None = the file has them already. The error says what the next start will not know.
    pub(super) fn keep(&self, pauses: Pauses) -> Kept {
        let mut wanted = self.wanted();
        if wanted.is_kept && wanted.pauses == pauses {
            return None;
        }
        (wanted.pauses, wanted.is_kept) = (pauses, true);
        let (writer, runtime) = (self.clone(), Handle::current());
        Some(spawn_blocking(move || {
            let written = writer.write();
            if written.is_err() && !mem::replace(&mut writer.wanted().is_retried, true) {
                runtime.spawn(writer.write_later());
            }
            written
        }))
    }

    /// Writes what is wanted by now.
    fn write(&self) -> Result<(), String> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let pauses = self.wanted().pauses.clone();
        let written = write(&self.path, &pauses);
        let mut wanted = self.wanted();
        // Others may be wanted meanwhile, and their write is under way.
        if wanted.pauses == pauses {
            wanted.is_kept = written.is_ok();
        }
        drop(wanted);
        let Err(error) = written else {
            [UNKEPT, UNREAD].iter().for_each(|what| self.complaints.well(what, clock::now()));
            return Ok(());
        };
        let why = format!("failed to write to {}: {error}", self.path.display());
        self.complaints.wrong(UNKEPT, &why, clock::now());
        Err(format!("{UNKEPT}: {why}"))
    }

    /// Tries again until the file holds what is wanted.
    async fn write_later(self) {
        while self.is_to_be_retried() {
            tokio::time::sleep(AGAIN).await;
            let writer = self.clone();
            // What fails is a complaint.
            drop(spawn_blocking(move || writer.write()).await);
        }
    }

    /// If not, the next failure begins to try again: both are one step, so that none is missed.
    fn is_to_be_retried(&self) -> bool {
        let mut wanted = self.wanted();
        wanted.is_retried = !wanted.is_kept;
        wanted.is_retried
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
    // Before the rename: after a loss of power the name must not lead to an empty file.
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

    #[tokio::test(start_paused = true)]
    async fn what_could_not_be_written_is_told_and_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        // A directory of the file's name: it cannot be read, written or removed.
        fs::create_dir(&path).unwrap();
        fs::write(path.join("x"), "").unwrap();
        let complaints = Complaints::default();
        let writer = Writer::new(dir.path(), complaints.clone());
        let pause = Pause { since: Millis(5_000), by: "uid 7".into(), reason: None };
        let pauses = Pauses::from([("a".into(), pause)]);
        for pauses in [&Pauses::new(), &pauses, &pauses] {
            let told = writer.keep(pauses.clone()).expect("it is tried").await.unwrap().unwrap_err();
            assert!(told.contains("failed to write to ") && told.contains(FILE), "{told}");
        }
        assert!(complaints.latest(UNKEPT).is_some());
        assert_eq!(Handle::current().metrics().num_alive_tasks(), 1, "one of them tries again");
        fs::remove_dir_all(&path).unwrap();
        // Nobody asks for it again.
        while complaints.latest(UNKEPT).is_some() {
            tokio::time::sleep(AGAIN).await;
        }
        assert_eq!(read(&path).unwrap(), pauses);
        assert!(writer.keep(pauses).is_none(), "the file has them");
        fs::write(&path, "{").unwrap();
        let writer = Writer::new(dir.path(), complaints);
        writer.keep(Pauses::new()).expect("an unreadable file does not stay").await.unwrap().unwrap();
        assert!(!path.exists() && writer.keep(Pauses::new()).is_none());
    }
}
