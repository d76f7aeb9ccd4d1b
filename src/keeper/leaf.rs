//! Which lives have the directory of a life before them, as it had left it.
//!
//! To make and remove a cgroup costs 50 us, to look at one 5. A follower is born in the directory of the life before if
//! no process lives there and nobody has changed anything in it: no limit, no owner, no cgroup below it, nothing moved
//! in or killed. An inotify watch shows each such change, whoever makes it, before the call that makes it returns. The
//! keeper's own writes (`cgroup.kill`, bounds) are such changes too.

use std::collections::{BTreeMap, HashSet};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use model::WorkerId;

/// The file that the kernel itself changes, when the first process comes and the last one goes.
const EVENTS: &std::ffi::CStr = c"cgroup.events";

/// The directories of lives that are watched for changes.
pub(super) struct Leaves {
    /// None where the system gives no inotify: then each life has a directory of its own.
    inotify: Option<OwnedFd>,
    watched: BTreeMap<WorkerId, Leaf>,
    /// The watches of directories that were changed.
    changed: HashSet<i32>,
}

/// A watched directory.
struct Leaf {
    /// The life for which it was made, by which it is named.
    named: WorkerId,
    watch: i32,
}

impl Leaves {
    pub(crate) fn new() -> Leaves {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        Leaves { inotify, watched: BTreeMap::new(), changed: HashSet::new() }
    }

    /// Watches the fresh directory of a life, before anybody lives there.
    pub(crate) fn watch(&mut self, worker: WorkerId, path: &Path) {
        self.see_changes();
        let changes = WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVE
            | WatchFlags::ONLYDIR;
        let watch = self.inotify.as_ref().map(|inotify| inotify::add_watch(inotify, path, changes));
        if let Some(Ok(watch)) = watch {
            self.watched.insert(worker, Leaf { named: worker, watch });
        }
    }

    /// The name of a life's directory.
    pub(crate) fn name(&self, worker: WorkerId) -> String {
        self.watched.get(&worker).map_or(worker, |leaf| leaf.named).to_string()
    }

    /// Whether a life has the directory of one before it.
    pub(crate) fn has(&self, worker: WorkerId) -> bool {
        self.watched.contains_key(&worker)
    }

    /// Whether nobody has changed anything in a life's directory.
    pub(crate) fn is_as_made(&mut self, worker: WorkerId) -> bool {
        self.see_changes();
        self.watched.get(&worker).is_some_and(|leaf| !self.changed.contains(&leaf.watch))
    }

    /// The next life of the slot has the directory from now on.
    pub(crate) fn hand_on(&mut self, worker: WorkerId) {
        if let Some(leaf) = self.watched.remove(&worker) {
            self.watched.insert(worker.next(), leaf);
        }
    }

    /// The directory is removed: the kernel has ended its watch.
    pub(crate) fn removed(&mut self, worker: WorkerId) {
        if let Some(leaf) = self.watched.remove(&worker) {
            self.changed.remove(&leaf.watch);
        }
    }

    fn see_changes(&mut self) {
        let Some(inotify) = &self.inotify else { return };
        let mut space = [MaybeUninit::uninit(); 512];
        let mut changes = Reader::new(inotify, &mut space);
        loop {
            match changes.next() {
                Ok(change) if change.events().contains(ReadFlags::IGNORED) => {}
                Ok(change) if change.events().contains(ReadFlags::QUEUE_OVERFLOW) => {
                    self.changed.extend(self.watched.values().map(|leaf| leaf.watch));
                }
                Ok(change) if change.file_name() == Some(EVENTS) => {}
                Ok(change) => _ = self.changed.insert(change.wd()),
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        // A directory that is gone was changed by its removal, which nobody needs to know.
        if self.changed.len() > self.watched.len() {
            let watched: HashSet<i32> = self.watched.values().map(|leaf| leaf.watch).collect();
            self.changed.retain(|watch| watched.contains(watch));
        }
    }
}
