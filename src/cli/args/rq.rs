//! What can be typed after `rq`.

use std::ffi::OsString;

use clap::Subcommand;

/// Their flags are RQ's, and some of RQ's are called as other things are here: so they are read by a grammar of their own.
#[derive(Debug, Subcommand)]
pub(crate) enum RqCommand {
    /// `worker` or `worker-pool`, and RQ's flags
    #[command(external_subcommand)]
    Of(Vec<OsString>),
}

pub(super) const HELP: &str = "\
Commands:
  worker       Run the jobs of RQ's queues, one at a time
  worker-pool  The same, several at a time

Both take the flags of `rq worker` and `rq worker-pool`: taskvisor rq worker --help

Examples:
  taskvisor rq worker -u redis://localhost:6379/0 high default
  taskvisor rq worker-pool -n 8 -c settings";
