//! The templates that live, and the forks that each of them owes.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::children::session_of;
use super::life::Ends;
use crate::model::WorkerId;

/// The templates whose leader is not reaped.
#[derive(Default)]
pub(super) struct Templates {
    pub living: BTreeMap<WorkerId, Template>,
    /// How many forks were ever asked for.
    pub asked: u64,
    /// Unknown children in a template's session, and how many forks had been asked for when each was first seen.
    pub newborns: HashMap<i32, u64>,
    /// A life was given up: its child may be there all the same.
    pub in_doubt: bool,
    /// The cgroups of lives that never began, as long as somebody lives there.
    pub abandoned: Vec<WorkerId>,
}

/// A template that lives.
pub(super) struct Template {
    pid: i32,
    /// None once it is of no use any more.
    pub socket: Option<OwnedFd>,
    pub pending: BTreeMap<WorkerId, Pending>,
    /// Whether a life was given up whose child may speak yet: it is heard, and killed.
    owes: bool,
    /// How many lines were printed about it.
    pub complaints: u32,
}

/// A life that has no leader yet.
pub(super) struct Pending {
    pub ends: Ends,
    /// Which fork this is, counted from 1.
    pub number: u64,
}

/// What an unknown child is to the living templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kin {
    /// It may speak yet.
    Newborn,
    /// No life waits for it any more.
    GivenUp,
    None,
}

impl Template {
    /// Whether its children have yet to speak.
    pub fn is_awaited(&self) -> bool {
        !self.pending.is_empty() || self.owes
    }

    /// Takes the life out. Its child may speak all the same.
    pub fn give_up(&mut self, worker: WorkerId) -> Option<Pending> {
        let pending = self.pending.remove(&worker);
        self.owes |= pending.is_some();
        pending
    }
}

impl Templates {
    pub fn add(&mut self, worker: WorkerId, pid: i32, socket: OwnedFd) {
        let template =
            Template { pid, socket: Some(socket), pending: BTreeMap::new(), owes: false, complaints: 0 };
        self.living.insert(worker, template);
    }

    /// Of those that are to fork: nobody else has anything to say.
    pub fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        let awaited = self.living.values().filter(|template| template.is_awaited());
        awaited.filter_map(|template| template.socket.as_ref().map(AsFd::as_fd)).collect()
    }

    pub fn are_awaited(&self) -> bool {
        self.living.values().any(Template::is_awaited)
    }

    /// Whether no child of theirs can be in anybody's way.
    pub fn are_clear(&self) -> bool {
        self.newborns.is_empty() && !self.in_doubt && self.abandoned.is_empty()
    }

    pub fn are_to_fork(&self, worker: WorkerId) -> bool {
        self.living.values().any(|template| template.pending.contains_key(&worker))
    }

    /// Before [`Templates::kin`] is asked about all that are unknown.
    pub fn still_unknown(&mut self, unknown: &[i32]) {
        self.in_doubt = false;
        if !self.newborns.is_empty() {
            self.newborns.retain(|pid, _| unknown.contains(pid));
        }
    }

    /// A fork that was asked for after a newborn was seen is not its own: so none is let be for ever.
    pub fn kin(&mut self, pid: i32) -> Kin {
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
