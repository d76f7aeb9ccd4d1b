//! What can be typed after `option`.

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum OptionCommand {
    /// Show the options in force, or one of them
    Get(OptionGet),
    /// Set an option, for all queues or for one
    #[command(
        after_help = "Example, at most 5 jobs of a queue at a time:\n  taskvisor option set max_concurrency 5 --queue mail"
    )]
    Set(OptionSet),
    /// Put an option back to its default
    Unset(OptionUnset),
    /// Write what is set, as JSON
    Dump,
    /// Set what a file says, all or nothing
    Load(OptionLoad),
}

#[derive(Debug, clap::Args)]
pub(crate) struct OptionGet {
    /// The option's name
    pub name: Option<String>,
    /// What holds for this queue
    #[arg(short, long, value_name = "QUEUE")]
    pub queue: Option<String>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OptionSet {
    /// The option's name
    pub name: String,
    /// To what: a number, or a length of time like 10s
    pub value: String,
    /// For this queue only
    #[arg(short, long, value_name = "QUEUE")]
    pub queue: Option<String>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OptionUnset {
    /// The option's name
    pub name: String,
    /// For this queue only
    #[arg(short, long, value_name = "QUEUE")]
    pub queue: Option<String>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OptionLoad {
    /// What option dump wrote; - is stdin
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// What it does not name goes back to its default
    #[arg(long)]
    pub clear: bool,
}
