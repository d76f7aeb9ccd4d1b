//! The living templates, and the forks that each of them still owes.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::children::session_of;
use super::life::Ends;
use model::WorkerId;

/// The templates whose leader is not reaped.
#[derive(Default)]
pub(super) struct Templates {
    pub living: BTreeMap<WorkerId, Template>,
    /// Number of forks asked for so far.
    pub asked: u64,
    /// Unknown children in a template's session. The number says how many forks had been asked for when each was first
    /// seen.
    pub newborns: HashMap<i32, u64>,
    /// Whether a life was given up: its child may exist all the same.
    pub in_doubt: bool,
    /// The cgroups of lives that never began, while some process lives there.
    pub abandoned: Vec<WorkerId>,
}

/// A template that lives.
pub(super) struct Template {
    pid: i32,
    /// The socket to the template; None once it is of no use any more.
    pub socket: Option<OwnedFd>,
    pub pending: BTreeMap<WorkerId, Pending>,
    /// Whether a life was given up whose child may still report: the keeper listens for it, and kills it.
    owes: bool,
    /// Number of lines printed about this template.
    pub complaints: u32,
}

/// A life that has no leader yet.
pub(super) struct Pending {
    /// None: the life is there already, without a leader.
    pub ends: Option<Ends>,
    /// Number of this fork, from 1.
    pub number: u64,
    /// Whether TERM was ordered for it: the child gets it as soon as it has reported.
    pub terminated: bool,
}

/// How an unknown child is related to the living templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kin {
    /// It may still report for a life that waits.
    Newborn,
    /// No life waits for it any more.
    GivenUp,
    None,
}

impl Template {
    /// Whether children of this template have yet to report.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.pending.is_empty() || self.owes
    }

    /// Takes the life out. Its child may still report.
    pub(crate) fn give_up(&mut self, worker: WorkerId) -> Option<Pending> {
        // One of the spawner's ends by an answer of its own.
        self.pending.get(&worker)?.ends.as_ref()?;
        let pending = self.pending.remove(&worker);
        self.owes |= pending.is_some();
        pending
    }
}

impl Templates {
    pub(crate) fn add(&mut self, worker: WorkerId, pid: i32, socket: OwnedFd) {
        let template =
            Template { pid, socket: Some(socket), pending: BTreeMap::new(), owes: false, complaints: 0 };
        self.living.insert(worker, template);
    }

    /// The sockets of templates that are to fork: only there can a reply come.
    pub(crate) fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        let awaited = self.living.values().filter(|template| template.is_awaited());
        awaited.filter_map(|template| template.socket.as_ref().map(AsFd::as_fd)).collect()
    }

    pub(crate) fn are_awaited(&self) -> bool {
        self.living.values().any(Template::is_awaited)
    }

    /// Whether no unknown child of theirs and no abandoned cgroup is left to look at.
    pub(crate) fn are_clear(&self) -> bool {
        self.newborns.is_empty() && !self.in_doubt && self.abandoned.is_empty()
    }

    /// The life that waits to be born, if it does.
    pub(crate) fn pending(&mut self, worker: WorkerId) -> Option<&mut Pending> {
        self.living.values_mut().find_map(|template| template.pending.get_mut(&worker))
    }

    pub(crate) fn are_to_fork(&self, worker: WorkerId) -> bool {
        self.living.values().any(|template| template.pending.contains_key(&worker))
    }

    /// Notes which children are still unknown, before [`Templates::kin`] is asked about each.
    pub(crate) fn still_unknown(&mut self, unknown: &[i32]) {
        self.in_doubt = false;
        if !self.newborns.is_empty() {
            self.newborns.retain(|pid, _| unknown.contains(pid));
        }
    }

    /// Relates an unknown child to the templates. A fork that was asked for after a newborn was first seen cannot be
    /// that newborn: so no newborn is left running for ever.
    pub(crate) fn kin(&mut self, pid: i32) -> Kin {
        if self.living.is_empty() {
            return Kin::None;
        }
        let session = session_of(pid);
        let Some(template) = self.living.values().find(|template| Some(template.pid) == session) else {
            return Kin::None;
        };
        let seen = *self.newborns.get(&pid).unwrap_or(&self.asked);
        if template.pending.values().any(|pending| pending.number <= seen) {
            self.newborns.insert(pid, seen);
            return Kin::Newborn;
        }
        Kin::GivenUp
    }
}
