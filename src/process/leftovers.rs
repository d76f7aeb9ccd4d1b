//! What a job leaves running in a worker that lives on.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::usage;
use crate::model::{Leftovers, Process};

/// Processes that fork while they are killed are struck again so often; what is left then ends with the worker.
const ROUNDS: u32 = 5;

/// The links of a task directory with one thread: itself, its parent's, and the thread's.
const ONE_THREAD: u64 = 3;

/// The children of a worker. Looked at after each of its jobs, so its files in /proc are kept open.
pub(super) struct Brood {
    worker: i32,
    /// Its threads, and the children of the first.
    files: io::Result<(File, File)>,
    /// Those that were there before a job, of which none is accused later.
    settled: Vec<i32>,
}

impl Brood {
    /// What is there now is no job's.
    pub(super) fn new(worker: i32) -> Brood {
        let tasks = format!("/proc/{worker}/task");
        let files = File::open(&tasks)
            .and_then(|threads| Ok((threads, File::open(format!("{tasks}/{worker}/children"))?)));
        let mut brood = Brood { worker, files, settled: Vec::new() };
        brood.settled = brood.now();
        brood
    }

    /// What is there after a job that was not there before it, in words. Orphans are there, too: a worker adopts those of
    /// its tree. With `Kill` it is ended.
    pub(super) fn leftovers(&mut self, how: Leftovers) -> Vec<String> {
        let children = self.now();
        if children.is_empty() || children == self.settled {
            return Vec::new();
        }
        let mut found = self.living(children);
        let mut words: Vec<String> =
            found.iter().map(|left| format!("{} (pid {})", left.name, left.pid)).collect();
        if how == Leftovers::Kill && !found.is_empty() {
            for _ in 0..ROUNDS {
                found.iter().for_each(|left| end(self.worker, left.pid));
                found = self.living(self.now());
                if found.is_empty() {
                    break;
                }
            }
            words.iter_mut().for_each(|word| word.push_str(", killed"));
        }
        self.settled = self.now();
        words
    }

    fn now(&self) -> Vec<i32> {
        let alone = |threads: &File| threads.metadata().is_ok_and(|found| found.nlink() <= ONE_THREAD);
        let mut list = [0; 4096];
        match &self.files {
            // Nearly always: one thread, and few children or none.
            Ok((threads, children)) if alone(threads) => match children.read_at(&mut list, 0) {
                Ok(len) if len < list.len() => usage::pids(&String::from_utf8_lossy(&list[..len])),
                Ok(_) | Err(_) => usage::children(self.worker),
            },
            Ok(_) | Err(_) => usage::children(self.worker),
        }
    }

    /// The new ones that live: a child that has ended and was not waited for is no trouble.
    fn living(&self, children: Vec<i32>) -> Vec<Process> {
        let new = children.into_iter().filter(|pid| !self.settled.contains(pid));
        new.filter_map(usage::process).filter(|process| process.state != "Z").collect()
    }
}

/// Ends a child of the worker and all below it. Held by its descriptor, and then found to be that child still, it cannot be
/// another process by the time the signal is sent.
fn end(parent: i32, pid: i32) {
    let Some(held) = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
        return;
    };
    if !usage::children(parent).contains(&pid) {
        return;
    }
    usage::children(pid).into_iter().for_each(|below| end(pid, below));
    _ = pidfd_send_signal(held, Signal::KILL);
}
