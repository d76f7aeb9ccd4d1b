//! The program of a pool: whether it is one, and there.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::wrong::Wrong;
use crate::model::{Bytes, Outfit, Work};

/// Where programs are looked for without a PATH.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A program and its arguments, if these words are.
pub(super) fn program(key: &'static str, words: Vec<Bytes>) -> Result<Vec<Bytes>, Wrong> {
    if words.first().is_none_or(|first| first.0.is_empty()) {
        return Err(Wrong::new(key, format!("{key} names no program")));
    }
    match words.iter().any(|word| word.0.contains(&0)) {
        true => Err(Wrong::new(key, format!("{key} holds a zero byte, which no program can be given"))),
        false => Ok(words),
    }
}

/// A mistyped program would be started again and again. One with a slash is sought from `cwd`, or from here.
pub(super) fn must_be_there(outfit: &Outfit) -> Result<(), Wrong> {
    let (key, words) = match &outfit.work {
        Work::Programs => return Ok(()),
        Work::Run(words) => ("run", words),
        Work::Command(words) => ("command", words),
    };
    let Some(name) = words.first().map(Bytes::as_os_str) else { return Ok(()) };
    if name.as_encoded_bytes().contains(&b'/') {
        let path = outfit.cwd.as_deref().unwrap_or(Path::new("")).join(name);
        return match is_program(&path) {
            true => Ok(()),
            false => Err(Wrong::new(key, format!("{} is no program that can be run", path.display()))),
        };
    }
    let own = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    let set = outfit.env_set.iter().filter(|(name, _)| name == "PATH").map(|(_, path)| OsStr::new(path));
    let mut dirs = set.chain([own.as_os_str()]).flat_map(std::env::split_paths);
    match dirs.any(|dir| is_program(&dir.join(name))) {
        true => Ok(()),
        false => Err(not_found(key, name).hint("is it misspelled? PATH is the one that start was given")),
    }
}

fn not_found(key: &'static str, name: &OsStr) -> Wrong {
    Wrong::new(key, format!("there is no program '{}' in PATH", name.display()))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
