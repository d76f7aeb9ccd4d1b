//! What /proc shows of a process and everything below it.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use super::page::page_size;
use model::Process;

/// A child of that parent with its tree, or None if it is gone: a process that has its pid by now has another parent.
/// Depth and breadth are limited, so that a runaway job does not blow up `status`.
pub fn tree(pid: i32, parent: i32) -> Option<Process> {
    tree_of(pid, parent, 500)
}

fn tree_of(pid: i32, parent: i32, mut most: u32) -> Option<Process> {
    walk(pid, parent, 0, &mut most)
}

/// One process without its children.
pub fn process(pid: i32) -> Option<Process> {
    look(pid).map(|stat| stat.process)
}

/// One process, and the CPU time of its children that have ended and that it has waited for.
pub(super) fn process_and_waited(pid: i32) -> Option<(Process, Duration)> {
    look(pid).map(|stat| (stat.process, stat.waited))
}

/// A process of which a line of /proc was handed over open. It can be read where /proc hides the process (`hidepid`, or
/// systemd's ProtectProc), as it does a process that is not dumpable from all but root.
#[derive(Debug)]
pub struct Known {
    pid: i32,
    stat: Option<File>,
}

impl Known {
    /// A process, and its /proc/PID/stat.
    pub fn new(pid: i32, stat: Option<OwnedFd>) -> Known {
        Known { pid, stat: stat.map(File::from) }
    }

    /// The process as it is now. What cannot be seen is empty, but the pid.
    pub fn look(&self) -> Process {
        let mut line = [0; 1024];
        let opened = self.stat.as_ref().and_then(|stat| stat.read_at(&mut line, 0).ok());
        let seen =
            opened.and_then(|length| parse(self.pid, &String::from_utf8_lossy(&line[..length]), page_size()));
        let seen = seen.map(|stat| stat.process).or_else(|| process(self.pid));
        seen.unwrap_or_else(|| Process { pid: self.pid, ..Process::default() })
    }
}

/// The parent of a process, or None if it is gone.
pub fn parent(pid: i32) -> Option<i32> {
    look(pid).map(|stat| stat.parent)
}

/// The fields of a line of /proc/PID/stat.
struct Stat {
    process: Process,
    parent: i32,
    threads: u64,
    /// CPU time of its children that have ended and that it has waited for.
    waited: Duration,
}

/// Reads one process with only three system calls, as there may be thousands.
fn look(pid: i32) -> Option<Stat> {
    let mut line = [0; 1024];
    let length = File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut line).ok()?;
    parse(pid, &String::from_utf8_lossy(&line[..length]), page_size())
}

fn walk(pid: i32, parent: i32, depth: u32, left: &mut u32) -> Option<Process> {
    *left = left.checked_sub(1)?;
    let Stat { mut process, parent: of, threads, .. } = look(pid)?;
    if of != parent {
        return None;
    }
    if depth < 40 {
        // One thread need not be looked for in a directory.
        let below = if threads == 1 { children_of_thread(pid, pid) } else { children(pid) };
        for child in below {
            if *left == 0 {
                process.cut = true;
                break;
            }
            process.children.extend(walk(child, pid, depth + 1, left));
        }
    }
    Some(process)
}

/// Number of descriptors that a process has open.
pub fn descriptors(pid: i32) -> Option<u64> {
    let path = format!("/proc/{pid}/fd");
    match fs::metadata(&path).ok()?.len() {
        // Only kernels since 6.2 give the number directly.
        0 => Some(fs::read_dir(path).ok()?.count() as u64),
        open => Some(open),
    }
}

/// Its children, by all of its threads.
pub(super) fn children(pid: i32) -> Vec<i32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let threads = tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok());
    threads.flat_map(|thread| children_of_thread(pid, thread)).collect()
}

fn children_of_thread(pid: i32, thread: i32) -> Vec<i32> {
    pids(&fs::read_to_string(format!("/proc/{pid}/task/{thread}/children")).unwrap_or_default())
}

/// A list of pids in the form of /proc.
pub(super) fn pids(list: &str) -> Vec<i32> {
    list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Reads a line of /proc/PID/stat on a machine with pages of this many bytes. The name is in parentheses and may itself hold spaces and parentheses.
fn parse(pid: i32, stat: &str, page: u64) -> Option<Stat> {
    let (open, close) = (stat.find('(')?, stat.rfind(')')?);
    let fields: Vec<&str> = stat.get(close + 2..)?.split(' ').collect();
    let number = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
    // Fields 14 and 15 are CPU time in ticks of 10 ms, 16 and 17 that of children, 20 is the number of threads, 24
    // resident pages; counting starts after the name at 3.
    let time = |ticks: u64| Duration::from_millis(ticks * 10);
    let (own, waited) = (number(11)? + number(12)?, number(13)? + number(14)?);
    let process = Process {
        pid,
        name: stat.get(open + 1..close)?.to_owned(),
        state: fields.first()?.to_string(),
        rss: number(21)? * page,
        cpu: time(own),
        children: Vec::new(),
        cut: false,
    };
    let (parent, threads) = (fields.get(1)?.parse().ok()?, number(17)?);
    Some(Stat { process, parent, threads, waited: time(waited) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_name_may_contain_any_characters() {
        let line = "7 (a) (b c) S 1 7 7 0 -1 4 1 2 3 4 150 50 7 8 20 0 1 0 99 1000 25 18446 1";
        let Stat { process: found, parent, threads, waited } = parse(7, line, 4096).expect("a process");
        assert_eq!((parent, threads, waited), (1, 1, Duration::from_millis(150)));
        assert_eq!((found.name.as_str(), found.state.as_str()), ("a) (b c", "S"));
        assert_eq!((found.cpu, found.rss), (Duration::from_secs(2), 25 * 4096));
        let large = parse(7, line, 64 << 10).expect("a process").process;
        assert_eq!(large.rss, 25 * (64 << 10), "memory is counted in pages of the machine");
    }

    #[test]
    fn usage_finds_a_process_with_its_tree() {
        let (own, parent) = (std::process::id() as i32, nix::unistd::getppid().as_raw());
        assert!(tree(own, parent).expect("this process").rss > 0);
        assert_eq!(tree(own, own), None, "a pid that is another's by now");
    }

    #[test]
    fn process_says_that_it_has_more_children_than_are_listed() {
        let (own, parent) = (std::process::id() as i32, nix::unistd::getppid().as_raw());
        let sleep = || std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        let mut sleeping = [sleep(), sleep(), sleep()];
        let found = [3, 4].map(|most| tree_of(own, parent, most).expect("this process"));
        assert_eq!(found.map(|one| (one.children.len(), one.cut)), [(2, true), (3, false)]);
        for child in &mut sleeping {
            child.kill().and_then(|()| child.wait()).expect("its end");
        }
    }
}
