//! What a keeper can do here, found out by its own means.

use std::path::PathBuf;

use nix::sys::prctl;

use super::cgroup::{Cgroups, given_directory};
use super::children::Children;
use super::setup::{SWITCHED_OFF, Without};

/// What was found. Each `Err` says why it cannot be had.
#[derive(Clone, Debug)]
pub struct Abilities {
    /// A cgroup for each life: below which directory.
    pub cgroup: Result<PathBuf, String>,
    /// Whether a child is born in its cgroup. Else it is moved there.
    pub born_there: bool,
    /// What the kernel limits there by itself: `memory`, `pids`, …
    pub controllers: Result<Vec<&'static str>, String>,
    /// Orphans of a dead leader become the keeper's children.
    pub subreaper: Result<(), String>,
    /// The kernel lists a process's children.
    pub children: Result<(), String>,
}

/// Tries all of it as a keeper would, and leaves nothing behind. The process must have one thread: children are forked.
pub fn abilities(without: Without) -> Abilities {
    let given = given_directory();
    let cgroups = Cgroups::find(without);
    let subreaper = adopt_orphans(without);
    _ = prctl::set_child_subreaper(false);
    Abilities {
        born_there: cgroups.as_ref().is_ok_and(|cgroups| cgroups.by_clone),
        controllers: match &cgroups {
            Ok(Cgroups { controllers: Ok(controllers), .. }) => Ok(controllers.names().to_vec()),
            Ok(Cgroups { controllers: Err(why), .. }) => Err(why.clone()),
            Err(_) => Err("there are no cgroups for lives".into()),
        },
        cgroup: cgroups.map(|_| given.unwrap_or_default()),
        subreaper: match subreaper {
            Ok(true) => Ok(()),
            Ok(false) => Err(SWITCHED_OFF.into()),
            Err(errno) => Err(errno.desc().into()),
        },
        children: Children::open().map(drop).map_err(|error| error.to_string()),
    }
}

/// From here on orphans become this process's children. Gives whether they do.
pub(super) fn adopt_orphans(without: Without) -> nix::Result<bool> {
    if !without.subreaper {
        prctl::set_child_subreaper(true)?;
    }
    Ok(!without.subreaper)
}
