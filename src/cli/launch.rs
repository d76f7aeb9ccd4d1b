//! From `start` to the keeper: the same process, with nothing left of the command line's memory.

use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use super::exit;
use super::failure::Failure;
use super::start::Locks;
use crate::config::Config;

/// This program, also when its file was replaced or removed meanwhile.
const SELF: &str = "/proc/self/exe";

/// The keeper gives the supervisor this much longer than its own deadline before it acts by itself.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// Becomes the keeper. Returns only if that fails.
pub(super) fn launch(config: &Config, locks: &Locks) -> Failure {
    let failed = |error: std::io::Error| {
        Failure::from(error).of("failed to become the keeper (exec of /proc/self/exe)".to_owned())
    };
    let mut keeper = Command::new(SELF);
    keeper.arg0("taskvisor").arg("keeper");
    for lock in [locks.run.as_fd(), locks.state.as_fd()] {
        // The locks live as long as keeper and supervisor do.
        if let Err(error) = fcntl(lock, FcntlArg::F_SETFD(FdFlag::empty())) {
            return failed(error.into());
        }
        keeper.arg("--lock-fd").arg(lock.as_raw_fd().to_string());
    }
    let deadline = config.settings.stop_deadline + PATIENCE;
    keeper.arg("--stop-deadline").arg(deadline.as_secs_f64().to_string());
    keeper.arg("--").arg(SELF).arg("supervisor").args(own_arguments());
    match keeper.exec() {
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
