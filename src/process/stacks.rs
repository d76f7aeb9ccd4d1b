//! Asks a process for the stacks of its threads, where a library in it answers. It has a file in memory of this name
//! open, and at SIGURG writes them there, also while its interpreter is blocked. No other process is sent that signal.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use nix::libc::{O_NOCTTY, O_NONBLOCK, O_PATH};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use model::Instant;

/// The file, as the kernel names it.
const NAME: &str = "/memfd:taskvisor-stacks (deleted)";
/// How the stack of the thread begins that was interrupted.
const FIRST: &str = "Current thread ";
/// Most bytes that are kept of the stacks of one process.
const KEPT: usize = 4 << 10;
/// Most bytes that are read.
const READ: usize = 64 << 10;
/// Bytes of earlier answers from which on the file is emptied: it counts as memory of the worker.
const ENOUGH: u64 = 256 << 10;
/// How often the file is looked at: nothing tells that such a file was written.
const PAUSE: Duration = Duration::from_millis(2);
/// Part of the time there is for which an answer must not have grown to be whole.
const QUIET: u32 = 50;

/// Files whose processes are being asked, by inode.
static ASKED: Mutex<Vec<u64>> = Mutex::new(Vec::new());
/// One of them is free again.
static FREED: Condvar = Condvar::new();

/// The stacks of a process, the thread that was interrupted first; None if nobody answers there before `until`.
pub(super) fn ask(pid: i32, state: &str, until: Instant) -> Option<String> {
    // A process that is stopped, or locked by the kernel, would answer later.
    if !matches!(state, "R" | "S") || !catches(pid) {
        return None;
    }
    let file = file_of(pid)?;
    let _turn = Turn::wait(file.metadata().ok()?.ino(), until)?;
    let start = end_of(&file)?;
    let asked = clock::now();
    if asked >= until {
        return None;
    }
    kill(Pid::from_raw(pid), Signal::SIGURG).ok()?;
    let quiet = PAUSE.max(until.since(asked) / QUIET);
    let (mut text, mut long, mut grown) = (vec![0; READ], 0, asked);
    while clock::now() < until {
        thread::sleep(PAUSE);
        let (read, now) = (file.read_at(&mut text, start).ok()?, clock::now());
        if read != long {
            (long, grown) = (read, now);
        } else if long > 0 && now >= grown + quiet {
            text.truncate(long);
            return kept(&String::from_utf8_lossy(&text));
        }
    }
    None
}

/// The right to ask the processes that share a file: a job may have forked.
struct Turn(u64);

impl Turn {
    fn wait(file: u64, until: Instant) -> Option<Turn> {
        let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
        while asked.contains(&file) {
            let now = clock::now();
            if now >= until {
                return None;
            }
            asked = FREED.wait_timeout(asked, until.since(now)).unwrap_or_else(PoisonError::into_inner).0;
        }
        asked.push(file);
        Some(Turn(file))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        ASKED.lock().unwrap_or_else(PoisonError::into_inner).retain(|file| *file != self.0);
        FREED.notify_all();
    }
}

/// Whether it has a handler for the signal.
fn catches(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Bit N-1 stands for signal N (proc(5)).
    caught.is_some_and(|mask| mask >> (Signal::SIGURG as u32 - 1) & 1 == 1)
}

/// Its file. What else may stand in its place is not opened: that could wait, change something, or show what is another
/// user's.
fn file_of(pid: i32) -> Option<File> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let is_it = |path: &std::path::PathBuf| fs::read_link(path).is_ok_and(|name| name.as_os_str() == NAME);
    let path = entries.flatten().map(|entry| entry.path()).find(is_it)?;
    let held = OpenOptions::new().read(true).custom_flags(O_PATH).open(path).ok()?;
    is_in_memory(&held).then(|| open(&held, false))?
}

/// Whether it is a file of `memfd_create`. A process can give any other file that name, by mounts of its own. But those
/// in memory are on a device that nobody can mount.
fn is_in_memory(file: &File) -> bool {
    static DEVICE: OnceLock<Option<u64>> = OnceLock::new();
    let device = DEVICE.get_or_init(|| {
        let own = File::from(memfd_create("taskvisor-device", MFdFlags::MFD_CLOEXEC).ok()?);
        Some(own.metadata().ok()?.dev())
    });
    file.metadata().is_ok_and(|found| found.is_file() && found.nlink() == 0 && Some(found.dev()) == *device)
}

/// Opens the file itself that is held, whatever has its name by now.
fn open(held: &File, write: bool) -> Option<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(write).custom_flags(O_NONBLOCK | O_NOCTTY);
    options.open(format!("/proc/self/fd/{}", held.as_raw_fd())).ok()
}

/// Where the next answer begins.
fn end_of(file: &File) -> Option<u64> {
    let long = file.metadata().ok()?.len();
    if long < ENOUGH {
        return Some(long);
    }
    open(file, true)?.set_len(0).ok()?;
    Some(0)
}

/// The stacks with the thread that was interrupted first, whole lines, cut where they are too long. None if two processes
/// have answered: one came late, and nobody knows which.
fn kept(text: &str) -> Option<String> {
    if text.lines().filter(|line| line.starts_with(FIRST)).count() > 1 {
        return None;
    }
    let (current, others): (Vec<&str>, Vec<&str>) =
        text.split("\n\n").map(|stack| stack.trim_matches('\n')).partition(|stack| stack.starts_with(FIRST));
    let mut kept = String::new();
    for line in current.iter().chain(&others).flat_map(|stack| stack.lines()) {
        if kept.len() + line.len() >= KEPT {
            kept.push_str("...\n");
            break;
        }
        kept.extend([line, "\n"]);
    }
    Some(kept)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn python(script: &str) -> Child {
        let mut child = Command::new("python3");
        let mut child = child.args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
        child
    }

    fn soon() -> Instant {
        clock::now() + Duration::from_secs(5)
    }

    #[test]
    fn process_that_does_not_offer_its_stacks_is_left_alone() {
        let script = "import signal, time
signal.signal(signal.SIGURG, lambda *_: exit(3))
print(flush=True)
time.sleep(1000)";
        let mut stranger = python(script);
        assert_eq!(ask(stranger.id() as i32, "S", soon()), None);
        stranger.kill().unwrap();
        assert_eq!(stranger.wait().unwrap().code(), None, "it was not signalled");
    }

    #[test]
    fn blocked_process_gives_its_stacks_again_and_again() {
        let script = "import faulthandler, fcntl, os, signal, ctypes
file = os.memfd_create('taskvisor-stacks')
fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
faulthandler.register(signal.SIGURG, file=file)
def waits():
    print(flush=True)
    # It keeps the interpreter's lock.
    while True:
        ctypes.PyDLL(None).pause()
waits()";
        let mut child = python(script);
        for _ in 0..3 {
            let stacks = ask(child.id() as i32, "S", soon()).unwrap();
            assert!(stacks.lines().nth(1).is_some_and(|line| line.ends_with("in waits")), "{stacks}");
            assert_eq!(stacks.matches("most recent call first").count(), 1, "{stacks}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn interrupted_thread_comes_first_and_a_long_stack_is_cut_at_a_line() {
        let text = "Thread 0x1 (most recent call first):\n  File \"a\", line 1 in f\n\nCurrent thread 0x2 (most recent \
                    call first):\n  File \"b\", line 2 in g\n";
        let lines = kept(text).unwrap();
        assert!(lines.starts_with("Current thread 0x2") && lines.ends_with("in f\n"), "{lines}");
        let long = kept(&"  File \"a\", line 1 in f\n".repeat(1000)).unwrap();
        assert!(long.len() <= KEPT + 4 && long.ends_with("in f\n...\n"), "{}", long.len());
    }

    #[test]
    fn answers_of_two_processes_are_not_shown_as_those_of_one() {
        let answer = "Current thread 0x1 (most recent call first):\n  File \"a\", line 1 in f\n";
        // faulthandler puts no empty line between two dumps.
        assert!(kept(answer).is_some());
        assert_eq!(kept(&answer.repeat(2)), None);
    }

    #[test]
    fn process_that_is_being_asked_costs_another_who_asks_no_more_than_the_own_time() {
        let script = "import os, signal, time
file = os.memfd_create('taskvisor-stacks')
signal.signal(signal.SIGURG, lambda *_: None)
print(flush=True)
time.sleep(1000)";
        let mut silent = python(script);
        let pid = silent.id() as i32;
        let asked = file_of(pid).unwrap().metadata().unwrap().ino();
        let turn = Turn::wait(asked, soon()).unwrap();
        let begun = clock::now();
        assert_eq!(ask(pid, "S", begun + Duration::from_millis(10)), None);
        let took = clock::now().since(begun);
        drop(turn);
        assert!(took < Duration::from_secs(4), "{took:?}");
        assert!(Turn::wait(asked, clock::now()).is_some(), "nobody asks any more");
        silent.kill().unwrap();
        silent.wait().unwrap();
    }

    #[test]
    fn file_of_another_that_has_got_the_name_is_neither_read_nor_changed() {
        // As a job does it that is not root: a copy of the mount has no place, so that the file seems to be in the root.
        let script = "import ctypes, os, signal, sys, time
libc, place = ctypes.CDLL(None, use_errno=True), sys.stdin.readline().strip()
libc.unshare(0x10020000)
mount = libc.syscall(428, -100, place.encode(), 1)
if mount >= 0:
    file = os.open('memfd:taskvisor-stacks (deleted)', os.O_RDONLY, dir_fd=mount)
signal.signal(signal.SIGURG, lambda *_: exit(3))
print(mount, flush=True)
time.sleep(1000)";
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let victim = dir.path().join("memfd:taskvisor-stacks (deleted)");
        fs::write(&victim, "secret").unwrap();
        let mut forger = Command::new("python3");
        let forger = forger.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut forger = forger.spawn().unwrap();
        writeln!(forger.stdin.as_mut().unwrap(), "{}", dir.path().display()).unwrap();
        let mut line = String::new();
        BufReader::new(forger.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(ask(forger.id() as i32, "S", soon()), None);
        forger.kill().unwrap();
        assert_eq!(forger.wait().unwrap().code(), None, "it was not signalled");
        assert_eq!(fs::read(&victim).unwrap(), b"secret");
        // Also where this machine lets nobody forge, and where the file has lost its name.
        let held = File::open(&victim).unwrap();
        assert!(!is_in_memory(&held));
        fs::remove_file(&victim).unwrap();
        assert!(!is_in_memory(&held));
    }
}
