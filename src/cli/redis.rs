//! The command `redis script`.

use clap::Subcommand;

#[cfg(feature = "redis")]
use super::term::screen::print;
use failure::{Failure, exit};
#[cfg(feature = "redis")]
use qless::script::{LIB, SCRIPT};

#[derive(Debug, Subcommand)]
pub(super) enum RedisCommand {
    /// Print the script that runs in Redis, for callers of one's own
    #[command(after_help = HELP)]
    Script(Script),
}

#[derive(Debug, clap::Args)]
pub(super) struct Script {
    /// As a function `taskvisor(KEYS, ARGV)` that is not called, for scripts that are made of several commands
    #[arg(long)]
    pub lib: bool,
}

const HELP: &str = "\
It is called as EVALSHA <sha> 0 <command> <now> [arguments...], with the time in seconds since 1970.

Examples:
  taskvisor redis script >taskvisor.lua
  redis-cli --eval taskvisor.lua , put \"$(date +%s.%N)\" me mail \"$(uuidgen)\" Welcome '{}' 0";

/// Runs the command.
#[cfg(feature = "redis")]
pub(super) fn redis(command: &RedisCommand) -> Result<u8, Failure> {
    let RedisCommand::Script(Script { lib }) = command;
    print(if *lib { LIB } else { SCRIPT })?;
    Ok(exit::OK)
}

/// The script belongs to a broker that is not built in.
#[cfg(not(feature = "redis"))]
pub(super) fn redis(command: &RedisCommand) -> Result<u8, Failure> {
    let RedisCommand::Script(Script { lib: _ }) = command;
    let message = "failed to print the script: this taskvisor is built without Redis (feature `redis`)";
    Err(Failure::new(exit::UNSUPPORTED, message).hint("build it with `--features redis`"))
}
