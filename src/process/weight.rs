//! Total resources of the processes of a tree.

use std::fs;
use std::time::Duration;

use super::usage;
use model::Process;

/// A process with everything below it, at one moment.
#[derive(Debug, Default)]
pub(super) struct Tree {
    processes: Vec<Process>,
    /// CPU time, including that of children that have ended and were waited for.
    pub(super) cpu: Duration,
}

impl Tree {
    /// Reads a tree of at most `most` + 1 processes, so that a fork bomb does not slow us down.
    pub(super) fn of(pid: i32, most: usize) -> Tree {
        let (mut tree, mut next) = (Tree::default(), vec![pid]);
        while let Some(pid) = next.pop().filter(|_| tree.processes.len() <= most) {
            let Some((process, cpu)) = usage::process_and_waited(pid) else { continue };
            tree.cpu += process.cpu + cpu;
            tree.processes.push(process);
            next.extend(usage::children(pid));
        }
        tree
    }

    /// Number of processes in the tree.
    pub(super) fn len(&self) -> usize {
        self.processes.len()
    }

    /// Resident memory: cheap to read, but memory that several processes share counts for each.
    pub(super) fn resident(&self) -> u64 {
        self.processes.iter().map(|process| process.rss).sum()
    }

    /// Memory with shared parts counted once, and with what was swapped out: expensive, as the kernel walks through all
    /// pages.
    pub(super) fn memory(&self) -> u64 {
        let own = |process: &Process| {
            let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", process.pid));
            rollup.ok().and_then(|text| proportional(&text)).unwrap_or(process.rss)
        };
        self.processes.iter().map(own).sum()
    }
}

/// Reads the memory that a process has alone, plus its part of shared memory.
fn proportional(rollup: &str) -> Option<u64> {
    let field = |name: &str| {
        let line = rollup.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    Some((field("Pss:")? + field("SwapPss:").unwrap_or(0)) * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_counts_proportional_shares_and_swap() {
        let rollup =
            "55 [rollup]\nRss:  900 kB\nPss:   300 kB\nPss_Anon: 7 kB\nSwap: 9 kB\nSwapPss:  20 kB\n";
        assert_eq!(proportional(rollup), Some(320 * 1024));
        assert_eq!(proportional("Rss: 900 kB\n"), None);
    }

    #[test]
    fn this_process_takes_memory_and_is_counted() {
        let tree = Tree::of(std::process::id() as i32, 1000);
        assert!(tree.len() >= 1 && tree.memory() > 0 && tree.memory() <= tree.resident() + (64 << 20));
    }

    #[test]
    fn tree_scan_stops_one_process_after_its_limit() {
        assert_eq!(Tree::of(std::process::id() as i32, 0).len(), 1);
    }
}
