//! The end of a keeper that is process 1 of a container. The kernel kills with it everybody else there, such as the
//! `taskvisor stop` of a preStop hook, which waits for this end and would report a failure.

use std::fs;
use std::time::Duration;

use nix::poll::{PollTimeout, poll};
use nix::unistd::close;

use super::state::Keeper;

/// How long this end waits for commands that wait for it.
const PATIENCE: Duration = Duration::from_secs(1);
/// Pause between two looks, in milliseconds.
const MOMENT: u8 = 5;

impl Keeper {
    /// Lets those go who wait for the locks. Nothing else is left to be done.
    pub(super) fn let_waiters_go(&self) {
        if std::process::id() != 1 {
            return;
        }
        self.setup.lock_fds.iter().for_each(|&lock| _ = close(lock));
        let end = clock::now() + PATIENCE;
        while clock::now() < end && is_awaited() {
            _ = poll(&mut [], PollTimeout::from(MOMENT));
        }
    }
}

/// Whether a `taskvisor stop` runs here.
fn is_awaited() -> bool {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok()).any(|line| is_stop(&line))
}

/// Whether that is the command line of `taskvisor stop`.
fn is_stop(line: &[u8]) -> bool {
    let mut words = line.split(|byte| *byte == 0);
    let program = words.next().and_then(|path| path.rsplit(|byte| *byte == b'/').next());
    program == Some(b"taskvisor") && words.any(|word| word == b"stop")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_that_waits_for_the_end_is_known_by_its_line() {
        assert!(is_stop(b"/usr/bin/taskvisor\0--run-dir\0/run/t\0stop\0--now\0"));
        for other in
            [&b"taskvisor\0status\0"[..], b"/bin/sh\0-c\0taskvisor stop\0", b"", b"tv-supervisor\0stop\0"]
        {
            assert!(!is_stop(other), "{other:?}");
        }
    }
}
