//! What can be typed after `start`.

use std::path::PathBuf;
use std::time::Duration;

use super::settings::{PoolFlags, SUPERVISOR, SupervisorFlags};
use config::{Flags, Setting, WqSection, parse_duration};

pub(super) const HELP: &str = "\
Without COMMAND each job is a program of its own, as `taskvisor put -- PROGRAM` queues it. With COMMAND the workers are that command: each loads an application once and runs jobs of its classes.

Examples:
  taskvisor start -w 8
  taskvisor start -w 8 -- python3 -m taskvisor.worker app.tasks
  taskvisor start -w 8 -m fork -- python3 -m taskvisor.worker app.tasks
  taskvisor start -w 8 -m coroutine -- python3 -m taskvisor.worker app.tasks
  taskvisor start -w 2 --watch app -- python3 -m taskvisor.worker app.tasks
  taskvisor start -w 4 -q urgent -q default --time-limit 10m
  taskvisor start -w 2 --burst";

#[derive(Debug, clap::Args)]
pub(crate) struct Start {
    #[command(flatten)]
    pool: PoolFlags,
    /// Exit when the queues are empty. Exit with code 1 when no worker here can run the jobs that are left
    #[arg(long, help_heading = SUPERVISOR)]
    burst: bool,
    /// Stop once N jobs have ended; those that run then get the time of a stop
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = SUPERVISOR)]
    end_after: Option<u64>,
    /// Exit after this time without work
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = SUPERVISOR)]
    end_when_idle: Option<Duration>,
    /// Exchange the workers when code in DIR is saved; those that run stay while the new code cannot be loaded
    /// (repeatable)
    #[arg(long, value_name = "DIR", help_heading = SUPERVISOR)]
    watch: Vec<PathBuf>,
    /// Begin a new store where the old one is lost: its file is missing or empty, and start refuses it
    #[arg(long, help_heading = SUPERVISOR)]
    pub new_store: bool,
    /// Start one worker of each pool for a moment, with a store in memory and directories of its own, say what does
    /// not work, and end
    #[arg(long, help_heading = SUPERVISOR)]
    pub check: bool,
    /// Take notifications in with `enabled=true`, and set what becomes of them; may be given several times
    #[arg(long = "wq", value_name = "NAME=VALUE", value_parser = WqSection::parse, help_heading = SUPERVISOR)]
    wq: Vec<WqSection>,
    #[command(flatten)]
    whole: SupervisorFlags,
}

impl Start {
    pub(crate) fn add_to(&self, flags: &mut Flags) {
        flags.burst = self.burst;
        flags.end_after = self.end_after;
        flags.end_when_idle = self.end_when_idle;
        flags.watch.clone_from(&self.watch);
        flags.whole = self.whole.0.clone().over(std::mem::take(&mut flags.whole));
        // Each --wq has some of the settings: of two that set the same the later wins.
        flags.whole.wq = self.wq.iter().cloned().reduce(|before, next| next.over(before));
        flags.pool = self.pool.0.clone();
    }
}
