//! What can be typed after `status`.

use clap::ArgAction;

#[derive(Debug, clap::Args)]
pub(crate) struct Status {
    /// Print as JSON, schema taskvisor.status/2
    #[arg(long, conflicts_with = "quiet")]
    pub json: bool,
    /// Show each idle slot and each process, instead of one line for those that are equal
    #[arg(long, conflicts_with_all = ["json", "quiet", "fleet"])]
    pub all: bool,
    /// Redraw every N seconds, until q
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", conflicts_with = "quiet",
          value_parser = clap::value_parser!(u16).range(1..=3600))]
    pub watch: Option<u16>,
    /// Print nothing; the exit code is the verdict: 0 healthy, 3 not running, 5 degraded, 6 unhealthy
    #[arg(short, long, action = ArgAction::SetTrue)]
    pub quiet: bool,
    /// Draw with ASCII only
    #[arg(long)]
    pub ascii: bool,
    /// Every supervisor that shares the Redis, instead of this one; as JSON, schema taskvisor.fleet/1
    #[arg(long, conflicts_with_all = ["quiet", "watch"])]
    pub fleet: bool,
    /// With --fleet: the jobs that each runs, too
    #[arg(short, long, requires = "fleet")]
    pub verbose: bool,
}
