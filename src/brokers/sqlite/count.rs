//! What the store has acknowledged, counted in a file beside it (`-count`). A store that holds less has lost what was
//! promised: its WAL was cut or removed, its disk lied, or an older copy was put in its place. That is written as a sentence
//! into another file (`-loss`), which stays until a person removes it.
//!
//! The count is written after the sync of the commits that it covers, and never lowered, so it is never too high: a kill
//! at any moment raises no false alarm. It may be too low after a power failure, or when two processes write it at once.
//! It belongs to one file, by inode and birth time: a copy or a backup in another file starts with a new count.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::ops::AddAssign;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use flate2::Crc;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::lost::{COUNT, LOSS, beside};
use broker::Complaints;
use model::{JobId, Millis};

/// Size of the file in bytes. It is replaced as a whole, within one sector.
const SIZE: usize = 512;

/// How much a store has ever taken. Neither number ever falls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Count {
    /// Jobs that were put.
    pub(super) puts: i64,
    /// Commits that changed jobs, once for each queue.
    pub(super) changes: i64,
}

impl AddAssign for Count {
    fn add_assign(&mut self, more: Count) {
        self.puts += more.puts;
        self.changes += more.changes;
    }
}

/// The count in the store.
pub(super) fn on_file(conn: &Connection) -> Result<Count, rusqlite::Error> {
    let sum = |name: &str| {
        format!("(SELECT coalesce(sum({name}), 0) FROM queue) + (SELECT coalesce(sum({name}), 0) FROM boot)")
    };
    let (puts, changes) = (sum("puts"), sum("changes"));
    conn.prepare_cached(&format!("SELECT {puts}, {changes}"))?
        .query_row([], |row| Ok(Count { puts: row.get(0)?, changes: row.get(1)? }))
}

/// What a commit has reached.
#[derive(Clone, Debug, Default)]
pub(super) struct Reached {
    pub(super) count: Count,
    /// The job that this process has put last, and when, in store time.
    pub(super) latest: Option<(JobId, i64)>,
}

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    of: Identity,
    count: Count,
    latest: Option<(JobId, i64)>,
}

/// Which file is counted: its inode, and its birth in nanoseconds, if the file system knows it. An inode may be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Identity(u64, u64);

/// What fails, in complaints.
const UNKEPT: &str = "what the store loses is not noticed";

/// The file beside an open store. Without it the store works, and may lose jobs unnoticed: that is a complaint.
pub(super) struct CountFile {
    path: PathBuf,
    file: Option<File>,
    of: Identity,
    complaints: Complaints,
    /// Whether the last try to open or write it worked.
    is_kept: bool,
}

impl CountFile {
    /// Opens the file of the store in `path`, which exists. What fails is tried again with each commit.
    pub(super) fn open(path: &Path, complaints: Complaints) -> CountFile {
        let store = fs::metadata(path).ok();
        let born = store.as_ref().and_then(|store| store.created().ok());
        let born = born.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let inode = store.map_or(0, |store| store.ino());
        let of = Identity(inode, born.map_or(0, |since| since.as_nanos() as u64));
        let path = beside(path, COUNT);
        let mut counted = CountFile { path, file: None, of, complaints, is_kept: true };
        let opened = counted.file().map(drop);
        counted.tried(&opened);
        counted
    }

    /// Takes in how a try has ended.
    fn tried(&mut self, tried: &io::Result<()>) {
        match tried {
            Err(error) => {
                let why = format!("cannot keep {}: {error}", self.path.display());
                self.complaints.stands(UNKEPT, &why, clock::now());
            }
            Ok(()) if !self.is_kept => self.complaints.well(UNKEPT, clock::now()),
            Ok(()) => {}
        }
        self.is_kept = tried.is_ok();
    }

    fn file(&mut self) -> io::Result<&File> {
        match self.file {
            Some(ref file) => Ok(file),
            None => {
                let mut how = OpenOptions::new();
                how.read(true).write(true).create(true).truncate(false).mode(0o600);
                Ok(self.file.insert(how.open(&self.path)?))
            }
        }
    }

    /// The count of this store, if the file has one. Read it before the store, which another process may be extending.
    fn read(&self) -> Option<Record> {
        let mut bytes = [0; SIZE];
        self.file.as_ref()?.read_exact_at(&mut bytes, 0).ok()?;
        Record::parse(&bytes).filter(|record| record.of == self.of)
    }

    /// Raises the count to what is durable now. If that fails, the old count stays, and the health says so.
    pub(super) fn raise(&mut self, to: &Reached) {
        let old = self.read();
        // Another process has written more: the count never falls.
        if old.as_ref().is_some_and(|old| old.count.changes >= to.count.changes) {
            return;
        }
        // This process may have put no job.
        let latest = to.latest.clone().or_else(|| old.and_then(|old| old.latest));
        self.write(Record { of: self.of, count: to.count, latest });
    }

    fn write(&mut self, record: Record) {
        let written = self.file().and_then(|file| file.write_all_at(&record.bytes(), 0));
        self.tried(&written);
    }
}

impl Record {
    /// Checksum and JSON. The checksum rejects a record that another process has written only in part.
    fn bytes(mut self) -> [u8; SIZE] {
        let mut bytes = [b' '; SIZE];
        let mut text = serde_json::to_string(&self).unwrap_or_default();
        // An id may be long.
        if text.len() > SIZE - 10 {
            self.latest = None;
            text = serde_json::to_string(&self).unwrap_or_default();
        }
        let text = format!("{:08x} {text}\n", sum(text.as_bytes()));
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Record> {
        let (check, text) = std::str::from_utf8(bytes).ok()?.trim_end().split_once(' ')?;
        let is_whole = u32::from_str_radix(check, 16).is_ok_and(|check| check == sum(text.as_bytes()));
        if is_whole { serde_json::from_str(text).ok() } else { None }
    }
}

fn sum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// The file beside a store that says what it has lost (`-loss`).
pub(super) struct Losses {
    file: PathBuf,
    store: String,
}

impl Losses {
    /// Of the store in `path`.
    pub(super) fn of(path: &Path) -> Losses {
        Losses { file: beside(path, LOSS), store: path.display().to_string() }
    }

    /// The latest loss, as a sentence; None if the file does not exist.
    pub(super) fn said(&self) -> Option<String> {
        let text = fs::read_to_string(&self.file).ok()?;
        let latest = text.lines().next_back()?;
        Some(format!("{latest}; once you have seen to it, remove {}", self.file.display()))
    }

    /// Compares a store that was just opened with its count file. If the store holds less, writes the loss into the
    /// `-loss` file and sets the count to what the store holds.
    pub(super) fn look(&self, conn: &Connection, counted: &mut CountFile) -> Result<(), rusqlite::Error> {
        let Some(record) = counted.read() else { return Ok(()) };
        let there = on_file(conn)?;
        let newest = "SELECT max(put_at) FROM job WHERE id = (SELECT max(id) FROM job)";
        let newest: Option<i64> = conn.query_row(newest, [], |row| row.get(0))?;
        let Some(lost) = lacks(&record, there, newest) else { return Ok(()) };
        let lost = format!("{} has lost {lost}", self.store);
        tracing::error!("the store {lost}");
        match self.note(&lost) {
            Ok(()) => counted.write(Record { count: there, ..record }),
            // The next opening finds it again.
            Err(error) => tracing::error!(%error, "cannot write {}", self.file.display()),
        }
        Ok(())
    }

    fn note(&self, lost: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.file)?;
        file.write_all(format!("{lost}\n").as_bytes())?;
        file.sync_all()
    }
}

/// What a store lacks of what was counted, in words; None if it has all. `newest` is when the newest job that is there
/// was put.
fn lacks(counted: &Record, there: Count, newest: Option<i64>) -> Option<String> {
    let count = counted.count;
    let (jobs, changes) = (count.puts - there.puts, count.changes - there.changes);
    if jobs <= 0 && changes <= 0 {
        return None;
    }
    let since = newest.map_or_else(String::new, |at| format!(" after {}", Millis(at).rfc3339()));
    let last = match &counted.latest {
        Some((id, at)) => format!("; the last that was put is {id}, at {}", Millis(*at).rfc3339()),
        None => String::new(),
    };
    let what = match jobs {
        1.. => format!(
            "{jobs} of {} jobs that it had acknowledged, put{since}{last}: they are to be put again",
            count.puts
        ),
        _ => format!(
            "{changes} changes that it had acknowledged (ends, cancels, edits): what had ended may run again"
        ),
    };
    Some(format!("{what}. Its -wal file was cut or removed, or an older copy was put in its place"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(puts: i64, changes: i64, latest: Option<&str>) -> Record {
        let latest = latest.map(|id| (id.into(), 1500));
        Record { of: Identity(7, 8), count: Count { puts, changes }, latest }
    }

    #[test]
    fn record_that_is_not_whole_says_nothing() {
        let bytes = record(15, 20, Some("a")).bytes();
        assert_eq!(Record::parse(&bytes), Some(record(15, 20, Some("a"))));
        let longer = record(999, 999_999, None).bytes();
        for cut in [20, 30, 40, 50] {
            assert_eq!(Record::parse(&[&longer[..cut], &bytes[cut..]].concat()), None, "{cut}");
        }
        let long = "x".repeat(600);
        assert_eq!(Record::parse(&record(1, 2, Some(&long)).bytes()), Some(record(1, 2, None)));
        assert_eq!(Record::parse(&[0; SIZE]), None);
    }

    #[test]
    fn count_that_cannot_be_kept_is_told_until_it_can() {
        let dir = tempfile::tempdir().unwrap();
        let (store, complaints) = (dir.path().join("jobs.db"), Complaints::default());
        fs::write(&store, "").unwrap();
        let file = beside(&store, COUNT);
        fs::create_dir(&file).unwrap();
        let mut counted = CountFile::open(&store, complaints.clone());
        let reached = |puts| Reached { count: Count { puts, changes: puts }, latest: None };
        let said = || complaints.told(clock::now()).pop().map(|told| told.how);
        counted.raise(&reached(1));
        assert!(said().expect("it cannot be opened").contains("jobs.db-count: "), "{:?}", said());
        fs::remove_dir(&file).unwrap();
        counted.raise(&reached(2));
        assert_eq!((said(), counted.read().map(|record| record.count.puts)), (None, Some(2)));
        // A disk that is full.
        counted.file = Some(OpenOptions::new().read(true).write(true).open("/dev/full").unwrap());
        counted.raise(&reached(3));
        assert!(said().unwrap().contains("No space left"), "{:?}", said());
    }

    #[test]
    fn what_is_there_is_not_lost() {
        let lacks = |puts, changes| lacks(&record(1500, 4000, Some("z")), Count { puts, changes }, Some(500));
        assert_eq!(lacks(1500, 4000), None);
        assert_eq!(lacks(1501, 4001), None);
        let said = lacks(1000, 3500).unwrap();
        assert!(said.starts_with(
            "500 of 1500 jobs that it had acknowledged, put after 1970-01-01T00:00:00.500Z; the last that was put is z"
        ));
        assert!(lacks(1500, 3999).unwrap().starts_with("1 changes that"));
    }
}
