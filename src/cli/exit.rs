//! The exit codes, all of them, and the way to them.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use super::args::mistyped::explained;
use super::args::{Args, Command, ConfigCommand};
use super::check;
use super::config;
use super::control::reload;
use super::control::stop;
use super::doctor;
use super::events;
use super::failed;
use super::failure::Failure;
use super::in_force;
use super::job;
use super::option;
use super::put;
use super::queue;
use super::queue::statsd;
use super::recur;
use super::redis;
use super::reference;
use super::serve::serve;
use super::start;
use super::status;
use super::why;
use crate::config::{Config, Flags, Purpose, Surroundings, resolve};

/// Done.
pub const OK: u8 = 0;
/// Not done; or a job that was waited for did not complete.
pub const FAILED: u8 = 1;
/// Typed wrongly.
pub const USAGE: u8 = 2;
/// No supervisor runs.
pub const NOT_RUNNING: u8 = 3;
/// `status -q`: some of it does not work.
pub const DEGRADED: u8 = 5;
/// `status -q`: nothing works.
pub const UNHEALTHY: u8 = 6;
/// No such job, queue or recurring job.
pub const NOTHING_MATCHED: u8 = 7;
/// This kind of broker cannot do it; what to do instead is said.
pub const UNSUPPORTED: u8 = 8;
/// The store or the directories are in use or cannot be reached, or the store did not take all before the end
/// (EX_UNAVAILABLE).
pub const UNAVAILABLE: u8 = 69;
/// `start`: an error of the program itself (EX_SOFTWARE).
pub const SOFTWARE: u8 = 70;
/// The machine could not do it (EX_IOERR).
pub const IO: u8 = 74;
/// Not permitted (EX_NOPERM).
pub const PERMISSION: u8 = 77;
/// The settings are wrong (EX_CONFIG).
pub const CONFIG: u8 = 78;
/// The wait timed out.
pub const TIMED_OUT: u8 = 124;

/// The same for people, below `--help`.
pub const HELP: &str = "\
Exit codes:
  0 done   1 failed   2 usage   3 not running   5 degraded, 6 unhealthy (status -q)
  7 nothing matched   8 the broker cannot do it   69 unavailable   70 own error
  74 input/output   77 not permitted   78 wrong settings   124 the wait timed out

Data goes to stdout, words about it to stderr. taskvisor alone prints this help, with code 2. NO_COLOR turns colour off.";

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    with_args(std::env::args_os(), run)
}

/// Runs the supervisor that the keeper started with `start`'s own arguments.
pub fn supervisor(args: impl Iterator<Item = OsString>) -> ExitCode {
    with_args(std::iter::once("taskvisor".into()).chain(args), |args| {
        let config = settings_for(&args, Purpose::Serve)?;
        // What a reload would start must be there, as for a start.
        serve(config, move || settings_for(&args, Purpose::Start))
    })
}

fn with_args(
    args: impl Iterator<Item = OsString>,
    run: impl FnOnce(Args) -> Result<ExitCode, Failure>,
) -> ExitCode {
    let typed: Vec<OsString> = args.collect();
    if typed.len() < 2 {
        // On stderr and with code 2, so that a script which has lost its words notices.
        eprint!("{}", Args::command().render_help());
        return ExitCode::from(USAGE);
    }
    let args = match Args::try_parse_from(&typed) {
        Ok(args) => args,
        Err(error) => {
            let error = if error.use_stderr() { explained(Args::command(), &typed, error) } else { error };
            // A reader of the help that went away is no failure.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { USAGE } else { OK });
        }
    };
    match run(args) {
        Ok(code) => code,
        Err(failure) => failure.print(),
    }
}

/// The settings as what was typed needs them.
pub(super) fn settings(args: &Args) -> Result<Config, Failure> {
    let starts = matches!(args.command, Command::Start(_) | Command::Check(_));
    settings_for(args, if starts { Purpose::Start } else { Purpose::Find })
}

fn settings_for(args: &Args, purpose: Purpose) -> Result<Config, Failure> {
    let mut flags = Flags { purpose, ..args.common.flags() };
    if let Some(start) = args.start() {
        start.add_to(&mut flags);
    }
    if flags.purpose == Purpose::Serve {
        flags.in_force = std::env::var_os(in_force::VARIABLE).map(Into::into);
    }
    Ok(resolve(flags, &Surroundings::of_process())?)
}

/// What needs none, or says itself what is wrong with them.
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
    let Command::Man(of) = &args.command else { return None };
    Some(reference::manual(of).map(ExitCode::from))
}

fn run(args: Args) -> Result<ExitCode, Failure> {
    if let Some(done) = without_settings(&args) {
        return done;
    }
    let config = settings(&args)?;
    if let Command::Start(typed) = &args.command {
        check::warn_of_findings(&args, &config);
        return start::start(config, typed.new_store);
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
            Command::Start(_)
            | Command::Check(_)
            | Command::Config(_)
            | Command::Doctor(_)
            | Command::Completion(_)
            | Command::Redis(_)
            | Command::Man(_) => Ok(OK),
            Command::Stop(stop) => stop::stop(&config, &stop).await,
            Command::Put(put) => put::put(&config, put).await,
            Command::Job(command) => job::run(&config, command).await,
            Command::Queue(command) => queue::run(&config, command).await,
            Command::Recur(command) => recur::run(&config, &command).await,
            Command::Option(command) => option::run(&config, &command).await,
            Command::Failed(args) => failed::failed(&config, args).await,
            Command::Stats(args) => statsd::stats(&config, &args).await,
            Command::Status(status) => status::status(&config, &status).await,
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
    code.map(ExitCode::from)
}
