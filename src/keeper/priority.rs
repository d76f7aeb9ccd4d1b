//! The priority of keeper and supervisor: they must get the processor beside any number of busy processes of jobs.
//!
//! The kernel shares the processors by session where autogroup is in effect, else by process, so a bomb of 300 leaves
//! others a 300th. Both weights are raised, where this process may (root, or RLIMIT_NICE). A job has neither: its
//! session is its own, and the parked child takes its nice value back.

use std::fs::OpenOptions;
use std::io::Write;

use nix::unistd::{getpid, getsid};
use rustix::process::{getpriority_process, setpriority_process};

/// Nice value of keeper and supervisor: about ten times the share of a process with 0.
const NICE: i32 = -10;

/// Raises the priority of this process and, if it leads its session, of that: others may share the session of a
/// shell. Gives the nice value before, which children take back.
pub(super) fn raise() -> Option<i32> {
    if getsid(None).is_ok_and(|session| session == getpid()) {
        raise_session();
    }
    let before = getpriority_process(None).ok()?;
    (before > NICE && setpriority_process(None, NICE).is_ok()).then_some(before)
}

/// Raises the share of this session. A session that is made below it has the usual one.
pub(super) fn raise_session() {
    let file = OpenOptions::new().write(true).open("/proc/self/autogroup");
    _ = file.and_then(|mut file| file.write_all(NICE.to_string().as_bytes()));
}

/// Gives up a raised priority for good.
pub(super) fn lower() {
    if getpriority_process(None).is_ok_and(|nice| nice < 0) {
        take_back(0);
    }
}

/// Takes back the nice value from before [`raise`].
pub(super) fn take_back(nice: i32) {
    _ = setpriority_process(None, nice);
}
