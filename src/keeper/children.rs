//! The keeper's list of its children, zombies included: every proof of death rests on it.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// A shorter answer than this ends the list: the kernel fills a page before it stops.
const SURELY_WHOLE: usize = 2048;

/// `/proc/self/task/TID/children`, kept open.
///
/// Only the keeper removes entries (by reaping), orphans are appended, and an orphan becomes our child in the moment
/// its parent dies. So reading on by position skips no child, as long as nothing is reaped in between.
pub(super) struct Children {
    file: File,
    text: Vec<u8>,
    pids: Vec<i32>,
}

impl Children {
    pub(crate) fn open() -> std::io::Result<Self> {
        let tid = std::process::id();
        let file = File::open(format!("/proc/self/task/{tid}/children"))?;
        Ok(Children { file, text: vec![0; 4096], pids: Vec::new() })
    }

    /// All children at this moment. None when the list cannot be read: then nothing is proven.
    pub(crate) fn read(&mut self) -> Option<&[i32]> {
        self.pids.clear();
        let (mut offset, mut number) = (0, None);
        loop {
            let len = self.file.read_at(&mut self.text, offset).ok()?;
            for &byte in &self.text[..len] {
                if byte.is_ascii_digit() {
                    number = Some(number.unwrap_or(0) * 10 + i32::from(byte - b'0'));
                } else {
                    self.pids.extend(number.take());
                }
            }
            offset += len as u64;
            if len < SURELY_WHOLE {
                self.pids.extend(number);
                return Some(&self.pids);
            }
        }
    }
}

/// A field of a process's `stat`, counted from the state, which is field 0. It works for zombies too.
pub(super) fn stat_field(pid: i32, field: usize) -> std::io::Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in parentheses may contain anything.
    let fields = stat.rsplit_once(") ").map(|(_, fields)| fields);
    let value = fields.and_then(|fields| fields.split(' ').nth(field)?.parse().ok());
    value.ok_or_else(|| std::io::Error::other("a process without that field"))
}

/// The state of a process: `R`, `S`, `D`, `Z` …; `X` when it is gone.
pub(super) fn state_of(pid: i32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").and_then(|(_, fields)| fields.chars().next()).unwrap_or('X')
}

/// Whether a process has ended, reaped or not. False if the process cannot be looked at.
pub(super) fn is_dead(pid: i32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.rsplit_once(") ").is_some_and(|(_, fields)| is_dead_in(fields)),
        Err(error) => error.kind() != std::io::ErrorKind::PermissionDenied,
    }
}

/// Reads the state from the fields of `stat`. A process is also in state Z if its first thread has ended before the
/// others.
fn is_dead_in(fields: &str) -> bool {
    let threads = fields.split(' ').nth(17).and_then(|count| count.parse().ok()).unwrap_or(0);
    fields.starts_with('X') || fields.starts_with('Z') && threads <= 1
}

/// The session that a process is in.
pub(super) fn session_of(pid: i32) -> Option<i32> {
    stat_field(pid, 3).ok().and_then(|session| session.try_into().ok())
}

/// When a process started, in clock ticks since boot.
pub(super) fn start_of(pid: i32) -> std::io::Result<u64> {
    stat_field(pid, 19)
}

/// The children of any process, by all of its threads. A hint, not a proof.
pub(super) fn children_of(pid: i32) -> Vec<i32> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().flat_map(str::parse).collect::<Vec<i32>>()).collect()
}

/// All processes below a process. A hint, not a proof.
pub(super) fn descendants(pid: i32) -> Vec<i32> {
    let mut found = children_of(pid);
    let mut next = 0;
    // The bound is the kernel's own on pids; a process storm must not keep us here.
    while next < found.len() && found.len() < 65_536 {
        let below = children_of(found[next]);
        found.extend(below);
        next += 1;
    }
    found
}
