//! The command line of the keeper's process.

use std::ffi::OsString;
use std::process::ExitCode;

use super::main_loop::run;
use super::say::say;
use super::setup::Setup;

/// Runs the hidden command `taskvisor keeper [options] -- SUPERVISOR…`; `args` are those after `keeper`.
pub fn command(args: impl Iterator<Item = OsString>) -> ExitCode {
    match Setup::parse(args) {
        Ok(setup) => run(setup),
        Err(why) => {
            say(format_args!("{why}"));
            ExitCode::from(64)
        }
    }
}
