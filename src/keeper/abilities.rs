//! What a keeper can do on this host, found out by trying.

use std::path::PathBuf;

use nix::sys::prctl;

use super::cgroup::{Cgroups, given_directory};
use super::children::Children;
use super::setup::{SWITCHED_OFF, Without};

/// The abilities found. Each `Err` says why one is missing.
#[derive(Clone, Debug)]
pub struct Abilities {
    /// The directory below which each life gets a cgroup.
    pub cgroup: Result<PathBuf, String>,
    /// Whether clone3 can create a child inside its cgroup. Else the child is moved there.
    pub born_there: bool,
    /// The resources that the kernel limits there by itself: `memory`, `pids`, …
    pub controllers: Result<Vec<&'static str>, String>,
    /// Whether orphans of a dead leader become the keeper's children.
    pub subreaper: Result<(), String>,
    /// Whether the kernel lists a process's children.
    pub children: Result<(), String>,
}

/// Tries all abilities as a keeper would, and leaves nothing behind. The process must have one thread: it forks
/// children.
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

/// Makes this process adopt orphans from here on. Gives whether that works.
pub(super) fn adopt_orphans(without: Without) -> nix::Result<bool> {
    if !without.subreaper {
        prctl::set_child_subreaper(true)?;
    }
    Ok(!without.subreaper)
}
