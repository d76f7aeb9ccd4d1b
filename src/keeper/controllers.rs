//! The kernel's own limits: controllers of cgroup v2, handed down to the cgroups of lives.
//!
//! The kernel hands controllers to the children of a cgroup only if no process lives in that cgroup. So the keeper
//! moves from the cgroup in which it was started to one of its own, beside that of the lives; the supervisor starts
//! there. The keeper does so only if the cgroup was given to it and no other process lives there; otherwise limits are
//! enforced by measuring alone.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::setup::Without;
use super::sys;
use model::Bounds;

/// The name of the cgroup that keeper and supervisor live in.
const HOME: &str = "taskvisor-keeper";

/// The controllers to use. Huge pages do not count for the controller `memory`.
const WANTED: [&str; 3] = ["memory", "pids", "hugetlb"];

/// Largest `pids.max` of the kernel, which numbers no more tasks.
const MOST_TASKS: u64 = 4 << 20;

/// The controllers that the cgroups of lives have. Dropping the value gives them back.
pub(super) struct Controllers {
    given: PathBuf,
    lives: PathBuf,
    names: Vec<&'static str>,
    /// The files that bound huge pages, one for each size of them.
    huge: Vec<String>,
}

impl Controllers {
    /// Moves this process out of the cgroup it was given, and hands the available controllers down to `lives`, a cgroup
    /// in it.
    pub(crate) fn take(given: &Path, lives: &Path, without: Without) -> Result<Self, String> {
        let offered = words(&given.join("cgroup.controllers"));
        let is_wanted = |name: &&str| offered.iter().any(|own| own == name) && !without.controller(name);
        let wanted: Vec<&'static str> = WANTED.into_iter().filter(is_wanted).collect();
        if wanted.is_empty() {
            return Err(format!("{} has no controller to hand down", given.display()));
        }
        is_ours(given)?;
        let mut taken =
            Controllers { given: given.into(), lives: lives.into(), names: Vec::new(), huge: Vec::new() };
        let moved = make(&given.join(HOME)).and_then(|()| enter(&given.join(HOME)));
        moved.map_err(|error| format!("failed to move to {}/{HOME}: {error}", given.display()))?;
        let mut refused = String::new();
        for name in wanted {
            match taken.hand_down(name) {
                Ok(()) => taken.names.push(name),
                Err(error) => refused = format!("failed to hand down {name}: {error}"),
            }
        }
        if taken.names.is_empty() {
            return Err(refused);
        }
        taken.huge = huge_files(lives);
        Ok(taken)
    }

    /// Hands down one controller at a time: the kernel takes all of a line or nothing.
    fn hand_down(&self, name: &str) -> io::Result<()> {
        let handed = [&self.given, &self.lives].iter().try_for_each(|dir| control(dir, '+', name));
        handed.inspect_err(|_| self.take_back(name))
    }

    fn take_back(&self, name: &str) {
        for dir in [&self.lives, &self.given] {
            _ = control(dir, '-', name);
        }
    }

    pub(crate) fn names(&self) -> &[&'static str] {
        &self.names
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.contains(&name)
    }

    /// The files of a life's cgroup with the text to write to each. `taken` is the memory that the life uses now. A
    /// bound below that is enforced by measuring: the kernel would make us wait until memory is freed.
    pub(crate) fn settings(&self, bounds: Bounds, taken: u64) -> Vec<(&str, String)> {
        let text = |most: Option<u64>| most.map_or("max".into(), |most| most.to_string());
        let is_bounded = bounds.memory.is_some();
        let mut settings = Vec::new();
        if self.has("memory") && bounds.memory.is_none_or(|most| taken < most) {
            settings.push(("memory.swap.max", text(is_bounded.then_some(0))));
            settings.push(("memory.oom.group", u8::from(is_bounded).to_string()));
            settings.push(("memory.max", text(bounds.memory)));
        }
        settings.extend(self.huge.iter().map(|file| (file.as_str(), text(bounds.memory))));
        if self.has("pids") {
            settings.push(("pids.max", text(bounds.tasks.filter(|tasks| *tasks <= MOST_TASKS))));
        }
        settings
    }
}

impl Drop for Controllers {
    fn drop(&mut self) {
        self.names.iter().for_each(|name| self.take_back(name));
        _ = enter(&self.given);
        _ = fs::remove_dir(self.given.join(HOME));
    }
}

/// The cgroup that a keeper was given, from the one in which it or its supervisor lives now.
pub(super) fn given(own: PathBuf) -> PathBuf {
    match own.parent().filter(|_| own.ends_with(HOME)) {
        Some(given) => given.to_owned(),
        None => own,
    }
}

/// Whether a cgroup was given to this process, and to no other.
fn is_ours(given: &Path) -> Result<(), String> {
    let kind = fs::read_to_string(given.join("cgroup.type")).unwrap_or_default();
    if kind.trim() != "domain" {
        return Err(format!("{} is the root of all cgroups, or one of threads", given.display()));
    }
    if is_kept_by_systemd(given) {
        return Err(format!("{} is kept by systemd, which was not told Delegate=yes", given.display()));
    }
    let own = std::process::id().to_string();
    let others = words(&given.join("cgroup.procs")).iter().filter(|pid| **pid != own).count();
    match others {
        0 => Ok(()),
        _ => Err(format!("{others} other processes live in {}", given.display())),
    }
}

/// Whether systemd has marked the cgroup as delegated. Before version 251 only root sees that mark, but the cgroup then
/// belongs to the user.
fn is_kept_by_systemd(given: &Path) -> bool {
    let is_unit = [".service", ".scope"].iter().any(|kind| given.to_string_lossy().ends_with(kind));
    let is_marked = [c"user.delegate", c"trusted.delegate"].iter().any(|name| sys::has_mark(given, name));
    let user = nix::unistd::geteuid();
    let is_users = !user.is_root() && fs::metadata(given).is_ok_and(|dir| dir.uid() == user.as_raw());
    is_unit && !is_marked && !is_users
}

fn words(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

fn make(dir: &Path) -> io::Result<()> {
    fs::create_dir(dir).or_else(|error| if dir.is_dir() { Ok(()) } else { Err(error) })
}

fn enter(dir: &Path) -> io::Result<()> {
    fs::write(dir.join("cgroup.procs"), "0")
}

fn control(dir: &Path, sign: char, name: &str) -> io::Result<()> {
    fs::write(dir.join("cgroup.subtree_control"), format!("{sign}{name}"))
}

fn huge_files(lives: &Path) -> Vec<String> {
    let entries = fs::read_dir(lives).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let bounds = |name: &String| {
        let size = name.strip_prefix("hugetlb.").and_then(|rest| rest.strip_suffix(".max"));
        size.is_some_and(|size| !size.contains('.'))
    };
    names.filter(bounds).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controllers() -> Controllers {
        let nowhere = PathBuf::from("/nonexistent");
        let huge = vec!["hugetlb.2MB.max".to_owned()];
        Controllers { given: nowhere.clone(), lives: nowhere, names: vec!["memory", "pids"], huge }
    }

    fn said(bounds: Bounds, taken: u64) -> String {
        let controllers = controllers();
        let settings = controllers.settings(bounds, taken);
        settings.iter().map(|(file, text)| format!("{file}={text} ")).collect()
    }

    #[test]
    fn bounds_become_cgroup_file_values() {
        let bounds = Bounds { memory: Some(5000), tasks: Some(7) };
        let whole = "memory.swap.max=0 memory.oom.group=1 memory.max=5000 hugetlb.2MB.max=5000 pids.max=7 ";
        assert_eq!(said(bounds, 4999), whole);
        let none = "memory.swap.max=max memory.oom.group=0 memory.max=max hugetlb.2MB.max=max pids.max=max ";
        assert_eq!(said(Bounds::default(), 5000), none);
        let vast = Bounds { memory: None, tasks: Some(MOST_TASKS + 1) };
        assert_eq!(said(vast, 0), none);
        assert_eq!(said(bounds, 5000), "hugetlb.2MB.max=5000 pids.max=7 ", "it has more already");
    }

    #[test]
    fn delegated_cgroup_is_derived_from_the_keepers_own() {
        for (own, expected) in [
            ("/c/a", "/c/a"),
            ("/c/a/taskvisor-keeper", "/c/a"),
            ("/c/x-taskvisor-keeper", "/c/x-taskvisor-keeper"),
        ] {
            assert_eq!(given(own.into()), PathBuf::from(expected));
        }
    }

    #[test]
    fn undelegated_unit_belongs_to_systemd() {
        let dir = tempfile::tempdir().unwrap();
        for (name, kept) in [("a.service", nix::unistd::geteuid().is_root()), ("b", false)] {
            let unit = dir.path().join(name);
            fs::create_dir(&unit).unwrap();
            assert_eq!(is_kept_by_systemd(&unit), kept, "{name}");
        }
    }
}
