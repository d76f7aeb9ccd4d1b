//! The size of a page of memory: 4 KiB on most machines, 16 or 64 KiB on some with ARM or POWER.

use std::sync::LazyLock;

use nix::unistd::{SysconfVar, sysconf};

static SIZE: LazyLock<u64> = LazyLock::new(|| {
    let size = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    size.and_then(|size| u64::try_from(size).ok()).unwrap_or(4096)
});

/// The size of a page here, in bytes.
pub(super) fn page_size() -> u64 {
    *SIZE
}
