//! Takes a snapshot of the processes of a worker before it is ended.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use super::{stacks, usage};
use model::{Caught, Snapshot};

/// Largest snapshot as JSON, in bytes.
const BYTES: usize = 16 << 10;
/// Limit of the processes in a snapshot: a fork bomb may have thousands.
const PROCESSES: usize = 256;
/// Limits of the names of open files of each process, and of the part of a name that is kept.
const FILES: usize = 20;
const NAME: usize = 200;

/// How long a signal that ends a process, and somebody who asks for a picture, wait for stacks.
const BEFORE_THE_END: Duration = Duration::from_millis(10);
const ASKED_FOR: Duration = Duration::from_secs(1);

/// A process with all below it, just before it is ended, or None if it is gone. May block for ever on a process that the
/// kernel has locked, so the loop's thread must not call it.
pub fn look(pid: i32) -> Option<Snapshot> {
    look_for(pid, BEFORE_THE_END)
}

/// The same for somebody who waits for it: there is more time for what processes have to tell themselves.
pub fn look_closely(pid: i32) -> Option<Snapshot> {
    look_for(pid, ASKED_FOR)
}

fn look_for(pid: i32, patience: Duration) -> Option<Snapshot> {
    let until = clock::now() + patience;
    let mut found = tree(pid);
    for caught in &mut found {
        if clock::now() < until {
            caught.stacks = stacks::ask(caught.pid, &caught.state, until);
        }
    }
    let mut snapshot = Snapshot::default();
    let mut room = BYTES - r#"{"processes":[],"left_out":4294967295}"#.len();
    for caught in found {
        // One more byte for the comma.
        let size = serde_json::to_vec(&caught).map_or(usize::MAX, |json| json.len() + 1);
        // After the first that does not fit none is kept: its children would seem to be those of another.
        match room.checked_sub(size).filter(|_| snapshot.left_out == 0) {
            Some(left) => {
                room = left;
                snapshot.processes.push(caught);
            }
            None => snapshot.left_out += 1,
        }
    }
    (!snapshot.processes.is_empty()).then_some(snapshot)
}

/// The leader and all processes below it, each before its children, up to `PROCESSES`. A job decides how deep its tree
/// is, so this walks with a list and not with the small stack.
fn tree(leader: i32) -> Vec<Caught> {
    let (mut found, mut next) = (Vec::new(), vec![(leader, 0)]);
    while let Some((pid, depth)) = next.pop().filter(|_| found.len() < PROCESSES) {
        let Some(caught) = caught(pid, depth) else { continue };
        found.push(caught);
        // The last one is taken first, so the first child is put last.
        next.extend(usage::children(pid).into_iter().rev().map(|child| (child, depth + 1)));
    }
    found
}

fn caught(pid: i32, depth: u32) -> Option<Caught> {
    let process = usage::process(pid)?;
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).ok();
    let syscall = read("syscall").and_then(|line| line.split(' ').next()?.parse().ok());
    // Number of links of a directory: itself, its parent's, and one for each directory in it.
    let threads =
        fs::metadata(format!("/proc/{pid}/task")).map_or(1, |tasks| tasks.nlink().saturating_sub(2));
    let numbers = descriptors(pid);
    let open = numbers.iter().flatten().take(FILES).filter_map(|number| {
        let name = fs::read_link(format!("/proc/{pid}/fd/{number}")).ok()?;
        Some(name.to_string_lossy().chars().take(NAME).collect())
    });
    Some(Caught {
        depth,
        pid,
        name: process.name,
        state: process.state,
        wchan: read("wchan").filter(|place| !matches!(place.as_str(), "" | "0")),
        syscall,
        rss: process.rss,
        cpu: process.cpu,
        threads,
        open: open.collect(),
        stacks: None,
        files: numbers.map(|numbers| numbers.len() as u64),
    })
}

/// The numbers of its descriptors, in order, if they can be read.
fn descriptors(pid: i32) -> Option<Vec<u32>> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn snapshot_has_open_files_but_no_arguments() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let script = format!("for fd in {{10..{}}}; do eval \"exec $fd<$0\"; done; echo; read", FILES + 15);
        let mut bash = Command::new("bash");
        bash.arg("-c").arg(script).arg(file.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = bash.spawn().unwrap();
        BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
        let seen = look(holder.id() as i32).unwrap().processes.remove(0);
        // The end of its stdin ends it.
        drop(holder.stdin.take());
        holder.wait().unwrap();
        assert!(seen.rss > 0 && seen.threads > 0 && seen.files.unwrap() > FILES as u64, "{seen:?}");
        assert_eq!(seen.open.len(), FILES);
        assert!(!format!("{seen:?}").contains("eval"), "{seen:?}");
        assert!(seen.open.iter().any(|name| name == &file.path().display().to_string()), "{seen:?}");
    }

    #[test]
    fn snapshot_lists_a_tree_from_its_leader_down() {
        let script = "sleep 1000 & echo ready; exec sleep 1000";
        let mut shell = Command::new("sh");
        let mut leader = shell.args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(leader.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let seen = look(leader.id() as i32).unwrap();
        let depths: Vec<u32> = seen.processes.iter().map(|one| one.depth).collect();
        seen.processes.iter().rev().for_each(|one| {
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(one.pid), nix::sys::signal::SIGKILL).unwrap();
        });
        leader.wait().unwrap();
        assert_eq!(depths, [0, 1], "{seen:?}");
    }

    #[test]
    fn snapshot_of_a_very_deep_tree_fits_on_its_small_stack() {
        // Each child forks the next, and the last one closes the shared stdout.
        let script = "import os, time
for left in range(400):
    if os.fork():
        os.close(1)
        time.sleep(1000)
os.close(1)
time.sleep(1000)";
        let mut python = Command::new("python3");
        let mut leader = python.args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        _ = leader.stdout.as_mut().unwrap().read(&mut [0]).unwrap();
        let pid = leader.id() as i32;
        let thread = std::thread::Builder::new().stack_size(128 << 10);
        let seen = thread.spawn(move || (look(pid), tree(pid))).unwrap().join().unwrap();
        let depths: Vec<u32> = seen.1.iter().map(|one| one.depth).collect();
        end(pid);
        leader.wait().unwrap();
        assert!(seen.0.is_some_and(|snapshot| snapshot.left_out > 0));
        assert_eq!(depths, (0..PROCESSES as u32).collect::<Vec<_>>());
    }

    /// Ends a chain of any depth.
    fn end(leader: i32) {
        let mut next = vec![leader];
        while let Some(pid) = next.pop() {
            next.extend(usage::children(pid));
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::SIGKILL).ok();
        }
    }

    #[test]
    fn snapshot_of_a_dead_process_is_none() {
        assert_eq!(look(i32::MAX), None);
    }
}
