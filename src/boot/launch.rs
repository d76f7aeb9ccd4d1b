//! From `start` to the keeper: the process execs itself, so that no memory of the command line is left.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::fcntl::{FcntlArg, fcntl};

use super::in_force;
use super::locks::Locks;
use config::{self, Config};
use failure::{Failure, exit};

/// This program, even if its file was replaced or removed meanwhile.
const SELF: &str = "/proc/self/exe";

/// Tells the supervisor that its broker was typed as a flag, which is not among its arguments.
const BROKER_TYPED: &str = "TASKVISOR_BROKER_TYPED";

/// Whether `start` was told the broker by a flag. Only its supervisor can say so.
pub fn broker_was_typed() -> bool {
    std::env::var_os(BROKER_TYPED).is_some()
}

/// Becomes the keeper. Returns only if that fails.
pub(crate) fn launch(config: &Config, locks: &Locks) -> Failure {
    let failed = |error: std::io::Error| {
        Failure::from(error).of("failed to become the keeper (exec of /proc/self/exe)".to_owned())
    };
    let mut command = Command::new(SELF);
    command.arg0("taskvisor").arg("keeper");
    for lock in [&locks.run, &locks.state].into_iter().chain(&locks.dirs) {
        // A duplicate shares the lock, survives exec, and does not take a number that the supervisor expects.
        match fcntl(lock.as_fd(), FcntlArg::F_DUPFD(in_force::DESCRIPTORS)) {
            Ok(number) => drop(command.arg("--lock-fd").arg(number.to_string())),
            Err(error) => return failed(error.into()),
        }
    }
    // Every child that the keeper forks has a copy of it, so that even a child without a program is found by it.
    match keeper::tag(std::process::id() as i32) {
        Ok(tag) => drop(command.env(keeper::TAG_VARIABLE, tag)),
        Err(error) => return failed(error),
    }
    match in_force::begin(config) {
        Ok(named) => drop(command.envs(named)),
        Err(failure) => return failure,
    }
    let patience = config.settings.stop_patience();
    command.arg("--stop-deadline").arg(patience.as_secs_f64().to_string());
    if let Some(memory) = config::memory() {
        command.arg("--memory").arg(memory.to_string());
    }
    work_in_root(&mut command);
    let (arguments, broker) = without_broker(std::env::args_os().skip(1));
    command.arg("--").arg(SELF).arg("supervisor").args(arguments);
    match broker {
        Some(url) => command.env("TASKVISOR_BROKER", url).env(BROKER_TYPED, "1"),
        None => command.env_remove(BROKER_TYPED),
    };
    match command.exec() {
        error if error.kind() == std::io::ErrorKind::NotFound => {
            Failure::new(exit::SOFTWARE, "failed to become the keeper: /proc is not mounted")
                .hint("taskvisor needs /proc to know its processes: mount -t proc proc /proc")
        }
        error => failed(error),
    }
}

/// Environment variables of libraries that name a file or a directory.
const NAMES_OF_FILES: [&str; 6] = [
    "AWS_CA_BUNDLE",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
];

/// Lets the keeper work in `/`, so that the file system in which `start` was typed can be unmounted. The supervisor
/// resolves relative paths of settings against the directory of `start` ([`start_dir`]).
fn work_in_root(command: &mut Command) {
    match std::env::current_dir() {
        Ok(dir) => command.env(start_dir::VARIABLE, dir),
        Err(_) => command.env_remove(start_dir::VARIABLE),
    };
    command.current_dir("/");
    for name in NAMES_OF_FILES {
        let path = std::env::var_os(name).filter(|path| Path::new(path).is_relative());
        if let Some(Ok(path)) = path.map(std::path::absolute) {
            command.env(name, path);
        }
    }
}

/// The arguments of `start` without `--broker`, and its value, which may hold a password: all users of the machine can
/// read a command line, only we can read the environment.
fn without_broker(arguments: impl Iterator<Item = OsString>) -> (Vec<OsString>, Option<OsString>) {
    let (mut others, mut broker) = (Vec::new(), None);
    let mut arguments = arguments.peekable();
    while let Some(argument) = arguments.next() {
        let bytes = argument.as_bytes();
        match bytes
            .strip_prefix(b"--broker=")
            .or_else(|| bytes.strip_prefix(b"-b="))
            .or_else(|| bytes.strip_prefix(b"-b"))
        {
            _ if bytes == b"--" => {
                others.push(argument);
                others.extend(arguments);
                break;
            }
            _ if bytes == b"--broker" => broker = arguments.next(),
            Some(b"") => broker = arguments.next(),
            Some(url) => broker = Some(OsStr::from_bytes(url).to_owned()),
            None => others.push(argument),
        }
    }
    (others, broker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(typed: &str, others: &str, broker: Option<&str>) {
        let words = |text: &str| text.split_whitespace().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(without_broker(words(typed).into_iter()), (words(others), broker.map(Into::into)));
    }

    #[test]
    fn the_environment_names_the_broker() {
        for typed in ["-b u", "-bu", "-b=u", "--broker u", "--broker=u"] {
            check(&format!("start {typed} -w 8"), "start -w 8", Some("u"));
        }
        check("start -w 8 --burst", "start -w 8 --burst", None);
        check("start --broker u -- sh --broker v", "start -- sh --broker v", Some("u"));
    }
}
