//! `doctor`: what this machine lacks, the consequences, and what to do.

mod finding;
mod kernel;
mod limits;
mod place;

use std::process::ExitCode;

use self::finding::{Check, State};
use super::term::screen::{escaped, print, print_json};
use config::Config;
use failure::{Failure, exit};

/// Text below `doctor --help`.
pub const HELP: &str = "\
It looks as a supervisor would that is started here: by this user, in this cgroup. Nothing it does leaves a trace.
Exit code: 0 all that is needed is there; 1 something is bad.";

#[derive(Debug, clap::Args)]
pub struct Doctor {
    /// Print as JSON, schema taskvisor.doctor/1
    #[arg(long)]
    pub json: bool,
}

/// The schema of `--json`.
const SCHEMA: &str = "taskvisor.doctor/1";

/// Makes all checks. The process must have one thread.
pub(super) fn doctor(config: &Config, args: &Doctor) -> Result<ExitCode, Failure> {
    // First: some of its questions to the kernel need a process with one thread.
    let mut checks = kernel::checks();
    checks.extend(limits::checks(config));
    checks.extend(place::checks(config));
    let well = checks.iter().all(|check| check.state != State::Bad);
    match args.json {
        true => print_json(&serde_json::json!({ "schema": SCHEMA, "well": well, "checks": checks }))?,
        false => print(&render(&checks))?,
    }
    Ok(ExitCode::from(if well { exit::OK } else { exit::FAILED }))
}

fn render(checks: &[Check]) -> String {
    let mut text = String::new();
    for check in checks {
        let state = match check.state {
            State::Ok => "ok",
            State::Less => "less",
            State::Bad => "BAD",
        };
        text += &format!("{state:<5} {:<18} {}\n", check.name, escaped(&check.found));
        for (word, what) in [("so", check.effect), ("do", check.remedy)] {
            if !what.is_empty() {
                text += &format!("      {word}: {what}\n");
            }
        }
    }
    let count = |state: State| checks.iter().filter(|check| check.state == state).count();
    text + &format!("{} ok, {} less, {} bad\n", count(State::Ok), count(State::Less), count(State::Bad))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_shows_its_effect_and_its_remedy() {
        let checks = [
            Check::ok("kernel", "Linux 6.1.0"),
            Check::less("cgroup v2", "not mounted", "the end is proven otherwise", "mount it"),
            Check::bad("/proc", "not mounted\u{1b}[2J", "nothing starts", "mount -t proc proc /proc"),
        ];
        insta::assert_snapshot!(render(&checks), @r"
        ok    kernel             Linux 6.1.0
        less  cgroup v2          not mounted
              so: the end is proven otherwise
              do: mount it
        BAD   /proc              not mounted\x1b[2J
              so: nothing starts
              do: mount -t proc proc /proc
        1 ok, 1 less, 1 bad
        ");
    }
}
