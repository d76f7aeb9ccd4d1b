//! The directory against which relative paths are resolved. Keeper and supervisor work in `/`, so that the file system in
//! which `start` was typed can be unmounted; `start` names its directory to the supervisor.

#![warn(unreachable_pub)]

use std::env;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Environment variable in which `start` names its directory to the supervisor.
pub const VARIABLE: &str = "TASKVISOR_START_DIR";

static OF_START: OnceLock<PathBuf> = OnceLock::new();

/// Takes the directory that `start` has named. Only the supervisor does so: a command that a job runs resolves paths
/// against its own directory.
pub fn take_from_environment() {
    if let Some(dir) = named(env::var_os(VARIABLE).as_deref()) {
        _ = OF_START.set(dir);
    }
}

fn named(value: Option<&OsStr>) -> Option<PathBuf> {
    value.map(PathBuf::from).filter(|dir| dir.is_absolute())
}

/// Where the command, or the `start` of this supervisor, was typed. `/` if that directory was removed.
///
/// ```
/// assert!(taskvisor_start_dir::start_dir().is_absolute());
/// ```
pub fn start_dir() -> PathBuf {
    OF_START.get().cloned().or_else(|| env::current_dir().ok()).unwrap_or_else(|| "/".into())
}

/// Makes a relative path absolute, from [`start_dir`].
///
/// # Errors
///
/// The path is empty, or is relative and the directory was removed.
///
/// ```
/// let path = taskvisor_start_dir::from_start_dir("a/./b".as_ref())?;
/// assert!(path.is_absolute() && path.ends_with("a/b"));
/// assert!(taskvisor_start_dir::from_start_dir("".as_ref()).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn from_start_dir(path: &Path) -> io::Result<PathBuf> {
    match OF_START.get() {
        Some(dir) if path != Path::new("") => std::path::absolute(dir.join(path)),
        Some(_) | None => std::path::absolute(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_absolute_directory_is_taken_from_the_environment() {
        assert_eq!(named(Some("/srv".as_ref())), Some("/srv".into()));
        assert_eq!((named(Some("srv".as_ref())), named(Some("".as_ref())), named(None)), (None, None, None));
    }
}
