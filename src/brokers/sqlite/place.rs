//! Checks that the store's files keep their names. If one is moved or removed while it is open, everything written
//! later goes to a file that no one can find.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::lost;

/// Identities of an open store's files, as they were at the open.
#[derive(Clone)]
pub(super) struct Place {
    files: [(PathBuf, Identity); 2],
}

/// Device and inode numbers.
type Identity = (u64, u64);

impl Place {
    /// The files of the store in `path`, which has just been opened.
    pub(super) fn of(path: &Path) -> io::Result<Place> {
        let wal = lost::beside(path, "-wal");
        Ok(Place { files: [(path.into(), identity(path)?), (wal.clone(), identity(&wal)?)] })
    }

    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|(path, _)| path.as_path())
    }

    /// What happened to the files, if they are not where they were.
    pub(super) fn lost(&self) -> Option<String> {
        self.files.iter().find_map(|(path, known)| {
            let happened = match identity(path) {
                Ok(found) if found != *known => "another file was put in its place",
                Err(error) if error.kind() == ErrorKind::NotFound => "it was moved or removed",
                Ok(_) | Err(_) => return None,
            };
            let path = path.display();
            Some(format!(
                "cannot keep jobs in {path}: {happened} while it was in use, so what is written now would not be found \
                 there again: move the file back, and it goes on within 30 s; if there is none, end this with `taskvisor stop`: \
                 `taskvisor start` begins with what is there then, `taskvisor start --new-store` with no jobs"
            ))
        })
    }
}

fn identity(path: &Path) -> io::Result<Identity> {
    let found = fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}
