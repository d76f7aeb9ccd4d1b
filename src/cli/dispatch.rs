//! Maps the command line to the functions that carry out its commands.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};

use super::args::mistyped::explained;
use super::args::typed::typed;
use super::args::{Args, Command, ConfigCommand, StartArgs};
use super::control::{reload, stop};
use super::settings::{settings, settings_for};
use super::{
    batch, check, config, doctor, events, failed, job, kale, option, put, queue, recur, redis, reference,
    release, rq, simulate, statsd, status, top, trial, values, web, why, wq,
};
use ::config::{Config, Purpose, keep_users_out, watched_are_there};
use failure::{Failure, exit};

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    with_args(std::env::args_os(), run)
}

/// Runs the supervisor, which the keeper starts with the arguments of `start`.
pub fn supervisor(args: impl Iterator<Item = OsString>) -> ExitCode {
    // First, as relative paths among the arguments start from this directory.
    start_dir::take_from_environment();
    let words: Vec<OsString> = std::iter::once("taskvisor".into()).chain(args).collect();
    match of_start(&words) {
        Ok((args, typed)) => ended(supervise(args, typed)),
        // `start` has read the same words before, so only somebody who typed `supervisor` sees this.
        Err(_) => with_args(words.into_iter(), |args| supervise(args, BTreeMap::new())),
    }
}

/// Reads the words of `start`, and which settings were typed. The tree of its flags ends here: a supervisor lives long.
fn of_start(words: &[OsString]) -> Result<(Args, BTreeMap<String, String>), clap::Error> {
    let mut command = StartArgs::command();
    let found = command.try_get_matches_from_mut(words)?;
    let mut typed = typed(&command, &found);
    // A command line is read by many, so the supervisor has this flag by a variable.
    if boot::broker_was_typed() {
        typed.insert("broker".into(), "--broker".into());
    }
    Ok((StartArgs::from_arg_matches(&found)?.into(), typed))
}

fn supervise(args: Args, typed: BTreeMap<String, String>) -> Result<ExitCode, Failure> {
    let config = settings_for(&args, Purpose::Serve)?;
    // The programs and users of a reload must exist, as for a start, and the users must stay out of our directories.
    boot::serve(config, typed, move || {
        let config = settings_for(&args, Purpose::Start)?;
        keep_users_out(&config)?;
        Ok(config)
    })
}

fn ended(end: Result<ExitCode, Failure>) -> ExitCode {
    end.unwrap_or_else(|failure| failure.print())
}

fn with_args(
    args: impl Iterator<Item = OsString>,
    run: impl FnOnce(Args) -> Result<ExitCode, Failure>,
) -> ExitCode {
    let typed: Vec<OsString> = args.collect();
    // Before the grammar is asked, which knows none of QuantumLeap's flags.
    if let Some(failure) = wq::start_instead(&typed) {
        return failure.print();
    }
    if typed.len() < 2 {
        // On stderr and with code 2, so that a script whose arguments are missing notices.
        // A reader that has gone is no failure.
        let _ = write!(io::stderr(), "{}", Args::command().render_help());
        return ExitCode::from(exit::USAGE);
    }
    let args = match Args::try_parse_from(&typed) {
        Ok(args) => args,
        Err(error) => {
            // For clap --help is an error, too, and needs no explanation.
            let error = if error.use_stderr() { explained(Args::command(), &typed, error) } else { error };
            let printed = error.print().map_err(Failure::from);
            return match printed {
                _ if error.use_stderr() => ExitCode::from(exit::USAGE),
                Err(failure) => failure.of("failed to print the help").print(),
                Ok(()) => ExitCode::from(exit::OK),
            };
        }
    };
    ended(run(args))
}

/// Runs commands that need no settings, or that report errors in them themselves.
fn without_settings(args: &Args) -> Option<Result<ExitCode, Failure>> {
    if let Command::Check(how) = &args.command {
        return Some(check::check(args, how));
    }
    if let Command::Completion(of) = &args.command {
        return Some(reference::completion(of).map(ExitCode::from));
    }
    if let Command::Redis(command) = &args.command {
        return Some(redis::redis(command).map(ExitCode::from));
    }
    if let Command::Kale(command) = &args.command {
        return Some(kale::kale(command).map(ExitCode::from));
    }
    if let Command::Rq(command) = &args.command {
        return Some(rq::rq(&args.common, command));
    }
    if let Command::Simulate(how) = &args.command {
        return Some(simulate::simulate(how, args.common.flags().whole.broker.as_deref()));
    }
    if let Command::Wq(_) = &args.command {
        let what = "wq up comes first on the command line, what else there is behind it";
        return Some(Err(Failure::new(exit::USAGE, what).hint("taskvisor wq up [OPTIONS]")));
    }
    let Command::Man(of) = &args.command else { return None };
    Some(reference::manual(of).map(ExitCode::from))
}

fn run(args: Args) -> Result<ExitCode, Failure> {
    if let Some(done) = without_settings(&args) {
        return done;
    }
    let config = settings(&args)?;
    if let Command::Start(typed) = &args.command {
        watched_are_there(&config)?;
        if typed.check {
            return trial::trial(&config);
        }
        check::warn_of_findings(&args, &config);
        return boot::start(config, typed.new_store);
    }
    if let Command::Doctor(doctor) = &args.command {
        return doctor::doctor(&config, doctor);
    }
    if let Command::Config(ConfigCommand::Show(how)) = &args.command {
        return config::show(&config, &args, how).map(ExitCode::from);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let code = runtime.block_on(async {
        match args.command {
            // Carried out above; named here, so that a new command is not forgotten.
            Command::Start(_)
            | Command::Check(_)
            | Command::Config(_)
            | Command::Doctor(_)
            | Command::Completion(_)
            | Command::Redis(_)
            | Command::Kale(_)
            | Command::Rq(_)
            | Command::Simulate(_)
            | Command::Wq(_)
            | Command::Man(_) => Ok(exit::OK),
            Command::Stop(stop) => stop::stop(&config, &stop).await,
            Command::Put(put) => put::put(&config, put).await,
            Command::Job(command) => job::run(&config, command).await,
            Command::Batch(command) => batch::run(&config, command).await,
            Command::Queue(command) => queue::run(&config, command).await,
            Command::Recur(command) => recur::run(&config, &command).await,
            Command::Option(command) => option::run(&config, &command).await,
            Command::Release(command) => release::release(&config, &command).await,
            Command::Failed(args) => failed::failed(&config, args).await,
            Command::Stats(args) => statsd::stats(&config, &args).await,
            Command::Values(of) => values::values(&config, &of).await,
            Command::Status(status) => status::status(&config, &status).await,
            Command::Top(args) => top::top(&config, &args).await,
            Command::Web(args) => web::web(&config, args).await,
            Command::Events(args) => events::events(&config, args).await,
            Command::Why(subject) => why::why(&config, &subject).await,
            Command::Reload(args) => reload::reload(&config, &args).await,
            Command::Recycle(args) => reload::recycle(&config, &args).await,
            Command::Scale(args) => reload::scale(&config, &args).await,
            Command::Pause(args) => reload::pause(&config, &args).await,
            Command::Resume(args) => reload::resume(&config, &args).await,
            Command::Drain(args) => reload::drain(&config, &args).await,
        }
    });
    code.map(ExitCode::from).map_err(|failure| with_its_keeper(&config, failure))
}

/// No supervisor answers, but its keeper lives: then there is nothing to start.
fn with_its_keeper(config: &Config, failure: Failure) -> Failure {
    let keeper = if failure.code == exit::NOT_RUNNING { boot::living_keeper(config) } else { None };
    match keeper {
        Some(keeper) => failure.hint(keeper.hint()),
        None => failure,
    }
}
