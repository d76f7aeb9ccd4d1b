//! The keeper's few words, on stderr.

use std::fmt::Arguments;
use std::io;
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// A pipe that takes anything takes so much at once (PIPE_BUF).
const LONGEST: usize = 4096;

/// Says something, if it is heard at once: a reader of stderr that has fallen asleep must not stop the kills, and one that
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
