//! The flags of `rq worker` and `rq worker-pool`, as RQ 3 has them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum};

/// What both take.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct Shared {
    /// The Redis with the jobs
    #[arg(short, long, value_name = "URL", env = "RQ_REDIS_URL", hide_env_values = true)]
    pub url: Option<String>,
    /// A module with RQ's settings
    #[arg(short, long, value_name = "MODULE", env = "RQ_CONFIG")]
    pub config: Option<String>,
    /// The class of workers
    #[arg(short, long, value_name = "CLASS", env = "RQ_WORKER_CLASS")]
    pub worker_class: Option<String>,
    /// The class of jobs
    #[arg(short, long, value_name = "CLASS", env = "RQ_JOB_CLASS")]
    pub job_class: Option<String>,
    /// The class of queues
    #[arg(long, value_name = "CLASS", env = "RQ_QUEUE_CLASS")]
    pub queue_class: Option<String>,
    /// The class of connections
    #[arg(long, value_name = "CLASS", env = "RQ_CONNECTION_CLASS")]
    pub connection_class: Option<String>,
    /// Where modules are looked for first; may be given several times
    #[arg(short = 'P', long, value_name = "DIR")]
    pub path: Vec<PathBuf>,
    /// json, pickle or the path of a class
    #[arg(short = 'S', long, value_name = "NAME")]
    pub serializer: Option<String>,
    /// End when the queues are empty
    #[arg(short, long)]
    pub burst: bool,
    /// Is called with a job that has failed; may be given several times
    #[arg(long = "exception-handler", value_name = "FUNCTION")]
    pub exception_handlers: Vec<String>,
    /// Show more in the log
    #[arg(short, long, conflicts_with = "quiet")]
    pub verbose: bool,
    /// Show less in the log
    #[arg(short, long)]
    pub quiet: bool,
    /// Has no meaning here: the supervisor's log has its own format
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<String>,
    /// Has no meaning here, as --log-format
    #[arg(long, value_name = "FORMAT")]
    pub date_format: Option<String>,
    /// Where its jobs are looked for [default: default]
    #[arg(value_name = "QUEUES")]
    pub queues: Vec<String>,
    /// A forked process for each job, or one job after the other in a process [default: fork]
    #[arg(long, value_name = "MODE", help_heading = "taskvisor's own")]
    pub mode: Option<Mode>,
    /// Import this before the first job; in the mode fork all jobs share it; may be given several times. "auto": also
    /// the modules of functions that have returned
    #[arg(long = "preload", value_name = "MODULE", help_heading = "taskvisor's own")]
    pub preload: Vec<String>,
    /// Let RQ's own code end every job
    #[arg(long, help_heading = "taskvisor's own")]
    pub native: bool,
    /// The Python of the application
    #[arg(long, value_name = "PROGRAM", default_value = "python3", help_heading = "taskvisor's own")]
    pub python: String,
}

/// The flags of `rq worker`.
#[derive(Debug, Clone, Default, Parser)]
#[command(name = "taskvisor rq worker", bin_name = "taskvisor rq worker", max_term_width = 100)]
pub(super) struct Worker {
    #[command(flatten)]
    pub shared: Shared,
    /// DEBUG, INFO, WARNING, ERROR or CRITICAL
    #[arg(long = "logging_level", alias = "logging-level", value_name = "LEVEL")]
    pub logging_level: Option<String>,
    /// The name of the worker
    #[arg(short, long, value_name = "NAME")]
    pub name: Option<String>,
    /// How long results are kept, in seconds [default: 500]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub results_ttl: Option<i64>,
    /// The worker is known for a minute more than this without a word of it, in seconds [default: 30]
    #[arg(long, value_name = "SECONDS")]
    pub worker_ttl: Option<u64>,
    /// Seconds from one look at what others have left to the next [default: 600]
    #[arg(long, value_name = "SECONDS")]
    pub maintenance_interval: Option<u64>,
    /// A job counts as abandoned a minute after a word about it is this late, in seconds
    #[arg(long, value_name = "SECONDS")]
    pub job_monitoring_interval: Option<u64>,
    /// Has no meaning here: descriptions are not logged
    #[arg(long)]
    pub disable_job_desc_logging: bool,
    /// Write the process id to this file
    #[arg(long, value_name = "FILE")]
    pub pid: Option<PathBuf>,
    /// Keep nothing of failures: the handlers do
    #[arg(short, long)]
    pub disable_default_exception_handler: bool,
    /// End after N jobs
    #[arg(long, value_name = "N")]
    pub max_jobs: Option<u64>,
    /// End after this time without work, in seconds
    #[arg(long, value_name = "SECONDS")]
    pub max_idle_time: Option<u64>,
    /// Put jobs into their queues when their time has come, too
    #[arg(short = 's', long)]
    pub with_scheduler: bool,
    /// -ds: which queue comes first
    #[arg(long, value_name = "STRATEGY", default_value = "default")]
    pub dequeue_strategy: Strategy,
}

/// The flags of `rq worker-pool`.
#[derive(Debug, Clone, Default, Parser)]
#[command(name = "taskvisor rq worker-pool", bin_name = "taskvisor rq worker-pool", max_term_width = 100)]
pub(super) struct Pool {
    #[command(flatten)]
    pub shared: Shared,
    /// DEBUG, INFO, WARNING, ERROR or CRITICAL
    #[arg(short, long, value_name = "LEVEL")]
    pub logging_level: Option<String>,
    /// How many workers
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub num_workers: u16,
}

/// From which queue first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(super) enum Strategy {
    #[default]
    Default,
    RoundRobin,
    Random,
}

/// How jobs are mapped to processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    Fork,
    Prefork,
}

/// The command that was typed.
#[derive(Debug)]
pub(super) enum Asked {
    Worker(Worker),
    Pool(Pool),
}

impl Asked {
    /// The flags that both commands have.
    pub(super) fn shared(&self) -> &Shared {
        match self {
            Asked::Worker(worker) => &worker.shared,
            Asked::Pool(pool) => &pool.shared,
        }
    }

    /// The file for the process id.
    pub(super) fn pid_file(&self) -> Option<&Path> {
        match self {
            Asked::Worker(worker) => worker.pid.as_deref(),
            Asked::Pool(_) => None,
        }
    }
}

/// Splits `-ds`, which in RQ is one flag of two letters.
pub(super) fn in_words(typed: &[OsString]) -> Vec<OsString> {
    let word = |word: &OsString| match word == "-ds" {
        true => "--dequeue-strategy".into(),
        false => word.clone(),
    };
    typed.iter().map(word).collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn clap_accepts_the_grammar() {
        Worker::command().debug_assert();
        Pool::command().debug_assert();
    }

    #[test]
    fn flags_of_rq_are_parsed() {
        let typed =
            "worker -b -s -ds random -d -n w1 -P . -P lib --logging_level DEBUG --max-jobs 3 high low";
        let typed: Vec<OsString> = typed.split(' ').map(Into::into).collect();
        let worker = Worker::try_parse_from(in_words(&typed)).unwrap();
        assert_eq!(worker.dequeue_strategy, Strategy::Random);
        assert!(worker.shared.burst && worker.with_scheduler && worker.disable_default_exception_handler);
        assert_eq!(worker.shared.queues, ["high", "low"]);
        assert_eq!(worker.shared.path, [PathBuf::from("."), PathBuf::from("lib")]);
        let pool = Pool::try_parse_from(["worker-pool", "-n", "4", "-l", "INFO", "-b", "q"]).unwrap();
        assert_eq!((pool.num_workers, pool.shared.burst), (4, true));
    }
}
