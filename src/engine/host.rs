//! The machine that the supervisor runs on.

use model::Host;
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};
use sysinfo::System;
use wire::keeper::Step;

/// Why the keeper has made no process, and the limit that it has met: the supervisor has the same.
pub(super) fn unmade(step: Step, errno: i32) -> String {
    let errno = Errno::from_raw(errno);
    let why = format!("failed to {}: {} ({errno:?})", step.as_str(), errno.desc());
    let limit = getrlimit(Resource::RLIMIT_NOFILE).ok().filter(|_| errno == Errno::EMFILE);
    match limit {
        Some((limit, _)) => {
            format!("{why}, the limit is {limit}: raise it by ulimit -Hn, or LimitNOFILE= in the unit")
        }
        None => why,
    }
}

/// Its name, memory and load now.
pub(super) fn host() -> Host {
    let mut system = System::new().ok();
    if let Some(system) = &mut system {
        system.refresh_memory();
    }
    Host {
        name: System::host_name().unwrap_or_default(),
        memory_total: system.as_ref().map_or(0, System::total_memory),
        memory_used: system.as_ref().map_or(0, System::used_memory),
        load: System::load_average().map_or(0.0, |load| load.one),
        cpus: std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32),
    }
}
