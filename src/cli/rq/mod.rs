//! `rq worker` and `rq worker-pool`: the command line of RQ, for `start`.

mod args;
mod module;
mod place;
mod translate;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use clap::Parser;

use self::args::{Asked, Pool, Worker};
use self::translate::{Start, start};
use super::args::{Common, RqCommand};
use failure::{Failure, exit};

/// Becomes the supervisor for these flags.
pub(super) fn rq(common: &Common, RqCommand::Of(typed): &RqCommand) -> Result<ExitCode, Failure> {
    let name = typed.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let asked = match name.as_str() {
        "worker" => Worker::try_parse_from(args::in_words(typed)).map(Asked::Worker),
        "worker-pool" => Pool::try_parse_from(typed).map(Asked::Pool),
        _ => {
            let what = format!("there is no command 'rq {name}' here: worker and worker-pool there are");
            return Err(Failure::new(exit::USAGE, what).hint(format!("RQ's own has it: rq {name}")));
        }
    };
    let asked = match asked {
        Ok(asked) => asked,
        Err(error) => {
            // A reader of the help that has gone is no failure.
            let _ = error.print();
            return Ok(ExitCode::from(if error.use_stderr() { exit::USAGE } else { exit::OK }));
        }
    };
    let shared = asked.shared();
    let module = module::read(shared)?;
    let environment = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let planned = start(&asked, module, &environment)
        .map_err(|why| Failure::new(exit::USAGE, why.what).hint(why.hint))?;
    for note in &planned.notes {
        eprintln!("taskvisor rq: {note}");
    }
    // After the translation, so that wrong flags leave no directory behind.
    let (claim, place) = place::place(common, planned.name.as_deref())?;
    // The exec below keeps the pid.
    if let Some(path) = asked.pid_file() {
        write_pid(path)
            .map_err(|error| Failure::from(error).of(format!("failed to write {}", path.display())))?;
    }
    let error = become_it(common, &planned, &place);
    // Only here, after exec has failed: the lock keeps others away until `start` has its own.
    drop(claim);
    Err(Failure::from(error).of("failed to run taskvisor start"))
}

fn write_pid(path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(path)?;
    write!(file, "{}", std::process::id())
}

/// Returns only on failure. URLs go into the environment, which other users cannot read.
fn become_it(common: &Common, planned: &Start, place: &place::Place) -> io::Error {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return error,
    };
    let mut command = Command::new(program);
    if let Some(file) = common.config() {
        command.arg("--config").arg(file);
    }
    command.env("TASKVISOR_STATE_DIR", &place.state).env("TASKVISOR_RUN_DIR", &place.run);
    command.env("TASKVISOR_BROKER", &planned.broker).env("RQ_REDIS_URL", &planned.url);
    command.arg("start").args(&planned.args).exec()
}
