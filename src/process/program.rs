//! The outcome of a job, from the exit of its program.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::life::Life;
use super::plan::{Plan, Started};
use model::{Exit, ExitStatus, Failure, Outcome, WorkerId};
use wire::fault::Fault;
use wire::program::{Failed, Said, Step};

/// The outcome by what the child said before it became the program, and by the program's exit. None for a signal: that
/// is a crash. A child that was killed for want of memory had begun: its order may have been too large for it.
pub(super) fn outcome(program: &Started, exit: &Exit, said: Said, stderr: &str) -> Option<Outcome> {
    let Started { name, cwd, by_job } = program;
    match said {
        Said::Nothing if !exit.oom => return Some(Outcome::NotBegun),
        Said::Nothing | Said::Begun => {}
        Said::Failed(failed) => {
            let failure = never_ran(name, cwd, (failed, by_job.length));
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
    never_ran(&name, &text(&command.cwd), (failed, false)).message
}

/// Why a program that is there cannot be found: the system says so of its interpreter, too. None = it is not there.
fn interpreter(path: &Path) -> Option<String> {
    if !path.is_file() {
        return None;
    }
    let mut start = Vec::new();
    // The kernel itself looks at no more of a file for its `#!` (BINPRM_BUF_SIZE).
    File::open(path).ok()?.take(256).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!").and_then(|rest| rest.split(|byte| *byte == b'\n').next());
    Some(match line {
        Some(line) if line.ends_with(b"\r") => {
            "its lines end with CR LF, so that the CR belongs to the name of its interpreter (sed -i 's/\\r$//')".into()
        }
        Some(line) => match line.trim_ascii().split(u8::is_ascii_whitespace).next() {
            // The file or its interpreter has come back since.
            Some(path) if Path::new(OsStr::from_bytes(path)).exists() => return Some("it was not there for a moment".into()),
            _ => format!("its interpreter is not there: {}", String::from_utf8_lossy(line).trim()),
        },
        None => "the loader or a library that it names is not there".into(),
    })
}

/// Why a parked child could not become its program; also whether a job's arguments alone are too long.
fn never_ran(name: &str, cwd: &str, (failed, is_long): (Failed, bool)) -> Failure {
    let errno = nix::errno::Errno::from_raw(failed.errno);
    let (group, message) = match (failed.step, errno) {
        (Step::Exec, nix::errno::Errno::ENOENT) if !name.contains('/') => {
            ("not found", format!("no program '{name}' in PATH"))
        }
        (Step::Exec, nix::errno::Errno::ENOENT) => match interpreter(&Path::new(cwd).join(name)) {
            Some(why) => ("not found", format!("'{name}' cannot run: {why}")),
            None => ("not found", format!("no program '{name}'")),
        },
        (Step::Exec, nix::errno::Errno::EACCES) => ("not executable", format!("'{name}' is not executable")),
        (Step::Exec, nix::errno::Errno::E2BIG) if !is_long => (
            "too long",
            format!(
                "what the pool sets for '{name}' is longer than the system allows: its command (run) with its environment (env)"
            ),
        ),
        (Step::Exec, nix::errno::Errno::E2BIG) => (
            "too long",
            format!(
                "the arguments and the environment of '{name}' are longer than the system allows; give data by stdin (put \
                 --data)"
            ),
        ),
        (Step::Chdir, _) => ("no directory", format!("failed to change to '{cwd}': {}", errno.desc())),
        (step, _) => ("cannot start", format!("failed to {} '{name}': {}", step.as_str(), errno.desc())),
    };
    Failure { group: group.into(), message, trace: None }
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;

    use super::*;

    #[test]
    fn program_whose_interpreter_is_missing_is_not_said_to_be_missing() {
        let dir = tempfile::tempdir().unwrap();
        let said = |name: &str, text: &str| {
            std::fs::write(dir.path().join(name), text).unwrap();
            let failed = Failed { step: Step::Exec, errno: Errno::ENOENT as i32 };
            never_ran(&format!("./{name}"), dir.path().to_str().unwrap(), (failed, false)).message
        };
        assert!(
            said("crlf", "#!/bin/sh\r\necho\r\n")
                .starts_with("'./crlf' cannot run: its lines end with CR LF")
        );
        assert_eq!(
            said("lost", "#! /no/such -x\n"),
            "'./lost' cannot run: its interpreter is not there: /no/such -x"
        );
        assert_eq!(said("back", "#!/bin/sh -e\n"), "'./back' cannot run: it was not there for a moment");
        let failed = Failed { step: Step::Exec, errno: Errno::ENOENT as i32 };
        let none = never_ran("./none", dir.path().to_str().unwrap(), (failed, false));
        assert_eq!(none.message, "no program './none'");
    }

    #[test]
    fn what_is_too_long_is_said_of_the_one_who_has_set_it() {
        let failed = Failed { step: Step::Exec, errno: Errno::E2BIG as i32 };
        let said = |is_long| never_ran("x", "/", (failed, is_long)).message;
        assert!(said(true).contains("put --data") && !said(false).contains("put --data"));
        assert!(said(false).contains("what the pool sets for 'x'"), "{}", said(false));
    }
}
