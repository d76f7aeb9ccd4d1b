//! From a job to the program a parked child becomes, and from its exit to what that means.

use std::os::unix::ffi::OsStringExt;

use crate::model::{Exec, Exit, ExitStatus, Failure, Job, Outcome, WorkerId};
use crate::wire::program::{Failed, Program, Step};

/// Variables of our own environment that jobs see. Everything else (credentials!) stays here.
const INHERITED: [&str; 9] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"];

/// The keeper's mark on every program, by which it is found should it outlive the keeper; and where we are given it.
const TAG: &str = "TASKVISOR_KEEPER";
const TAG_GIVEN: &str = "TASKVISOR_KEEPER_TAG";

/// Used when we were started without one.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What every job's environment starts with: `NAME=value`.
pub fn base_environment() -> Vec<Vec<u8>> {
    let wanted = |name: &str| INHERITED.contains(&name) || name.starts_with("LC_");
    let mut environment: Vec<Vec<u8>> = std::env::vars_os()
        .filter(|(name, _)| name.to_str().is_some_and(wanted))
        .map(|(name, value)| [name.into_vec(), value.into_vec()].join(&b'='))
        .collect();
    if let Some(tag) = std::env::var_os(TAG_GIVEN) {
        environment.push([TAG.as_bytes(), tag.as_encoded_bytes()].join(&b'='));
    }
    if !environment.iter().any(|line| line.starts_with(b"PATH=")) {
        environment.push(format!("PATH={PATH}").into_bytes());
    }
    environment
}

/// The order for a parked child. The environment carries ids only: data travels by stdin.
pub(super) fn program(exec: &Exec, job: &Job, worker: WorkerId, base: &[Vec<u8>]) -> Program {
    let mut env = base.to_vec();
    let ids = [
        ("TASKVISOR_JOB", job.id.to_string()),
        ("TASKVISOR_QUEUE", job.queue.to_string()),
        ("TASKVISOR_ATTEMPT", job.attempt.to_string()),
        ("TASKVISOR_WORKER", worker.to_string()),
    ];
    env.extend(ids.map(|(name, value)| format!("{name}={value}").into_bytes()));
    Program {
        argv: exec.argv.iter().map(|arg| arg.0.clone()).collect(),
        env,
        cwd: exec.cwd.0.clone(),
        umask: exec.umask,
        stdin: !exec.stdin.0.is_empty(),
        speaks: false,
        identity: None,
    }
}

/// What the end of a program says of its job. A signal says nothing: that is a crash.
pub(super) fn outcome(exec: &Exec, exit: &Exit, failed: Option<Failed>, stderr: &str) -> Option<Outcome> {
    let name = exec.argv.first().map(|name| name.to_text()).unwrap_or_default();
    if let Some(failed) = failed {
        return Some(Outcome::FailedForGood(never_ran(&name, exec, failed)));
    }
    match exit.status {
        ExitStatus::Code(0) => Some(Outcome::Complete { result: None }),
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

fn never_ran(name: &str, exec: &Exec, failed: Failed) -> Failure {
    let errno = nix::errno::Errno::from_raw(failed.errno);
    let cwd = exec.cwd.to_text();
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
