//! What can be typed after `job` and `queue`.

use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Subcommand, ValueEnum};

use config::parse_duration;
use model::{Day, JobState, Millis, Search};

pub(crate) use super::many::{Failed, JobDiscard, JobRetry, Many};
use super::sort::Sort;
use super::{many, stats};

#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    /// Show all that is known of a job
    Show(JobShow),
    /// Show what the processes of a running job do now
    Picture(JobShow),
    /// List jobs, newest first
    #[command(after_help = LIST)]
    List(JobList),
    /// Wait until jobs have ended: 0 = all complete, 1 = not all, 124 = timed out
    Wait(JobWait),
    /// Print what a job has written
    #[command(after_help = LOGS)]
    Logs(JobLogs),
    /// Print what a job has given back, and nothing else
    Result(JobResult),
    /// Show how the jobs of each class fared, by day
    #[command(after_help = stats::HELP)]
    Stats(stats::Args),
    /// End jobs, by their ids or by what they are
    #[command(override_usage = CANCEL_USAGE, after_help = CANCEL)]
    Cancel(JobCancel),
    /// Have a job wait until others are complete, or wait for them no more
    #[command(after_help = DEPENDS)]
    Depends(JobDepends),
    /// Give jobs another priority
    #[command(
        allow_negative_numbers = true,
        after_help = "Higher runs first; equal ones in the order in which they were put."
    )]
    Priority(JobPriority),
    /// Add tags to a job, or remove them
    #[command(after_help = "Jobs with a tag: taskvisor job list --tag TAG")]
    Tag(JobTag),
    /// Follow jobs: taskvisor job list --tracked
    Track(Jobs),
    /// Follow jobs no more
    Untrack(Jobs),
    /// Put ended jobs back to waiting, by their ids or by what they are
    #[command(override_usage = many::RETRY_USAGE, after_help = many::RETRY_HELP)]
    Retry(JobRetry),
    /// Remove ended jobs for good. Their output stays until log.keep or log.quota removes it
    #[command(override_usage = many::DISCARD_USAGE, after_help = many::DISCARD_HELP)]
    Discard(JobDiscard),
}

const LIST: &str = "\
A terminal gets ids short enough to type: wherever a job is named, the beginning of its id will do. --json and pipes get them whole.

Examples:
  taskvisor job list --state failed,held --since 2h
  taskvisor job list --queue mail --sort memory -n 10 --tags";

const CANCEL_USAGE: &str = "\
taskvisor job cancel [OPTIONS] <JID>...
       taskvisor job cancel [OPTIONS] <--queue QUEUE|--tag TAG|--class CLASS|--state STATE>...";

const LOGS: &str = "\
Output is printed in the order in which it was read. A job's stdout and stderr are two pipes:
lines of the two that came at the same moment may have changed places. Times are those at which
the supervisor read them, within 10 ms at best.

Examples:
  taskvisor job logs --stream stderr --attempt 2 0199ab
  taskvisor job logs -t --since 10m 0199ab";
const CANCEL: &str = "\
A job that others depend on is left as it is, unless all of those are named too.

Examples:
  taskvisor job cancel fetch-1 --dependents
  taskvisor job cancel --wait fetch-1 report-1
  taskvisor job cancel --queue mail --class Welcome --reason 'wrong text' --dry-run";

const DEPENDS: &str = "\
A job that depends on others runs when all of them are complete, and not before its delay is over.

Examples:
  taskvisor job depends report-1 on fetch-1 fetch-2
  taskvisor job depends report-1 off fetch-2
  taskvisor job depends report-1 off --all";

#[derive(Debug, clap::Args)]
pub(crate) struct JobDepends {
    /// The job that waits
    #[arg(value_name = "JID", value_parser = NonEmptyStringValueParser::new())]
    pub jid: String,
    /// Whether it waits for the others
    #[arg(value_name = "on|off", hide_possible_values = true)]
    pub how: OnOff,
    /// Ids of the others
    #[arg(required_unless_present = "all", value_name = "OTHER", value_parser = NonEmptyStringValueParser::new())]
    pub others: Vec<String>,
    /// With off: all that it waits for
    #[arg(long, conflicts_with = "others")]
    pub all: bool,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnOff {
    On,
    Off,
}

#[derive(Debug, clap::Args)]
pub(crate) struct JobPriority {
    /// Ids of the jobs
    #[arg(required = true, value_name = "JID", value_parser = NonEmptyStringValueParser::new())]
    pub jids: Vec<String>,
    /// Their priority: higher runs first
    #[arg(value_name = "N")]
    pub priority: i32,
    /// One JSON document a line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct JobTag {
    /// Id of the job
    #[arg(value_name = "JID", value_parser = NonEmptyStringValueParser::new())]
    pub jid: String,
    /// What to do with the tags
    #[arg(value_name = "add|remove", hide_possible_values = true)]
    pub how: TagHow,
    /// The tags: free words
    #[arg(required = true, value_name = "TAG")]
    pub tags: Vec<String>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TagHow {
    Add,
    Remove,
}

#[derive(Debug, clap::Args)]
pub(crate) struct JobShow {
    /// Id of the job
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub jid: String,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct JobList {
    /// In this state; several with commas
    #[arg(short, long, value_name = "STATE", value_delimiter = ',', value_parser = many::state)]
    pub state: Vec<JobState>,
    /// Of this queue
    #[arg(short, long, value_name = "QUEUE")]
    pub queue: Option<String>,
    /// Of this class; a * in it is any text
    #[arg(long, value_name = "CLASS")]
    pub class: Option<String>,
    /// With all these words in id, class, queue, tags, title or error; class:mail.* looks in one of them
    #[arg(long, value_name = "WORDS")]
    pub search: Option<Search>,
    /// With this tag
    #[arg(long, value_name = "TAG")]
    pub tag: Option<String>,
    /// Of this batch
    #[arg(long, value_name = "NAME", conflicts_with = "tag", value_parser = super::batch::batch)]
    pub batch: Option<String>,
    /// Only those that are tracked
    #[arg(long)]
    pub tracked: bool,
    /// Put by this recurring job
    #[arg(long, value_name = "NAME")]
    pub recurring: Option<String>,
    /// Of this failure group
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,
    /// Ended, or else put, within this time or since a date
    #[arg(long, value_name = "2h|DATE", value_parser = many::past)]
    pub since: Option<Millis>,
    /// Ended, or else put, longer ago than this, or before a date
    #[arg(long, value_name = "2h|DATE", value_parser = many::past)]
    pub until: Option<Millis>,
    /// Those that ran longest or took most, of all that match; a worker's CPU includes its jobs before
    #[arg(long, value_name = "ran|memory|cpu", hide_possible_values = true)]
    pub sort: Option<Sort>,
    /// With their tags
    #[arg(long)]
    pub tags: bool,
    /// Limit of the jobs shown; 0 = all
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50)]
    pub limit: u32,
    /// Older than this job
    #[arg(long, value_name = "JID")]
    pub after: Option<String>,
    /// With an id that begins so; in the order of ids, the greatest first
    #[arg(long, value_name = "TEXT")]
    pub id_prefix: Option<String>,
    /// One JSON document a line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct JobWait {
    /// Ids of the jobs
    #[arg(required = true, value_name = "JID", value_parser = NonEmptyStringValueParser::new())]
    pub jids: Vec<String>,
    /// Wait no longer than this
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
    /// One JSON document a line
    #[arg(long)]
    pub json: bool,
}

/// A stream of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Stream {
    /// What it printed there
    Stdout,
    /// What it printed there, and the log lines of its worker
    Stderr,
}

#[derive(Debug, clap::Args)]
pub(crate) struct JobLogs {
    /// Id of the job
    #[arg(required_unless_present = "batch", value_parser = NonEmptyStringValueParser::new())]
    pub jid: Option<String>,
    /// All jobs of this batch, one after the other as they were put
    #[arg(long, value_name = "NAME", conflicts_with = "jid", value_parser = super::batch::batch)]
    pub batch: Option<String>,
    /// Go on until the job has ended
    #[arg(short, long)]
    pub follow: bool,
    /// Put in front of each line when it was read (UTC) and from which stream
    #[arg(short, long)]
    pub timestamps: bool,
    /// Only what it printed there
    #[arg(long, value_name = "STREAM")]
    pub stream: Option<Stream>,
    /// Only this attempt; one that was not spent is counted again
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub attempt: Option<u32>,
    /// Only the last N lines; with --follow these, and what comes then
    #[arg(short = 'n', long, value_name = "N")]
    pub tail: Option<usize>,
    /// Only what it printed within this time or since a date
    #[arg(long, value_name = "2h|DATE", value_parser = many::past)]
    pub since: Option<Millis>,
    /// Only what it printed longer ago than this, or before a date
    #[arg(long, value_name = "2h|DATE", value_parser = many::past)]
    pub until: Option<Millis>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct JobResult {
    /// Id of the job
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub jid: String,
}

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("which").multiple(true))]
pub(crate) struct JobCancel {
    /// Ids of the jobs
    #[arg(value_name = "JID", required_unless_present = "which", conflicts_with = "which", value_parser = NonEmptyStringValueParser::new())]
    pub jids: Vec<String>,
    /// All of this queue that wait or run
    #[arg(short, long, value_name = "QUEUE", group = "which")]
    pub queue: Option<String>,
    /// Those with this tag
    #[arg(long, value_name = "TAG", group = "which")]
    pub tag: Option<String>,
    /// Those of this class
    #[arg(long, value_name = "CLASS", group = "which")]
    pub class: Option<String>,
    /// Those in this state, of waiting, delayed, depends, running, held; several with commas
    #[arg(short, long, value_name = "STATE", value_delimiter = ',', group = "which", value_parser = many::cancelable)]
    pub state: Vec<JobState>,
    /// Change nothing; count them and show a few
    #[arg(long, requires = "which", conflicts_with = "wait")]
    pub dry_run: bool,
    /// Why, for others to read: kept with the jobs
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Also all jobs that depend on them, and those that depend on these
    #[arg(long)]
    pub dependents: bool,
    /// Return when the processes of the jobs are proven dead
    #[arg(long)]
    pub wait: bool,
    /// One JSON document a line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Jobs {
    /// Ids of the jobs
    #[arg(required = true, value_name = "JID", value_parser = NonEmptyStringValueParser::new())]
    pub jids: Vec<String>,
    /// One JSON document a line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// List the queues and count their jobs
    List(QueueList),
    /// Fetch nothing more from a queue; jobs that run go on
    Pause(QueuePause),
    /// End a pause
    Resume(QueueResume),
    /// Show how the jobs of a queue fared on a day
    #[command(after_help = "Example:\n  taskvisor queue stats default --day 2026-11-20")]
    Stats(QueueStats),
    /// Remove queues that have no jobs from the list
    Forget(QueueForget),
}

#[derive(Debug, clap::Args)]
pub(crate) struct QueueStats {
    /// Name of the queue
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub queue: String,
    /// Another day than today, in UTC
    #[arg(long, value_name = "DATE", value_parser = |text: &str| text.parse::<Day>())]
    pub day: Option<Day>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct QueueForget {
    /// Names of the queues
    #[arg(required = true, value_name = "QUEUE", value_parser = NonEmptyStringValueParser::new())]
    pub queues: Vec<String>,
    /// First remove its jobs that are complete, failed or canceled, for good
    #[arg(long)]
    pub discard: bool,
    /// One JSON document a line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct QueueList {
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct QueuePause {
    /// Name of the queue
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub queue: String,
    /// Why, for others to read
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct QueueResume {
    /// Name of the queue
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub queue: String,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}
