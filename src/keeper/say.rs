//! The keeper's few messages, on stderr.

use std::fmt::Arguments;
use std::io;
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Longest message: a pipe that takes anything takes this much at once (PIPE_BUF).
const LONGEST: usize = 4096;

/// Writes a message to stderr if that does not block: a reader that has stopped must not stop the kills, and one that
/// has gone is no reason to end.
pub(super) fn say(words: Arguments<'_>) {
    let stderr = io::stderr();
    let mut ready = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
    if poll(&mut ready, PollTimeout::ZERO) != Ok(1) {
        return;
    }
    let mut line = format!("taskvisor keeper: {words}\n").into_bytes();
    if line.len() > LONGEST {
        line.truncate(LONGEST - 1);
        line.push(b'\n');
    }
    nix::unistd::write(&stderr, &line).ok();
}
