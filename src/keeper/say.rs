//! The keeper's few messages, on stderr. A reader that has stopped must not stop the kills, so a line that would have to
//! wait is lost, and counted.

use std::fmt::Arguments;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, send};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::unistd::write;

/// Longest message: a pipe that takes anything takes this much at once (PIPE_BUF).
const LONGEST: usize = 4096;

/// Lines that were lost since the last one that says how many.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Writes a message to stderr if that does not block. One that has no reader any more is no reason to end.
pub(super) fn say(words: Arguments<'_>) {
    say_lost();
    // The line about those that were lost comes first.
    if LOST.load(Ordering::Relaxed) > 0 || !line(words) {
        LOST.fetch_add(1, Ordering::Relaxed);
    }
}

/// Says how many lines were lost, once stderr takes a line again.
pub(super) fn say_lost() {
    let lost = LOST.load(Ordering::Relaxed);
    if lost > 0 && line(format_args!("{lost} lines of the keeper are lost, as nobody read its stderr")) {
        LOST.store(0, Ordering::Relaxed);
    }
}

/// Whether a line was written.
fn line(words: Arguments<'_>) -> bool {
    let stderr = io::stderr();
    let mut ready = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
    if poll(&mut ready, PollTimeout::ZERO) != Ok(1) {
        return false;
    }
    let mut line = format!("taskvisor keeper: {words}\n");
    if line.len() > LONGEST {
        line.truncate(line.floor_char_boundary(LONGEST - 1));
        line.push('\n');
    }
    put(line.as_bytes()).is_ok()
}

/// Writes at once or not at all, where the kernel can do that: others write to the same stderr, and may fill it after it was
/// polled. O_NONBLOCK on stderr itself would reach all who share it, so a pipe or a terminal is opened once more.
fn put(line: &[u8]) -> Result<usize, Errno> {
    let stderr = io::stderr();
    let kind = fstat(&stderr)
        .map_or(SFlag::empty(), |found| SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT);
    match kind {
        SFlag::S_IFSOCK => send(stderr.as_raw_fd(), line, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL),
        SFlag::S_IFIFO | SFlag::S_IFCHR => {
            let flags = OFlag::O_WRONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
            match open("/proc/self/fd/2", flags, Mode::empty()) {
                Ok(own) => write(&own, line),
                // Another user may have made it.
                Err(_) => write(&stderr, line),
            }
        }
        _ => write(&stderr, line),
    }
}
