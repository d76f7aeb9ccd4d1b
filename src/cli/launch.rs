//! From `start` to the keeper: the same process, with nothing left of the command line's memory.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::fcntl::{FcntlArg, fcntl};

use super::exit;
use super::failure::Failure;
use super::start::Locks;
use crate::config::Config;
use crate::keeper;

/// This program, also when its file was replaced or removed meanwhile.
const SELF: &str = "/proc/self/exe";

/// Descriptors from here on are nobody's by convention.
const LOCKS_FROM: i32 = 10;

/// The keeper gives the supervisor this much longer than its own deadline before it acts by itself.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// Becomes the keeper. Returns only if that fails.
pub(super) fn launch(config: &Config, locks: &Locks) -> Failure {
    let failed = |error: std::io::Error| {
        Failure::from(error).of("failed to become the keeper (exec of /proc/self/exe)".to_owned())
    };
    let mut command = Command::new(SELF);
    command.arg0("taskvisor").arg("keeper");
    for lock in [locks.run.as_fd(), locks.state.as_fd()] {
        // A duplicate shares the lock, survives exec, and is out of the way of the descriptors the supervisor expects.
        match fcntl(lock, FcntlArg::F_DUPFD(LOCKS_FROM)) {
            Ok(number) => drop(command.arg("--lock-fd").arg(number.to_string())),
            Err(error) => return failed(error.into()),
        }
    }
    // Copied with its memory by every child it forks, so that one which has no program yet is found by it too.
    match keeper::tag(std::process::id() as i32) {
        Ok(tag) => drop(command.env(keeper::TAG_VARIABLE, tag)),
        Err(error) => return failed(error),
    }
    let deadline = config.settings.stop_deadline + PATIENCE;
    command.arg("--stop-deadline").arg(deadline.as_secs_f64().to_string());
    command.arg("--").arg(SELF).arg("supervisor").args(own_arguments());
    match command.exec() {
        error if error.kind() == std::io::ErrorKind::NotFound => {
            Failure::new(exit::SOFTWARE, "failed to become the keeper: /proc is not mounted")
                .hint("taskvisor needs /proc to know its processes: mount -t proc proc /proc")
        }
        error => failed(error),
    }
}

fn own_arguments() -> impl Iterator<Item = OsString> {
    std::env::args_os().skip(1)
}
