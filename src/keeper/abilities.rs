//! What a keeper can do here, found out by its own means.

use std::fs;
use std::path::PathBuf;

use nix::sys::prctl;

use super::cgroup::{Cgroups, own_directory};
use super::children::Children;
use super::setup::Without;

/// What was found. Each `Err` says why it cannot be had.
#[derive(Clone, Debug)]
pub struct Abilities {
    /// A cgroup for each life: below which directory.
    pub cgroup: Result<PathBuf, String>,
    /// Whether a child is born in its cgroup. Else it is moved there.
    pub born_there: bool,
    /// What the cgroups there can limit: `memory`, `pids`, …
    pub controllers: Vec<String>,
    /// Orphans of a dead leader become the keeper's children.
    pub subreaper: Result<(), String>,
    /// The kernel lists a process's children.
    pub children: Result<(), String>,
}

/// Tries all of it as a keeper would, and leaves nothing behind. The process must have one thread: children are forked.
pub fn abilities(without: Without) -> Abilities {
    let cgroups = Cgroups::find(without);
    let own = own_directory();
    let list = own.as_ref().and_then(|own| fs::read_to_string(own.join("cgroup.controllers")).ok());
    let subreaper = adopt_orphans(without);
    _ = prctl::set_child_subreaper(false);
    Abilities {
        born_there: cgroups.as_ref().is_ok_and(|cgroups| cgroups.by_clone),
        cgroup: cgroups.map(|_| own.unwrap_or_default()),
        controllers: list.unwrap_or_default().split_whitespace().map(str::to_owned).collect(),
        subreaper: match subreaper {
            Ok(true) => Ok(()),
            Ok(false) => Err(SWITCHED_OFF.into()),
            Err(errno) => Err(errno.desc().into()),
        },
        children: Children::open().map(drop).map_err(|error| error.to_string()),
    }
}

pub(super) const SWITCHED_OFF: &str = "switched off by TASKVISOR_WITHOUT";

/// From here on orphans become this process's children. Gives whether they do.
pub(super) fn adopt_orphans(without: Without) -> nix::Result<bool> {
    if !without.subreaper {
        prctl::set_child_subreaper(true)?;
    }
    Ok(!without.subreaper)
}
