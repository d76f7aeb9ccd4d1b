//! What can be typed after `completion` and `man`.

use std::path::PathBuf;

use clap::ValueEnum;

#[derive(Debug, clap::Args)]
pub(crate) struct Completion {
    /// For which shell
    #[arg(value_enum)]
    pub shell: For,
}

/// The shells that are tried in the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum For {
    Bash,
    Zsh,
    Fish,
}

/// Below `completion --help`.
pub(crate) const COMPLETION_HELP: &str = "\
Examples:
  taskvisor completion bash >/usr/share/bash-completion/completions/taskvisor
  taskvisor completion zsh >/usr/share/zsh/site-functions/_taskvisor
  taskvisor completion fish >/usr/share/fish/vendor_completions.d/taskvisor.fish

They also ask the running supervisor for the names of pools, queues and options.";

#[derive(Debug, clap::Args)]
pub(crate) struct Manual {
    /// Write the pages of all commands into this directory instead
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Below `man --help`.
pub(crate) const MANUAL_HELP: &str = "\
Examples:
  taskvisor man | man -l -
  taskvisor man /usr/local/share/man/man1";

#[derive(Debug, clap::Args)]
pub(crate) struct Values {
    /// What to list
    #[arg(value_enum)]
    pub of: Kind,
}

/// What can be completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    Pools,
    Slots,
    Queues,
    States,
    Options,
    Classes,
    Recurring,
}
