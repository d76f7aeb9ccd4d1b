//! Processes that a job leaves running in a worker that lives on.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::usage;
use model::{Leftovers, Process};

/// How often to kill processes that fork while they are killed; those left then end with the worker.
const ROUNDS: u32 = 5;

/// Limit of kills a round.
const STRUCK: usize = 4096;

/// Number of links of a task directory with one thread: itself, its parent's, and the thread's.
const ONE_THREAD: u64 = 3;

/// The children of a worker. They are read after each of its jobs, so the files in /proc stay open.
pub(super) struct ChildTracker {
    worker: i32,
    /// Its threads, and the children of the first thread.
    files: io::Result<(File, File)>,
    /// Children that were there before a job, so that no later job is blamed for them.
    settled: Vec<i32>,
}

impl ChildTracker {
    /// Children that exist now belong to no job.
    pub(super) fn new(worker: i32) -> ChildTracker {
        let tasks = format!("/proc/{worker}/task");
        let files = File::open(&tasks)
            .and_then(|threads| Ok((threads, File::open(format!("{tasks}/{worker}/children"))?)));
        let mut brood = ChildTracker { worker, files, settled: Vec::new() };
        brood.settled = brood.now();
        brood
    }

    /// Describes the children that are new since before the job. They include orphans, as a worker adopts those of its
    /// tree. With `Kill` they are ended.
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
            // The usual case: one thread, and few children or none.
            Ok((threads, children)) if alone(threads) => match children.read_at(&mut list, 0) {
                // A full buffer may have cut the list.
                Ok(len) if len < list.len() => usage::pids(&String::from_utf8_lossy(&list[..len])),
                Ok(_) | Err(_) => usage::children(self.worker),
            },
            Ok(_) | Err(_) => usage::children(self.worker),
        }
    }

    /// The new children that live: one that has ended and was not waited for does no harm.
    fn living(&self, children: Vec<i32>) -> Vec<Process> {
        let new = children.into_iter().filter(|pid| !self.settled.contains(pid));
        new.filter_map(usage::process).filter(|process| process.state != "Z").collect()
    }
}

/// Number of processes that earlier jobs have left in a worker.
pub(super) fn earlier(brood: Option<&ChildTracker>) -> u32 {
    brood.map_or(0, |brood| u32::try_from(brood.settled.len()).unwrap_or(u32::MAX))
}

/// Ends a child of the worker and all below it, the deepest first. An orphan decides how deep its tree is, so this uses
/// a list and not the stack. Processes beyond `STRUCK` are found in the next round.
fn end(worker: i32, pid: i32) {
    let (mut tree, mut at) = (vec![(worker, pid)], 0);
    while let Some(&(_, pid)) = tree.get(at).filter(|_| tree.len() < STRUCK) {
        tree.extend(usage::children(pid).into_iter().map(|below| (pid, below)));
        at += 1;
    }
    tree.into_iter().rev().for_each(|(parent, pid)| stop(worker, parent, pid));
}

/// Signals a process by its pidfd: after the check that it is still that child, it cannot be another process by the
/// time of the signal. A child whose parent has ended meanwhile has become the worker's.
fn stop(worker: i32, parent: i32, pid: i32) {
    let Some(held) = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
        return;
    };
    if usage::parent(pid).is_some_and(|found| found == parent || found == worker) {
        _ = pidfd_send_signal(held, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::fd::AsFd;
    use std::process::{Command, Stdio};

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::*;

    /// Each child forks the next; the last one prints a line.
    const CHAIN: &str = r"
import os, sys, time
for left in range(int(sys.argv[1])):
    if os.fork():
        time.sleep(1000)
print(os.getpid(), flush=True)
time.sleep(1000)";

    #[test]
    fn very_deep_process_tree_is_killed_on_a_small_stack() {
        let mut python = Command::new("python3");
        let mut first = python.args(["-c", CHAIN, "300"]).stdout(Stdio::piped()).spawn().expect("python3");
        let mut last = String::new();
        BufReader::new(first.stdout.take().unwrap()).read_line(&mut last).unwrap();
        let last = Pid::from_raw(last.trim().parse().unwrap()).unwrap();
        let deepest = pidfd_open(last, PidfdFlags::empty()).unwrap();
        let (own, pid) = (std::process::id() as i32, first.id() as i32);
        let thread = std::thread::Builder::new().stack_size(64 << 10);
        thread.spawn(move || end(own, pid)).unwrap().join().unwrap();
        assert!(!first.wait().unwrap().success());
        // A killed process takes a moment to die.
        let mut ends = [PollFd::new(deepest.as_fd(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut ends, PollTimeout::from(10_000u16)), Ok(1), "{last:?} lives");
    }
}
