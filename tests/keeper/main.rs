//! The real keeper with real children; the test plays the supervisor.
#![allow(unsafe_code, missing_docs, clippy::unwrap_used, clippy::wildcard_enum_match_arm)]

/// Runs each story with and without cgroups; reports when the machine has no cgroups.
macro_rules! stories {
    ($($story:ident)*) => {
        mod with_cgroup { $( #[test] fn $story() {
            let (keeper, hello) = super::Keeper::start("");
            if hello.cgroup { super::$story(keeper) } else {
                super::support::missing("cgroup2");
                keeper.shutdown(0);
            }
        } )* }
        mod without_cgroup { $( #[test] fn $story() {
            let (keeper, hello) = super::Keeper::start("cgroup");
            assert!(!hello.cgroup);
            super::$story(keeper)
        } )* }
    };
}

mod deaths;
mod followers;
#[path = "../support/freezer.rs"]
mod freezer;
#[path = "../support/hang.rs"]
mod hang;
mod itself;
#[path = "../support/memory_limit.rs"]
mod memory_limit;
mod programs;
mod spawner;
mod spawner_faults;
#[path = "../support/mod.rs"]
mod support;
mod templates;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use freezer::Freezer;
use model::{ExitStatus, Follow, SlotId, WorkerId};
use nix::sys::signal::Signal::{SIGKILL, SIGSTOP, SIGTERM};
use support::{
    Keeper, PidsLimit, SOON, lives, missing, program, read_until, shell, signal, wait_until, worker,
};
use wire::keeper::{Ask, Order, Report, Step};
use wire::program::{Failed, Identity, Program, Step as ProgramStep};

const KILLED: ExitStatus = ExitStatus::Signal { signal: libc::SIGKILL, core: false };
const TEMPLATE: WorkerId = WorkerId { slot: SlotId { pool: 1, index: 0 }, generation: 1 };

/// A daemon: it does not keep our output pipe open, has a session of its own, and believes that init is its parent.
const DAEMON: &str = "setsid sh -c 'setsid sleep 1000 >/dev/null & echo $!'";

/// Not a test: the keeper starts this as its supervisor.
#[test]
fn relay_supervisor() {
    support::relay();
}
