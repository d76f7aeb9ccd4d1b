//! What `job list --sort` takes.

use clap::ValueEnum;

/// What a list of jobs is sorted by, largest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    Ran,
    Memory,
    Cpu,
}
