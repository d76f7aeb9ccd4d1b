//! Children of the keeper that no life has left: they are spared, and no proof waits for them.
//!
//! A process that becomes the keeper by exec keeps the children that it had before, such as a daemon of the script that
//! ended with `exec taskvisor start`. Those that are there when the first life is made are known by their pid, which
//! nobody else gets before the keeper has reaped it. What they leave is known by its session: each life begins a
//! session of its own before it runs anything, and no process can enter a session that exists. So no life has started
//! what is in the keeper's own session. Nor has one started what has neither the keeper's [`mark`] nor its tag: what
//! entered a container beside the keeper (`docker exec`). Only process 1 adopts what that leaves, so no other keeper
//! spares an unmarked process.

use std::collections::HashSet;

use super::children::{session_of, start_of};
use super::{TAG_VARIABLE, mark};

/// The strangers that are not reaped.
pub(super) struct Strangers {
    pids: HashSet<i32>,
    /// The keeper's own session.
    session: Option<i32>,
    /// Whether this keeper is process 1 and has a mark, as then all that it starts has.
    adopts_unmarked: bool,
    /// Whether a life was made: an unknown child may be its own from then on.
    has_lives: bool,
}

/// Whether the environment of a process can be read and names no keeper.
fn has_no_tag(pid: i32) -> bool {
    let name = format!("{TAG_VARIABLE}=");
    let is_tag = |variable: &[u8]| variable.starts_with(name.as_bytes());
    std::fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environ| !environ.is_empty() && !environ.split(|byte| *byte == 0).any(is_tag))
}

impl Strangers {
    pub(crate) fn new() -> Self {
        let own = std::process::id() as i32;
        let is_marked = start_of(own).and_then(|start| mark::is_on(own, mark::of(own, start)));
        Strangers {
            pids: HashSet::new(),
            session: session_of(own),
            adopts_unmarked: own == 1 && is_marked.unwrap_or(false),
            has_lives: false,
        }
    }

    /// Before the first life, every child but the supervisor is a stranger. Later calls change nothing.
    pub(crate) fn before_a_life(&mut self, children: Option<&[i32]>, supervisor: Option<i32>) {
        if !std::mem::replace(&mut self.has_lives, true) {
            let there = children.unwrap_or_default().iter().copied();
            self.pids.extend(there.filter(|pid| Some(*pid) != supervisor));
        }
    }

    /// Whether a life is still to be made.
    pub(crate) fn are_alone(&self) -> bool {
        !self.has_lives
    }

    pub(crate) fn contains(&self, pid: i32) -> bool {
        self.pids.contains(&pid)
    }

    /// Removes a stranger that is reaped. False if it was none.
    pub(crate) fn reaped(&mut self, pid: i32) -> bool {
        self.pids.remove(&pid)
    }

    /// Whether an unknown child is a stranger, perhaps seen for the first time.
    pub(crate) fn recognize(&mut self, pid: i32) -> bool {
        let is_of_our_session = || self.session.is_some() && session_of(pid) == self.session;
        let is_unmarked =
            || self.adopts_unmarked && matches!(mark::is_absent(pid), Ok(true)) && has_no_tag(pid);
        if !self.pids.contains(&pid) && (is_of_our_session() || is_unmarked()) {
            self.pids.insert(pid);
        }
        self.pids.contains(&pid)
    }
}
