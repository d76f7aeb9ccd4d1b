//! What a job leaves running in a worker that lives on.

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::usage;
use crate::model::{Leftovers, Process};

/// Processes that fork while they are killed are struck again so often; what is left then ends with the worker.
const ROUNDS: u32 = 5;

/// The worker's children now, of which no job is accused later.
pub(super) fn settle(worker: i32) -> Vec<i32> {
    usage::children(worker)
}

/// What is there after a job that was not there before it, in words. Orphans are there, too: a worker adopts those of its
/// tree. With `kill` it is ended.
pub(super) fn take(worker: i32, settled: &mut Vec<i32>, how: Leftovers) -> Vec<String> {
    let mut found = left(worker, settled);
    let mut words: Vec<String> =
        found.iter().map(|left| format!("{} (pid {})", left.name, left.pid)).collect();
    if how == Leftovers::Kill && !found.is_empty() {
        for _ in 0..ROUNDS {
            found.iter().for_each(|left| end(worker, left.pid));
            found = left(worker, settled);
            if found.is_empty() {
                break;
            }
        }
        words.iter_mut().for_each(|word| word.push_str(", killed"));
    }
    *settled = usage::children(worker);
    words
}

/// Those that live: a child that has ended and was not waited for is no trouble.
fn left(worker: i32, settled: &[i32]) -> Vec<Process> {
    let new = usage::children(worker).into_iter().filter(|pid| !settled.contains(pid));
    new.filter_map(usage::process).filter(|process| process.state != "Z").collect()
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
