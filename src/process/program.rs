//! The outcome of a job, from the exit of its program.

use super::life::Life;
use super::plan::{Plan, Started};
use crate::model::{Exit, ExitStatus, Failure, Outcome, WorkerId};
use crate::wire::fault::Fault;
use crate::wire::program::{Failed, Said, Step};

/// The outcome by what the child said before it became the program, and by the program's exit. None for a signal: that
/// is a crash. A child that was killed for want of memory had begun: its order may have been too large for it.
pub(super) fn outcome(program: &Started, exit: &Exit, said: Said, stderr: &str) -> Option<Outcome> {
    let Started { name, cwd, by_job } = program;
    match said {
        Said::Nothing if !exit.oom => return Some(Outcome::NotBegun),
        Said::Nothing | Said::Begun => {}
        Said::Failed(failed) => {
            let failure = never_ran(name, cwd, failed);
            return Some(match Fault::of(failed, *by_job) {
                Fault::Job => Outcome::FailedForGood(failure),
                Fault::Moment => Outcome::Failed(failure),
                Fault::Host => Outcome::CannotBegin(failure.message),
            });
        }
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

/// Why a worker never took a job, as far as that is known.
pub(super) fn stillborn(life: &Life, plan: &Plan, worker: WorkerId) -> String {
    let Some(failed) = life.channel.failed() else { return life.stray.tail() };
    let command = plan.command(worker);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let name = command.argv.first().map(|name| text(name)).unwrap_or_default();
    never_ran(&name, &text(&command.cwd), failed).message
}

/// Why a parked child could not become its program.
fn never_ran(name: &str, cwd: &str, failed: Failed) -> Failure {
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
