//! The outcome of a job, from the exit of its program.

use crate::model::{Exec, Exit, ExitStatus, Failure, Outcome};
use crate::wire::program::{Failed, Step};

/// The outcome by a program's exit. None for a signal: that is a crash.
pub(super) fn outcome(exec: &Exec, exit: &Exit, failed: Option<Failed>, stderr: &str) -> Option<Outcome> {
    let name = exec.argv.first().map(|name| name.to_text()).unwrap_or_default();
    if let Some(failed) = failed {
        return Some(Outcome::FailedForGood(never_ran(&name, &exec.cwd.to_text(), failed)));
    }
    match exit.status {
        ExitStatus::Code(0) => Some(Outcome::Complete { result: None, next: None }),
        ExitStatus::Code(code) => {
            let group = format!("exit {code}");
            let message = match stderr.trim_end().lines().next_back() {
                Some(words) => words.to_owned(),
                None => format!("{name} ended with exit code {code}"),
            };
            Some(Outcome::Failed(Failure { group, message, trace: None }))
        }
        ExitStatus::Signal { .. } => None,
    }
}

/// Why a parked child could not become its program.
pub(super) fn never_ran(name: &str, cwd: &str, failed: Failed) -> Failure {
    let errno = nix::errno::Errno::from_raw(failed.errno);
    let (group, message) = match (failed.step, errno) {
        (Step::Exec, nix::errno::Errno::ENOENT) if !name.contains('/') => {
            ("not found", format!("no program '{name}' in PATH"))
        }
        (Step::Exec, nix::errno::Errno::ENOENT) => ("not found", format!("no program '{name}'")),
        (Step::Exec, nix::errno::Errno::EACCES) => ("not executable", format!("'{name}' is not executable")),
        (Step::Exec, nix::errno::Errno::E2BIG) => (
            "too long",
            format!(
                "the arguments of '{name}' are longer than the system allows; give data by stdin (put --data)"
            ),
        ),
        (Step::Chdir, _) => ("no directory", format!("failed to change to '{cwd}': {}", errno.desc())),
        (step, _) => ("cannot start", format!("failed to {} '{name}': {}", step.as_str(), errno.desc())),
    };
    Failure { group: group.into(), message, trace: None }
}
