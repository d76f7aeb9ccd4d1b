//! What can be typed.

mod advice;
pub(super) mod batch;
mod change;
mod check;
mod groups;
pub(super) mod job;
pub(super) mod many;
pub(super) mod mistyped;
pub(super) mod option;
pub(super) mod put;
pub(super) mod recur;
pub(super) mod reference;
mod rq;
mod settings;
pub(super) mod sort;
mod start;
pub(super) mod stats;
pub(super) mod status;
pub(super) mod top;
pub(super) mod typed;
mod web;
mod why;

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};

pub(super) use self::batch::BatchCommand;
pub(super) use self::change::{Drain, Pause, Recycle, Reload, Resume, Scale, Stop};
pub(super) use self::check::{Check, ConfigCommand, ConfigShow};
pub(super) use self::job::{
    Failed, JobCancel, JobCommand, JobDepends, JobDiscard, JobList, JobLogs, JobPriority, JobResult,
    JobRetry, JobShow, JobTag, JobWait, Jobs, Many, OnOff, QueueCommand, QueueForget, QueueList, QueuePause,
    QueueResume, QueueStats, TagHow,
};
pub(super) use self::option::OptionCommand;
pub(super) use self::put::Put;
pub(super) use self::recur::RecurCommand;
pub(super) use self::rq::RqCommand;
use self::settings::WhereFlags;
pub(super) use self::start::Start;
pub(super) use self::status::Status;
pub(super) use self::web::Web;
pub(super) use self::why::{WhyCommand, WhyOf};
use super::access::elsewhere::Elsewhere;
use super::doctor;
use super::events;
pub(super) use super::kale::KaleCommand;
pub(super) use super::redis::RedisCommand;
pub(super) use super::release::ReleaseCommand;
use super::simulate;
use super::statsd;
use super::wq::WqCommand;
use config::Flags;
use failure::exit;

/// Keeps workers alive, hands them jobs, and knows every process a job has started.
#[derive(Debug, Parser)]
#[command(name = "taskvisor", version, after_help = exit::HELP, help_template = groups::template(&commands()), max_term_width = 100, subcommand_required = true)]
pub(super) struct Args {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Command,
}

/// The command line of a supervisor: that of `start`. The tree of all others would take half a megabyte.
#[derive(Debug, Parser)]
#[command(name = "taskvisor")]
pub(super) struct StartArgs {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: StartCommand,
}

#[derive(Debug, Subcommand)]
enum StartCommand {
    Start(Box<Start>),
}

impl From<StartArgs> for Args {
    fn from(StartArgs { common, command: StartCommand::Start(start) }: StartArgs) -> Args {
        Args { common, command: Command::Start(*start) }
    }
}

/// The program with its commands alone.
fn commands() -> clap::Command {
    Command::augment_subcommands(clap::Command::new("taskvisor"))
}

/// What every command takes.
#[derive(Debug, clap::Args)]
pub(super) struct Common {
    /// Read settings from this YAML file
    #[arg(
        short,
        long,
        global = true,
        value_name = "FILE",
        env = "TASKVISOR_CONFIG",
        hide_env_values = true,
        help_heading = "Where"
    )]
    config: Option<PathBuf>,
    #[command(flatten)]
    whole: WhereFlags,
    #[command(flatten)]
    elsewhere: Elsewhere,
}

impl Args {
    /// The flags of `start`, for the commands that take them too.
    pub(super) fn start(&self) -> Option<&Start> {
        match &self.command {
            Command::Start(start) => Some(start),
            Command::Check(check) => Some(&check.start),
            Command::Config(ConfigCommand::Show(show)) => Some(&show.start),
            // Named one by one: a new command must say whether it takes these flags.
            Command::Stop(_)
            | Command::Reload(_)
            | Command::Recycle(_)
            | Command::Scale(_)
            | Command::Pause(_)
            | Command::Resume(_)
            | Command::Drain(_)
            | Command::Why(_)
            | Command::Doctor(_)
            | Command::Events(_)
            | Command::Completion(_)
            | Command::Values(_)
            | Command::Man(_)
            | Command::Redis(_)
            | Command::Kale(_)
            | Command::Release(_)
            | Command::Rq(_)
            | Command::Simulate(_)
            | Command::Wq(_)
            | Command::Web(_)
            | Command::Put(_)
            | Command::Job(_)
            | Command::Batch(_)
            | Command::Queue(_)
            | Command::Recur(_)
            | Command::Failed(_)
            | Command::Option(_)
            | Command::Stats(_)
            | Command::Top(_)
            | Command::Status(_) => None,
        }
    }
}

impl Common {
    /// Value of `--config`.
    pub(super) fn config(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    pub(super) fn flags(&self) -> Flags {
        Flags {
            config: self.config.clone(),
            whole: self.whole.0.clone(),
            url: self.elsewhere.url.clone(),
            token_file: self.elsewhere.token_file.clone(),
            ..Flags::default()
        }
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run a supervisor in the foreground
    #[command(after_help = self::start::HELP)]
    Start(Start),
    /// Look for what start would refuse and for settings that contradict each other
    #[command(after_help = check::CHECK_HELP)]
    Check(Check),
    /// Say what a workload would do to a fleet: latencies, cost, how many workers it needs
    #[command(after_help = simulate::HELP)]
    Simulate(simulate::Simulate),
    /// Take in the notifications of context brokers, as QuantumLeap's work queue does
    #[command(subcommand)]
    Wq(WqCommand),
    /// Look at settings
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Stop the supervisor and wait until it has ended
    #[command(after_help = "Without a flag it fetches no more and lets jobs end until the stop deadline.")]
    Stop(Stop),
    /// Queue a command, or data for workers that know its class
    #[command(override_usage = put::USAGE, after_help = put::HELP)]
    Put(Put),
    /// Look at jobs, wait for them, end them
    #[command(subcommand)]
    Job(JobCommand),
    /// Look at jobs that were put as a batch, wait for them
    #[command(subcommand)]
    Batch(BatchCommand),
    /// Look at queues, pause them
    #[command(subcommand)]
    Queue(QueueCommand),
    /// Manage recurring jobs, by interval or cron
    #[command(subcommand)]
    Recur(RecurCommand),
    /// Show what went wrong: failures by their groups, or the jobs of one group
    #[command(
        after_help = "Jobs that failed and jobs that are held; to put them back: taskvisor job retry --failed --group GROUP"
    )]
    Failed(Failed),
    /// Look at what is set in the store for all supervisors, and change it
    #[command(subcommand)]
    Option(OptionCommand),
    /// Show the supervisor, its workers, what they run, and the queues
    #[command(
        after_help = "Examples:\n  taskvisor status\n  taskvisor status --watch\n  taskvisor status -q || echo not well"
    )]
    Status(Status),
    /// Watch and operate it on a live screen
    #[command(after_help = top::HELP)]
    Top(top::Top),
    /// Serve a page for browsers: jobs, failures, workers, live
    #[command(after_help = web::HELP)]
    Web(Web),
    /// Send the figures of all queues to a StatsD server
    #[command(after_help = statsd::HELP)]
    Stats(statsd::Args),
    /// Say why a job, a slot or a pool is as it is
    #[command(subcommand)]
    Why(WhyCommand),
    /// Read the settings again: all or nothing, and only what changed is touched
    #[command(after_help = "New workers come up before old ones leave. SIGHUP does the same.")]
    Reload(Reload),
    /// Exchange the workers of a pool for new ones, a quarter at a time
    #[command(after_help = "For a new version of the application. Old workers end their jobs first.")]
    Recycle(Recycle),
    /// Give a pool more or fewer workers, until the settings say another number
    #[command(after_help = "SIGTTIN and SIGTTOU: one more or one fewer in each pool.")]
    Scale(Scale),
    /// Take no more jobs in a pool, or in any; those that run go on
    #[command(after_help = "SIGUSR2 does the same for all pools; of one queue: taskvisor queue pause.")]
    Pause(Pause),
    /// Take jobs again
    #[command(after_help = "SIGCONT does the same for all pools.")]
    Resume(Resume),
    /// Take no more jobs in any pool; with --wait, return when none runs any more
    #[command(after_help = "The workers stay: taskvisor resume takes jobs again.")]
    Drain(Drain),
    /// Say what this machine lacks, what follows from it, and what to do
    #[command(after_help = doctor::HELP)]
    Doctor(doctor::Doctor),
    /// Print what happens to jobs and workers, as it happens
    #[command(after_help = events::HELP)]
    Events(events::Events),
    /// Print the Lua script, for other clients of the same Redis
    #[command(subcommand)]
    Redis(RedisCommand),
    /// Import the settings of a kale application, or check its file of queues
    #[command(subcommand)]
    Kale(KaleCommand),
    /// Say whether the queues of a release are drained
    #[command(subcommand)]
    Release(ReleaseCommand),
    /// Run what `rq worker` and `rq worker-pool` run, with their flags
    #[command(subcommand, after_help = rq::HELP)]
    Rq(RqCommand),
    /// Print what makes a shell complete this command line
    #[command(after_help = reference::COMPLETION_HELP)]
    Completion(reference::Completion),
    /// Print what a shell completes a word with
    #[command(hide = true)]
    Values(reference::Values),
    /// Print the manual page
    #[command(after_help = reference::MANUAL_HELP)]
    Man(reference::Manual),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clap_accepts_the_grammar() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }

    #[test]
    fn supervisor_reads_the_arguments_of_start_as_start_does() {
        for line in [
            "start",
            "-c a.yaml --run-dir r start -w 8 -q a -q b --time-limit 10m --burst",
            "start --state-dir s -m fork --wq enabled=true --log-level debug -- start -w 3 --help",
        ] {
            let words = || std::iter::once("taskvisor").chain(line.split_whitespace());
            let whole = Args::try_parse_from(words()).expect("start takes them");
            let alone = Args::from(StartArgs::try_parse_from(words()).expect("so does the supervisor"));
            assert_eq!(format!("{alone:?}"), format!("{whole:?}"));
        }
    }

    #[test]
    fn every_command_is_in_one_group() {
        let commands = commands();
        let shown = commands.get_subcommands().filter(|command| !command.is_hide_set());
        let mut shown: Vec<&str> = shown.map(clap::Command::get_name).chain(["help"]).collect();
        let mut listed = groups::listed();
        shown.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, shown);
    }

    #[test]
    fn every_help_page_has_its_snapshot() {
        use clap::CommandFactory;
        let mut root = Args::command().term_width(100);
        root.build();
        let mut pages = String::new();
        help(&mut root, "taskvisor", &mut pages);
        insta::assert_snapshot!("help", pages);
    }

    fn help(command: &mut clap::Command, name: &str, pages: &mut String) {
        *pages += &format!("=== {name} --help\n{}\n", command.render_help());
        for sub in command.get_subcommands_mut().filter(|sub| sub.get_name() != "help") {
            let name = format!("{name} {}", sub.get_name());
            help(sub, &name, pages);
        }
    }
}
