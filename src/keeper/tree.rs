//! Walks directory trees of any depth: a job can nest cgroups deeper than a path can be long.
//!
//! The walk holds one descriptor and no stack frame per level. It goes down by name and up by `..`.

use std::ffi::{CStr, CString};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};

use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};

const DIRECTORY: OFlag = OFlag::O_DIRECTORY.union(OFlag::O_RDONLY).union(OFlag::O_CLOEXEC);

/// A directory on the way down: its name, and the directories in it that are still to visit.
struct Level {
    name: CString,
    below: Vec<CString>,
}

/// Removes a directory and those below it. Fails with `EAGAIN` after `most` of them, else with the reason why one is
/// left.
pub(super) fn remove(parent: impl AsFd, name: &CStr, most: usize) -> nix::Result<()> {
    let (mut removed, mut refused) = (0, Ok(()));
    walk(parent, name, |up, name, _| {
        match unlinkat(up, name, UnlinkatFlags::RemoveDir) {
            Ok(()) => removed += 1,
            Err(Errno::ENOENT) => {}
            Err(errno) => refused = Err(errno),
        }
        if removed < most {
            return ControlFlow::Continue(());
        }
        refused = Err(Errno::EAGAIN);
        ControlFlow::Break(())
    })?;
    refused
}

/// Visits each directory after those in it, and `name` last. The visitor gets its parent, its name in there, and
/// itself.
pub(super) fn walk(
    parent: impl AsFd,
    name: &CStr,
    mut show: impl FnMut(&OwnedFd, &CStr, &OwnedFd) -> ControlFlow<()>,
) -> nix::Result<()> {
    let parent = openat(parent, c".", DIRECTORY, Mode::empty())?;
    let mut here = openat(&parent, name, DIRECTORY, Mode::empty())?;
    let mut way = vec![Level { name: name.to_owned(), below: directories(&here) }];
    while let Some(level) = way.last_mut() {
        if let Some(name) = level.below.pop() {
            // If it cannot be opened, or is gone, removing its parent shows that.
            if let Ok(below) = openat(&here, name.as_c_str(), DIRECTORY, Mode::empty()) {
                way.push(Level { name, below: directories(&below) });
                here = below;
            }
            continue;
        }
        let name = std::mem::take(&mut level.name);
        way.pop();
        let up = match way.is_empty() {
            true => openat(&parent, c".", DIRECTORY, Mode::empty())?,
            false => openat(&here, c"..", DIRECTORY, Mode::empty())?,
        };
        if show(&up, &name, &here).is_break() {
            break;
        }
        here = up;
    }
    Ok(())
}

/// Removes a directory by its path, and those below it.
pub(super) fn remove_at(path: &std::path::Path) -> nix::Result<()> {
    let name = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| Errno::EINVAL)?;
    remove(AT_FDCWD, &name, usize::MAX)
}

fn directories(dir: &OwnedFd) -> Vec<CString> {
    let Ok(mut dir) = Dir::openat(dir, c".", DIRECTORY, Mode::empty()) else { return Vec::new() };
    let is_below = |name: &CStr| name != c"." && name != c"..";
    let entries = dir.iter().flatten().filter(|entry| entry.file_type() == Some(Type::Directory));
    entries.map(|entry| entry.file_name().to_owned()).filter(|name| is_below(name)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use nix::sys::stat::mkdirat;

    use super::*;

    /// A chain of nested directories of this depth.
    fn chain(dir: &std::path::Path, depth: usize) {
        let name = CString::new("x".repeat(200)).unwrap();
        let mut here = openat(AT_FDCWD, dir, DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..depth {
            mkdirat(&here, name.as_c_str(), Mode::S_IRWXU).unwrap();
            here = openat(&here, name.as_c_str(), DIRECTORY, Mode::empty()).unwrap();
        }
    }

    #[test]
    fn very_deep_tree_is_removed_in_steps_on_a_small_stack() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        fs::create_dir_all(top.join("beside/below")).unwrap();
        chain(&top, 600);
        let path = dir.path().to_owned();
        let stretches = std::thread::Builder::new().stack_size(64 << 10).spawn(move || {
            let parent = openat(AT_FDCWD, &path, DIRECTORY, Mode::empty()).unwrap();
            (1..).find(|_| remove(&parent, c"top", 200) != Err(Errno::EAGAIN)).unwrap()
        });
        assert_eq!(stretches.unwrap().join().unwrap(), 4);
        assert!(!top.exists());
    }

    #[test]
    fn directory_that_cannot_be_removed_is_reported_and_the_rest_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::create_dir_all(top.join("c")).unwrap();
        fs::write(top.join("c/file"), "").unwrap();
        assert_eq!(remove_at(&top), Err(Errno::ENOTEMPTY));
        assert!(!top.join("a").exists() && top.join("c/file").exists());
        assert_eq!(remove_at(&dir.path().join("none")), Err(Errno::ENOENT));
    }
}
