//! What can be typed after `start`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use config::{self, Env, Flags, Limits, Named, Pool, Wear, Workers, WqSection, parse_duration};

pub const HELP: &str = "\
Without COMMAND each job is a program of its own, as `taskvisor put -- PROGRAM` queues it. With COMMAND the workers are that command: each loads an application once and runs jobs of its classes.

Examples:
  taskvisor start -w 8
  taskvisor start -w 8 -- python3 -m taskvisor.worker app.tasks
  taskvisor start -w 8 -m fork -- python3 -m taskvisor.worker app.tasks
  taskvisor start -w 8 -m coroutine -- python3 -m taskvisor.worker app.tasks
  taskvisor start -w 2 --watch app -- python3 -m taskvisor.worker app.tasks
  taskvisor start -w 4 -q urgent -q default --time-limit 10m
  taskvisor start -w 2 --burst";

/// Heading of the flags that concern no pool.
const SUPERVISOR: &str = "Supervisor";

#[derive(Debug, clap::Args)]
pub struct Start {
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
    /// How long a lease on a job lasts; the supervisor renews it while the job runs [default: 60s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = SUPERVISOR)]
    lease: Option<Duration>,
    /// From the order to stop to the last KILL [default: 25s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = SUPERVISOR)]
    stop_deadline: Option<Duration>,
    /// For people, for programs or for the journal [default: auto]
    #[arg(long, value_name = "FORMAT", help_heading = SUPERVISOR)]
    log_format: Option<LogFormat>,
    /// How much [default: info]
    #[arg(long, value_name = "LEVEL", env = "TASKVISOR_LOG", hide_env_values = true, help_heading = SUPERVISOR)]
    log_level: Option<LogLevel>,
}

/// Settings of the only pool.
#[derive(Debug, clap::Args)]
struct PoolFlags {
    /// How many workers [default: 1]
    #[arg(short, long, value_name = "N", env = "TASKVISOR_WORKERS", hide_env_values = true, value_parser = clap::value_parser!(u16).range(1..))]
    workers: Option<u16>,
    /// How many of them at least; the others come when jobs wait [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    min_workers: Option<u16>,
    /// One job after the other in a worker, a forked process for each, or many at a time
    /// [default: prefork; without COMMAND fork]
    #[arg(short, long, value_name = "MODE")]
    mode: Option<Mode>,
    /// Jobs at a time in one worker, in mode coroutine [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: Option<u32>,
    /// Replace a worker after N jobs, in modes prefork and coroutine [default: never]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_jobs: Option<u64>,
    /// From the start of a worker until it must take jobs [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    boot_timeout: Option<Duration>,
    /// Take jobs from this queue; several in this order [default: default]
    #[arg(short, long = "queue", value_name = "QUEUE")]
    queues: Vec<String>,
    /// From which queue first: as given, in turn, by chance, priority or age [default: ordered]
    #[arg(long, value_name = "ORDER")]
    order: Option<Order>,
    /// Take jobs of this class only; mail.* takes all classes that begin with mail. (repeatable)
    #[arg(long = "class", value_name = "CLASS")]
    classes: Vec<String>,
    /// The longest run of an attempt, for jobs that bring none
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    time_limit: Option<Duration>,
    /// Tries after the first one, for jobs that do not say [default: 0; with COMMAND 5]
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// From TERM to KILL [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    grace: Option<Duration>,
    /// Pass this variable to the workers, or set it; may be given several times
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Where they work
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Give each job an empty directory to work in
    #[arg(long, conflicts_with = "cwd")]
    sandbox: bool,
    /// A worker that speaks the worker protocol, and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Start {
    pub fn add_to(&self, flags: &mut Flags) {
        flags.burst = self.burst;
        flags.wq = self.wq.iter().cloned().fold(WqSection::default(), |before, next| next.over(before));
        flags.end_after = self.end_after;
        flags.end_when_idle = self.end_when_idle;
        flags.watch.clone_from(&self.watch);
        flags.lease = self.lease;
        flags.stop_deadline = self.stop_deadline;
        flags.log_format = self.log_format.map(Into::into);
        flags.log_level = self.log_level.map(Into::into);
        flags.pool = self.pool.said();
    }
}

impl PoolFlags {
    fn said(&self) -> Pool {
        let workers = Workers { min: self.min_workers, max: self.workers, ..Workers::default() };
        Pool {
            workers: (workers != Workers::default()).then_some(workers),
            mode: self.mode.map(Into::into),
            concurrency: self.concurrency,
            recycle: self.max_jobs.map(|jobs| Wear { jobs: Some(jobs), ..Wear::default() }),
            queues: some(&self.queues),
            order: self.order.map(Into::into),
            classes: some(&self.classes),
            command: some(&self.command).map(|words| words.into_iter().map(Into::into).collect()),
            env: self.env(),
            cwd: self.cwd.clone(),
            sandbox: self.sandbox.then_some(true),
            grace: self.grace,
            boot_timeout: self.boot_timeout,
            limits: self.time_limit.map(|time| Limits { time: Some(time), ..Limits::default() }),
            retries: self.retries,
            ..Pool::default()
        }
    }

    fn env(&self) -> Option<Env> {
        let (set, pass): (Vec<_>, Vec<_>) = self.env.iter().cloned().partition(|said| said.contains('='));
        let set = set.iter().filter_map(|said| said.split_once('='));
        let set: Vec<_> = set.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let env = Env { pass: some(&pass), set: some(&set).map(Named) };
        (env != Env::default()).then_some(env)
    }
}

/// None for an empty list: then it was not typed.
fn some<T: Clone>(list: &[T]) -> Option<Vec<T>> {
    (!list.is_empty()).then(|| list.to_vec())
}

/// Declares a flag's words and the values that they stand for.
macro_rules! words {
    ($name:ident = $meant:path { $($word:ident),* }) => {
        #[derive(Clone, Copy, Debug, ValueEnum)]
        #[value(rename_all = "snake_case")]
        enum $name { $($word),* }

        impl From<$name> for $meant {
            fn from(word: $name) -> Self {
                match word { $($name::$word => Self::$word),* }
            }
        }
    };
}

words!(Mode = config::Mode { Prefork, Fork, Coroutine });
words!(
    Order = model::Order {
        Ordered,
        RoundRobin,
        Shuffled,
        Random,
        Lottery,
        HighestPriorityFirst,
        HighestPriorityLottery,
        LotteryLottery,
        ReducedLottery,
        StrictPriority,
        PriorityAging
    }
);
words!(LogFormat = model::LogFormat { Auto, Text, Json, Journald });
words!(LogLevel = model::LogLevel { Error, Warn, Info, Debug, Trace });
