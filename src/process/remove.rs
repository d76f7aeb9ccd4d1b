//! Removes a directory that a job has filled.

use std::ffi::CStr;
use std::fs::Permissions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, fchmod, openat, renameat, unlinkat};
use rustix::io::Errno;

// NOFOLLOW, as a job may have put a link to another directory there.
const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes a directory and everything in it, without following links. Whatever the depth, it uses the same stack and
/// three descriptors: a directory inside another is first moved up to the top. What cannot be removed stays, and the
/// last reason is the error.
pub(super) fn remove(dir: &Path) -> io::Result<()> {
    let top = openat(CWD, dir, DIRECTORY, Mode::empty())?;
    let mut work = Work { top, moved: 0, done: 0, failed: None };
    loop {
        let before = work.done;
        for name in Names::of(&work.top)? {
            let result = work.take_apart(&name?);
            work.note(result);
        }
        // What a pass moves up may come too late to be met by it.
        if work.done == before {
            break;
        }
    }
    match (unlinkat(CWD, dir, AtFlags::REMOVEDIR), work.failed) {
        (Ok(()), _) => Ok(()),
        (Err(_), Some(failed)) => Err(failed.into()),
        (Err(error), None) => Err(error.into()),
    }
}

struct Work {
    top: OwnedFd,
    /// Number of the last directory that was moved up.
    moved: u64,
    /// How many entries were moved or removed.
    done: u64,
    failed: Option<Errno>,
}

impl Work {
    fn note(&mut self, result: Result<(), Errno>) {
        match result {
            Ok(()) => self.done += 1,
            Err(error) => self.failed = Some(error),
        }
    }

    /// Removes a top entry. If it is a directory, removes its content, and moves the directories in it up.
    fn take_apart(&mut self, name: &CStr) -> Result<(), Errno> {
        if delete(&self.top, name)? {
            return Ok(());
        }
        let dir = open(&self.top, name)?;
        for inner in Names::of(&dir)? {
            let inner = inner?;
            let result = match delete(&dir, &inner) {
                Ok(false) => self.move_up(&dir, &inner),
                Ok(true) => Ok(()),
                Err(error) => Err(error),
            };
            self.note(result);
        }
        unlinkat(&self.top, name, AtFlags::REMOVEDIR)
    }

    fn move_up(&mut self, dir: &OwnedFd, name: &CStr) -> Result<(), Errno> {
        let mut let_in = false;
        loop {
            self.moved += 1;
            match renameat(dir, name, &self.top, format!("{}", self.moved)) {
                // The name is taken.
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                // A directory that its owner may not write to cannot be moved, as it refers to its parent.
                Err(Errno::ACCESS) if !let_in => {
                    let_in = true;
                    open(dir, name)?;
                }
                result => return result,
            }
        }
    }
}

/// Removes a file or an empty directory; false if it is a directory with content.
fn delete(dir: &OwnedFd, name: &CStr) -> Result<bool, Errno> {
    match unlinkat(dir, name, AtFlags::empty()) {
        // For a directory Linux says EISDIR, and POSIX EPERM.
        Err(Errno::ISDIR | Errno::PERM) => match unlinkat(dir, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
            result => result.map(|()| true),
        },
        result => result.map(|()| true),
    }
}

/// Opens a directory of ours, whatever its mode.
fn open(dir: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let opened = match openat(dir, name, DIRECTORY, Mode::empty()) {
        Err(Errno::ACCESS) => {
            let closed = openat(dir, name, DIRECTORY | OFlags::PATH, Mode::empty())?;
            let path = format!("/proc/self/fd/{}", closed.as_raw_fd());
            std::fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(|_| Errno::ACCESS)?;
            openat(dir, name, DIRECTORY, Mode::empty())?
        }
        opened => opened?,
    };
    // This fails for another user's directory, and is not needed there.
    fchmod(&opened, Mode::RWXU).ok();
    Ok(opened)
}

/// The names in a directory.
struct Names(Dir);

impl Names {
    fn of(dir: &OwnedFd) -> Result<Names, Errno> {
        Dir::read_from(dir).map(Names)
    }
}

impl Iterator for Names {
    type Item = Result<std::ffi::CString, Errno>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.0.next()? {
                Ok(entry) if matches!(entry.file_name().to_bytes(), b"." | b"..") => {}
                entry => return Some(entry.map(|entry| entry.file_name().to_owned())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{fstat, mkdirat};

    use super::*;

    /// Runs on a stack as small as that of the real thread.
    fn remove_on_a_small_stack(dir: &Path) -> io::Result<()> {
        let dir = dir.to_owned();
        std::thread::Builder::new().stack_size(128 << 10).spawn(move || remove(&dir)).unwrap().join().unwrap()
    }

    #[test]
    fn very_deep_directories_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("left");
        fs::create_dir(&dir).unwrap();
        let mut at = openat(CWD, &dir, DIRECTORY, Mode::empty()).unwrap();
        for depth in 0..5000 {
            // Together these names are longer than any path; some equal the names used for moved directories.
            for name in [format!("{depth:0200}"), format!("{}", 5000 - depth)] {
                mkdirat(&at, &name, Mode::RWXU).unwrap();
                at = openat(&at, &name, DIRECTORY, Mode::empty()).unwrap();
            }
        }
        assert_eq!(fstat(&at).unwrap().st_nlink, 2);
        remove_on_a_small_stack(&dir).unwrap();
        assert!(!dir.exists());
    }

    #[test]
    fn link_targets_stay_and_unreadable_directories_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let (dir, other) = (place.path().join("left"), place.path().join("other"));
        fs::create_dir_all(dir.join("a/b/c")).unwrap();
        fs::create_dir(&other).unwrap();
        fs::write(other.join("file"), "text").unwrap();
        fs::write(dir.join("a/b/c/file"), "text").unwrap();
        std::os::unix::fs::symlink(&other, dir.join("a/link")).unwrap();
        std::os::unix::fs::symlink(&other, dir.join("a/b/link")).unwrap();
        for closed in ["a/b/c", "a/b", "a"] {
            fs::set_permissions(dir.join(closed), Permissions::from_mode(0o0)).unwrap();
        }
        remove_on_a_small_stack(&dir).unwrap();
        assert!(!dir.exists() && other.join("file").exists());
    }
}
