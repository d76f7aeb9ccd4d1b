//! The command `redis script`.

use clap::Subcommand;

use super::term::screen::print;
use broker::qless::script::{LIB, SCRIPT};
use failure::{Failure, exit};

#[derive(Debug, Subcommand)]
pub enum RedisCommand {
    /// Print the script that runs in Redis, for callers of one's own
    #[command(after_help = HELP)]
    Script(Script),
}

#[derive(Debug, clap::Args)]
pub struct Script {
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
pub fn redis(command: &RedisCommand) -> Result<u8, Failure> {
    let RedisCommand::Script(Script { lib }) = command;
    print(if *lib { LIB } else { SCRIPT })?;
    Ok(exit::OK)
}
