//! The keeper's mark on all its descendants: a number in a resource limit that has no effect.
//!
//! `RLIMIT_LOCKS` has had no effect since Linux 2.4.25. Every process inherits it across fork, exec, `setsid` and a
//! change of user. /proc shows the limit of every process to every user, even where the environment cannot be read: of
//! a process that is not dumpable, runs a setuid program or is in the middle of an exec. Only the soft limit is set, so
//! that a keeper below this one can set its own.

use std::io;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Smallest mark. No limit that a person sets is as large; the infinite one is larger.
const FLOOR: u64 = 1 << 62;

/// Linux numbers processes with 22 bits at most.
const PID_BITS: u32 = 22;

/// The mark of the keeper with this pid and start time (in clock ticks), unique in this boot.
pub(super) fn of(keeper: i32, start: u64) -> u64 {
    FLOOR | (start << PID_BITS) & (FLOOR - 1) | u64::from(keeper.unsigned_abs()) & ((1 << PID_BITS) - 1)
}

/// Marks this process and all that it starts from now on. False if the hard limit is below the mark.
pub(super) fn put_on(mark: u64) -> bool {
    let hard = getrlimit(Resource::RLIMIT_LOCKS).map_or(0, |(_, hard)| hard);
    mark <= hard && setrlimit(Resource::RLIMIT_LOCKS, mark, hard).is_ok()
}

/// Takes the mark off this process.
pub(super) fn take_off() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_LOCKS) {
        _ = setrlimit(Resource::RLIMIT_LOCKS, hard, hard);
    }
}

/// Whether a process, alive or not yet reaped, has the mark.
pub(super) fn is_on(pid: i32, mark: u64) -> io::Result<bool> {
    Ok(limit_of(pid)? == Some(mark))
}

/// Whether a process has no keeper's mark, neither ours nor that of a keeper that a job runs.
pub(super) fn is_absent(pid: i32) -> io::Result<bool> {
    Ok(!limit_of(pid)?.is_some_and(|limit| (FLOOR..u64::MAX).contains(&limit)))
}

/// The soft limit that holds the mark. None = infinite.
fn limit_of(pid: i32) -> io::Result<Option<u64>> {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits"))?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max file locks"));
    // A process without limits was reaped while we looked.
    let soft = line.and_then(|line| line.split_whitespace().next()).ok_or(io::ErrorKind::NotFound)?;
    Ok(soft.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_keepers_have_two_marks_and_neither_is_the_infinite_limit() {
        let marks = [of(1, 0), of(1, 1), of(2, 0), of(4_194_303, 1 << 39), of(4_194_303, (1 << 40) - 1)];
        for (index, mark) in marks.iter().enumerate() {
            assert!(*mark >= FLOOR && *mark < u64::MAX, "{mark}");
            assert!(!marks[..index].contains(mark), "{marks:?}");
        }
    }

    #[test]
    fn this_process_is_not_marked() {
        let own = std::process::id() as i32;
        assert!(!is_on(own, of(1, 1)).unwrap() && is_absent(own).unwrap());
        assert_eq!(is_on(0, of(1, 1)).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
