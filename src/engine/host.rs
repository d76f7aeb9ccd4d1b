//! The machine that the supervisor runs on.

use model::Host;
use sysinfo::System;

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
