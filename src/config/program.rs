//! Checks the program of a pool.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::wrong::Wrong;
use model::{Bytes, SpawnSpec, Work};
use start_dir::start_dir;

/// The PATH for programs, if none is set.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The program and its arguments, if these words are valid.
pub(super) fn program(key: &'static str, words: Vec<Bytes>) -> Result<Vec<Bytes>, Wrong> {
    if words.first().is_none_or(|first| first.0.is_empty()) {
        return Err(Wrong::new(key, format!("{key} names no program")));
    }
    match words.iter().any(|word| word.0.contains(&0)) {
        true => Err(Wrong::new(key, format!("{key} holds a zero byte, which no program can be given"))),
        false => Ok(words),
    }
}

/// Checks that the program exists: a misspelled one would be started again and again.
pub(super) fn must_be_there(spec: &SpawnSpec) -> Result<(), Wrong> {
    let Some((key, name)) = named(spec) else { return Ok(()) };
    match find(spec) {
        Some(_) => Ok(()),
        None if name.as_encoded_bytes().contains(&b'/') => {
            Err(Wrong::new(key, format!("{} is no program that can be run", beside(spec, name).display())))
        }
        None => Err(not_found(key, name).hint("is it misspelled? PATH is the one that start was given")),
    }
}

/// The program of the pool, with the name of its setting.
pub(super) fn named(spec: &SpawnSpec) -> Option<(&'static str, &OsStr)> {
    let (key, words) = match &spec.work {
        Work::Programs => return None,
        Work::Run(words) => ("run", words),
        Work::Command(words) => ("command", words),
    };
    Some((key, words.first()?.as_os_str()))
}

/// The path of the program. A name with a slash is looked up from `cwd`, or from here.
pub(super) fn find(spec: &SpawnSpec) -> Option<PathBuf> {
    let (_, name) = named(spec)?;
    if name.as_encoded_bytes().contains(&b'/') {
        return Some(beside(spec, name)).filter(|path| is_program(path));
    }
    let own = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    let set = spec.env_set.iter().filter(|(name, _)| name == "PATH").map(|(_, path)| OsStr::new(path));
    let dirs = set.chain([own.as_os_str()]).flat_map(std::env::split_paths);
    // The supervisor works in /: a relative part of PATH is from where `start` was typed.
    dirs.map(|dir| start_dir().join(dir).join(name)).find(|path| is_program(path))
}

fn beside(spec: &SpawnSpec, name: &OsStr) -> PathBuf {
    spec.cwd.clone().unwrap_or_else(start_dir).join(name)
}

fn not_found(key: &'static str, name: &OsStr) -> Wrong {
    Wrong::new(key, format!("there is no program '{}' in PATH", name.display()))
}

fn is_program(path: &Path) -> bool {
    // Who may run it depends on the user of the pool, for which `check` has a rule.
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
