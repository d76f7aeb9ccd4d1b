//! `doctor`: what this machine lacks, the consequences, and what to do.

mod kernel;
mod limits;
mod place;

use std::process::ExitCode;

use super::term::screen::{escaped, print, print_json};
use config::Config;
use failure::{Failure, exit};
use model::{Diagnosis, Fitness};

/// Text below `doctor --help`.
pub(super) const HELP: &str = "\
It looks as a supervisor would that is started here: by this user, in this cgroup. Nothing it does leaves a trace.
Exit code: 0 all that is needed is there; 1 something is bad.";

#[derive(Debug, clap::Args)]
pub(super) struct Doctor {
    /// Print as JSON, schema taskvisor.doctor/1
    #[arg(long)]
    pub json: bool,
    /// The supervisor that has it look, and asks the server of its jobs itself
    #[arg(long, value_name = "PID", hide = true, requires = "slots")]
    pub beside: Option<i32>,
    /// The slots of that supervisor, whose file is not read
    #[arg(long, value_name = "N", hide = true)]
    pub slots: Option<u64>,
    /// Whether to leave the store to it
    #[arg(long, hide = true)]
    pub no_store: bool,
}

/// Makes all checks. The process must have one thread.
pub(super) fn doctor(config: &Config, args: &Doctor) -> Result<ExitCode, Failure> {
    if let Some(supervisor) = args.beside
        && !keeper::look_beside(supervisor)?
    {
        return Ok(ExitCode::from(exit::OK));
    }
    let found = found(config, args);
    match args.json {
        true => print_json(&found)?,
        false => print(&render(&found))?,
    }
    Ok(ExitCode::from(if found.well { exit::OK } else { exit::FAILED }))
}

fn found(config: &Config, args: &Doctor) -> Diagnosis {
    // First: some of its questions to the kernel need a process with one thread.
    let mut checks = kernel::checks();
    checks.extend(limits::checks(args.slots.unwrap_or_else(|| config.slots())));
    if !args.no_store {
        checks.extend(place::checks(config));
    }
    Diagnosis::of(checks)
}

fn render(found: &Diagnosis) -> String {
    let mut text = String::new();
    for check in &found.checks {
        let state = match check.state {
            Fitness::Bad => "BAD",
            Fitness::Ok | Fitness::Less => check.state.as_str(),
        };
        text += &format!("{state:<5} {:<18} {}\n", check.name, escaped(&check.found));
        for (word, what) in [("so", &check.effect), ("do", &check.remedy)] {
            if !what.is_empty() {
                text += &format!("      {word}: {what}\n");
            }
        }
    }
    let count = |state: Fitness| found.count(state);
    text + &format!("{} ok, {} less, {} bad\n", count(Fitness::Ok), count(Fitness::Less), count(Fitness::Bad))
}

#[cfg(test)]
mod tests {
    use model::Finding;

    use super::*;

    #[test]
    fn finding_shows_its_effect_and_its_remedy() {
        let found = Diagnosis::of(vec![
            Finding::ok("kernel", "Linux 6.1.0"),
            Finding::less("cgroup v2", "not mounted", "the end is proven otherwise", "mount it"),
            Finding::bad("/proc", "not mounted\u{1b}[2J", "nothing starts", "mount -t proc proc /proc"),
        ]);
        insta::assert_snapshot!(render(&found), @r"
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
