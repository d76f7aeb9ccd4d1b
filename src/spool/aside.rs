//! Where that is kept which cannot be put, until a person has seen to it.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Limit of what is kept: whoever may leave puts could fill the disk with names otherwise.
const MOST: usize = 1_000;
/// The longest part of a name that is kept, in bytes: a time and `.why` follow, and 255 are the most.
const NAME: usize = 200;
/// Age of a change, in milliseconds, from which on another one shows as another time of the directory.
const SETTLED: i64 = 1_000;

/// The directory, which is made when it is needed.
#[derive(Debug)]
pub(super) struct Aside {
    pub(super) dir: PathBuf,
    /// What was counted last, with the time of the directory's last change.
    known: Mutex<Option<((i64, i64), usize)>>,
}

impl Aside {
    pub(super) fn new(dir: PathBuf) -> Aside {
        Aside { dir, known: Mutex::new(None) }
    }

    /// Moves something here, with the reason in a file beside it.
    pub(super) fn keep(&self, path: &Path, why: &str) -> io::Result<()> {
        if self.count() >= MOST {
            let full = format!("{} holds {MOST} already: see to them, and remove them", self.dir.display());
            return Err(io::Error::other(full));
        }
        match DirBuilder::new().mode(0o700).create(&self.dir) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let name = self.free_name(path);
        fs::rename(path, self.dir.join(&name))?;
        let reason = self.dir.join(format!("{name}.why"));
        let mut reason = File::options().write(true).create_new(true).mode(0o600).open(reason)?;
        writeln!(reason, "{why}")
    }

    /// A name that nothing here has: what is moved takes the place of nothing.
    fn free_name(&self, path: &Path) -> String {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = &name[..name.floor_char_boundary(NAME)];
        let mut time = clock::wall_millis();
        loop {
            let free = format!("{name}-{time}");
            if self.dir.join(&free).symlink_metadata().is_err() {
                return free;
            }
            time += 1;
        }
    }

    /// How much is kept, up to the limit. Only a directory that has changed is listed again.
    pub(super) fn count(&self) -> usize {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(found) = fs::symlink_metadata(&self.dir) else { return 0 };
        let changed = (found.ctime(), found.ctime_nsec());
        if let Some((then, count)) = *known
            && then == changed
        {
            return count;
        }
        let is_reason = |name: &std::ffi::OsStr| name.as_encoded_bytes().ends_with(b".why");
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let count = entries.filter(|entry| !is_reason(&entry.file_name())).take(MOST).count();
        let age = clock::wall_millis() - changed.0 * 1_000 - changed.1 / 1_000_000;
        *known = (age > SETTLED).then_some((changed, count));
        count
    }
}
