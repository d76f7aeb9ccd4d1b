//! What can be typed after `check` and `config`.

use clap::Subcommand;

use super::start::Start;

pub(super) const CHECK_HELP: &str = "\
Takes what start takes, and starts nothing. Each warning has the name of its rule and what to do about it.

Examples:
  taskvisor check -c /etc/taskvisor.yaml
  taskvisor check -c /etc/taskvisor.yaml --strict && systemctl restart taskvisor";

#[derive(Debug, clap::Args)]
pub(crate) struct Check {
    /// Print as JSON, schema taskvisor.check/1
    #[arg(long)]
    pub json: bool,
    /// End with code 1 if there are warnings
    #[arg(long)]
    pub strict: bool,
    #[command(flatten)]
    pub start: Start,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show every setting with its value and where that came from
    #[command(after_help = SHOW_HELP)]
    Show(ConfigShow),
}

const SHOW_HELP: &str = "\
Takes what start takes. With --secrets what it prints is a file of settings that start -c reads again; without it the values in env.set and what stands in run are null, which is to say not set.

Examples:
  taskvisor config show -c /etc/taskvisor.yaml
  taskvisor config show mail -c /etc/taskvisor.yaml
  taskvisor config show --secrets -w 8 -- python3 -m taskvisor.worker app.tasks >taskvisor.yaml";

#[derive(Debug, clap::Args)]
pub(crate) struct ConfigShow {
    /// Only this pool
    #[arg(value_name = "POOL")]
    pub only: Option<String>,
    /// Print as JSON, schema taskvisor.config/1
    #[arg(long)]
    pub json: bool,
    /// Also the values in env.set and what stands in run
    #[arg(long)]
    pub secrets: bool,
    #[command(flatten)]
    pub start: Start,
}
