//! Detects a store whose jobs are gone: its file is missing or empty, and files beside it show that there was one.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use broker::Error;

/// Refuses a file without content beside the traces of a store. Must be called before SQLite opens the file: it would
/// delete the WAL of an empty file, and with it the latest jobs.
pub(super) fn refuse_missing(path: &Path) -> Result<(), Error> {
    // Look for traces first: another process that makes the store at this moment writes the file before any trace.
    let trace = trace(path);
    let how = match fs::metadata(path) {
        Ok(found) if found.len() > 0 => return Ok(()),
        Ok(_) => "it is empty",
        Err(error) if error.kind() == ErrorKind::NotFound => "it is missing",
        // Opening the file will report this error.
        Err(_) => return Ok(()),
    };
    match trace {
        Some(trace) => Err(lost(path, how, trace)),
        None => Ok(()),
    }
}

/// Whether a process has had the store open. The bell is written after the schema, durably: a process that sees the
/// bell here sees tables later.
pub(super) fn was_open(path: &Path) -> bool {
    beside(path, BELL).exists()
}

/// The error for a store that was open and is now empty.
pub(super) fn blank(path: &Path) -> Error {
    lost(path, "it holds no tables", BELL)
}

/// Every process that has opened the store has left this file, and none removes it.
const BELL: &str = "-bell";
/// The files of `count.rs`.
pub(super) const COUNT: &str = "-count";
pub(super) const LOSS: &str = "-loss";

/// A file beside the store that only a store has.
fn trace(path: &Path) -> Option<&'static str> {
    let has_wal = fs::metadata(beside(path, "-wal")).is_ok_and(|wal| wal.len() > 0);
    if has_wal { Some("-wal") } else { beside(path, BELL).exists().then_some(BELL) }
}

fn lost(path: &Path, how: &str, trace: &str) -> Error {
    let file = path.display();
    Error::Lost(format!(
        "cannot open the store {file}: {how}, but {file}{trace} shows that jobs were kept in it: put it back (from a backup, \
         or mount its disk), or begin a new store on purpose: taskvisor start --new-store"
    ))
}

/// Sets aside what is left of a lost store, as FILE.lost, so that the next opening makes a new one. The caller has made
/// sure that no process uses it.
pub(super) fn set_aside(path: &Path) -> io::Result<()> {
    for suffix in ["", "-wal"] {
        let file = beside(path, suffix);
        if fs::metadata(&file).is_ok_and(|found| found.len() > 0) {
            fs::rename(&file, beside(&file, ".lost"))?;
        }
    }
    for suffix in ["", "-wal", "-shm", BELL, COUNT, LOSS] {
        match fs::remove_file(beside(path, suffix)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// The name of a file beside the store.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
