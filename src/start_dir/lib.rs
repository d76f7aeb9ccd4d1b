//! The directory from which a person's relative paths go on. Keeper and supervisor work in `/`, so that the file system
//! in which `start` was typed can be unmounted; `start` names its directory to the supervisor.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

/// Environment variable of the supervisor: where `start` was typed.
pub const VARIABLE: &str = "TASKVISOR_START_DIR";

/// Where the command, or the `start` of this supervisor, was typed. `/` if that directory was removed.
///
/// ```
/// assert!(taskvisor_start_dir::start_dir().is_absolute());
/// ```
pub fn start_dir() -> PathBuf {
    named(env::var_os(VARIABLE).as_deref()).or_else(|| env::current_dir().ok()).unwrap_or_else(|| "/".into())
}

fn named(value: Option<&OsStr>) -> Option<PathBuf> {
    value.map(PathBuf::from).filter(|dir| dir.is_absolute())
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
    match named(env::var_os(VARIABLE).as_deref()) {
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
