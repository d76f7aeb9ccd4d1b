//! The error message of a command: what was attempted, why it failed, what to do.

#![warn(unreachable_pub)]

pub mod exit;

use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;

use nix::unistd::User;

pub use model::escaped;

/// The hint for a supervisor that runs but does not answer.
pub const HANGS: &str = "\
it is stopped or hangs, perhaps on its disk: see `ps -C tv-supervisor -o pid,stat,wchan`; `kill -CONT PID` lets it go on, after \
`kill -KILL PID` the keeper starts another";

/// An error for the user, with its exit code.
#[derive(Debug)]
pub struct Failure {
    /// The exit code, one of [`exit`].
    pub code: u8,
    /// What was attempted and failed; the whole error if it has no causes.
    pub message: String,
    /// Why it failed, the nearest cause first.
    pub causes: Vec<String>,
    /// What the reader can do about it.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure without a cause or hint.
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Failure { code, message: message.into(), causes: Vec::new(), hint: None }
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same error as the cause of a failed attempt.
    #[must_use]
    pub fn of(mut self, attempted: impl Into<String>) -> Self {
        self.causes.insert(0, std::mem::replace(&mut self.message, attempted.into()));
        self
    }

    /// What failed and why, in one line.
    pub fn in_a_line(&self) -> String {
        [std::slice::from_ref(&self.message), &self.causes].concat().join(": ")
    }

    /// Writes it to stderr and gives the exit code.
    pub fn print(&self) -> ExitCode {
        let _ = io::stderr().write_all(self.render().as_bytes());
        ExitCode::from(self.code)
    }

    /// The lines to print; empty for exit code 0.
    pub fn render(&self) -> String {
        if self.code == exit::OK {
            return String::new();
        }
        let mut out = format!("error: {}\n", escaped(&self.message));
        for cause in &self.causes {
            out += &format!("caused by: {}\n", escaped(cause));
        }
        if let Some(hint) = &self.hint {
            out += &format!("hint: {}\n", escaped(hint));
        }
        out
    }
}

/// A closed stdout is no error: its reader has seen enough.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let kind = error.kind();
        if kind == ErrorKind::BrokenPipe {
            return Failure::new(exit::OK, "nobody reads the output");
        }
        let code = if kind == ErrorKind::PermissionDenied { exit::PERMISSION } else { exit::IO };
        Failure::new(code, error.to_string())
    }
}

/// From writing the output.
impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Failure::new(exit::FAILED, error.to_string())
    }
}

impl From<config::Error> for Failure {
    fn from(error: config::Error) -> Self {
        let code = match error.fault {
            config::Fault::Usage => exit::USAGE,
            config::Fault::Config => exit::CONFIG,
            config::Fault::Permission => exit::PERMISSION,
            config::Fault::Io => exit::IO,
        };
        Failure { code, message: error.to_string(), causes: Vec::new(), hint: error.hint }
    }
}

impl From<api::Error> for Failure {
    fn from(error: api::Error) -> Self {
        let message = error.to_string();
        match error {
            api::Error::NotRunning(place) => Failure::new(exit::NOT_RUNNING, message).hint(match place {
                api::Place::Socket(_) => "start one with: taskvisor start -w 8",
                api::Place::Port { .. } => "is that the address that its api.listen says?",
            }),
            api::Error::Connect(place, cause) if cause.kind() == ErrorKind::PermissionDenied => {
                let owner = owner(&place).unwrap_or_else(|| "OWNER".into());
                Failure { causes: vec![cause.to_string()], ..Failure::from(cause) }.named(message).hint(format!(
                    "ask as the user whose supervisor it is: sudo -u {owner} taskvisor …; or let a group use it, with socket_group in \
                     its settings"
                ))
            }
            api::Error::Connect(_, cause) => {
                Failure { causes: vec![cause.to_string()], ..Failure::from(cause) }.named(message)
            }
            api::Error::Stranger(..) => Failure::new(exit::PERMISSION, message).hint(
                "have an administrator look at who made it; --run-dir or TASKVISOR_RUN_DIR names a directory of your own",
            ),
            api::Error::Lost(_, cause) => {
                Failure { causes: vec![cause.to_string()], ..Failure::new(exit::FAILED, message) }
            }
            api::Error::Silent(..) => Failure::new(exit::UNAVAILABLE, message).hint(HANGS),
            api::Error::Problem(problem) => {
                let code = match problem.code {
                    400 | 405 => exit::USAGE,
                    401 | 403 => exit::PERMISSION,
                    404 => exit::NOTHING_MATCHED,
                    501 => exit::UNSUPPORTED,
                    503 | 504 => exit::UNAVAILABLE,
                    _ => exit::FAILED,
                };
                Failure { code, message, causes: Vec::new(), hint: problem.hint }
            }
            api::Error::Odd(..) => Failure::new(exit::FAILED, message)
                .hint("is it another program's, or another version's, socket?"),
        }
    }
}

/// The user whose supervisor has the socket, by the owner of its directory.
fn owner(place: &api::Place) -> Option<String> {
    let api::Place::Socket(socket) = place else { return None };
    let uid = socket.parent()?.metadata().ok()?.uid();
    Some(User::from_uid(uid.into()).ok()??.name)
}

impl From<broker::Error> for Failure {
    fn from(error: broker::Error) -> Self {
        let code = match &error {
            broker::Error::NoJob(_)
            | broker::Error::NoneToNeed(_)
            | broker::Error::NoQueue(_)
            | broker::Error::NoRecurring(_) => exit::NOTHING_MATCHED,
            broker::Error::Refused(_) => exit::USAGE,
            broker::Error::Url(_) => exit::CONFIG,
            broker::Error::Unsupported { .. } => exit::UNSUPPORTED,
            broker::Error::PartlyPut { .. } => exit::FAILED,
            broker::Error::Exists(_)
            | broker::Error::NotAJob(..)
            | broker::Error::WrongState { .. }
            | broker::Error::Needed { .. }
            | broker::Error::InUse(..) => exit::FAILED,
            broker::Error::Lost(_)
            | broker::Error::Failed(_)
            | broker::Error::Disk(_)
            | broker::Error::Unanswered(_) => exit::UNAVAILABLE,
        };
        Failure::new(code, error.to_string())
    }
}

impl Failure {
    /// A store that could not be opened, for any reason but a wrong URL.
    pub fn unopened(error: broker::Error) -> Self {
        let is_url = matches!(error, broker::Error::Url(_));
        Failure::new(if is_url { exit::CONFIG } else { exit::UNAVAILABLE }, error.to_string())
    }

    fn named(mut self, message: String) -> Self {
        self.message = message;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supervisor_of_another_user_is_reached_as_that_user() {
        let dir = tempfile::tempdir().unwrap();
        let place = api::Place::Socket(dir.path().join("ctl.sock"));
        let failure = Failure::from(api::Error::Connect(place, ErrorKind::PermissionDenied.into()));
        let own = User::from_uid(nix::unistd::geteuid()).unwrap().map_or("OWNER".into(), |user| user.name);
        assert_eq!(failure.code, exit::PERMISSION);
        assert!(failure.hint.unwrap().contains(&format!("sudo -u {own} taskvisor")));
    }

    #[test]
    fn too_large_request_is_no_usage_error() {
        let code = |code| Failure::from(api::Error::from(api::Problem::new(code, "no"))).code;
        assert_eq!(
            [400, 413, 404, 504].map(code),
            [exit::USAGE, exit::FAILED, exit::NOTHING_MATCHED, exit::UNAVAILABLE]
        );
    }
}
