//! Asks a process for the stacks of its threads, where a library in it answers. It has a file in memory of this name
//! open, and at SIGURG writes them there, also while its interpreter is blocked. Any other process ignores that signal.

use std::fs::{self, File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use nix::libc::{O_NOCTTY, O_NONBLOCK, O_PATH};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::{SFlag, fstat};
use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};
use nix::unistd::Pid;

use model::Instant;

/// The file, as the kernel names it.
const NAME: &str = "/memfd:taskvisor-stacks (deleted)";
/// Most bytes that are kept of the stacks of one process.
const KEPT: usize = 4 << 10;
/// Most bytes that are read.
const READ: usize = 64 << 10;
/// How often the file is looked at. One that did not grow in between is whole.
const PAUSE: Duration = Duration::from_millis(2);

/// The forks of a template share its file, so that one of them is asked at a time.
static ASKED: Mutex<()> = Mutex::new(());

/// The stacks of a process, the thread that was interrupted first; None if nobody answers there before `until`.
pub(super) fn ask(pid: i32, state: &str, until: Instant) -> Option<String> {
    // A process that is stopped, or locked by the kernel, would answer later.
    if !matches!(state, "R" | "S") || !catches(pid) {
        return None;
    }
    let file = file_of(pid)?;
    let _one_at_a_time = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
    file.set_len(0).ok()?;
    kill(Pid::from_raw(pid), Signal::SIGURG).ok()?;
    let (mut text, mut before) = (vec![0; READ], 0);
    while clock::now() < until {
        thread::sleep(PAUSE);
        let long = file.read_at(&mut text, 0).ok()?;
        if long > 0 && long == before {
            file.set_len(0).ok();
            text.truncate(long);
            return Some(kept(&String::from_utf8_lossy(&text)));
        }
        before = long;
    }
    None
}

/// Whether it has a handler for the signal.
fn catches(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask >> (Signal::SIGURG as u32 - 1) & 1 == 1)
}

/// Its file. What else may stand in its place is not opened: that could wait, or change something.
fn file_of(pid: i32) -> Option<File> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let is_it = |path: &std::path::PathBuf| fs::read_link(path).is_ok_and(|name| name.as_os_str() == NAME);
    let path = entries.flatten().map(|entry| entry.path()).find(is_it)?;
    let held = OpenOptions::new().read(true).custom_flags(O_PATH).open(path).ok()?;
    let is_file =
        fstat(held.as_fd()).is_ok_and(|found| found.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFREG.bits());
    if !is_file || fstatfs(&held).ok()?.filesystem_type() != TMPFS_MAGIC {
        return None;
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(O_NONBLOCK | O_NOCTTY);
    options.open(format!("/proc/self/fd/{}", held.as_raw_fd())).ok()
}

/// The stacks with the thread that was interrupted first, whole lines, cut where they are too long.
fn kept(text: &str) -> String {
    let (current, others): (Vec<&str>, Vec<&str>) = text
        .split("\n\n")
        .map(|stack| stack.trim_matches('\n'))
        .partition(|stack| stack.starts_with("Current "));
    let mut kept = String::new();
    for line in current.iter().chain(&others).flat_map(|stack| stack.lines()) {
        if kept.len() + line.len() >= KEPT {
            kept.push_str("...\n");
            break;
        }
        kept.extend([line, "\n"]);
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
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
        let lines = kept(text);
        assert!(lines.starts_with("Current thread 0x2") && lines.ends_with("in f\n"), "{lines}");
        let long = kept(&"  File \"a\", line 1 in f\n".repeat(1000));
        assert!(long.len() <= KEPT + 4 && long.ends_with("in f\n...\n"), "{}", long.len());
    }
}
