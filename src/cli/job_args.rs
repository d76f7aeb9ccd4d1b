//! What can be typed after `job` and `queue`.

use std::time::Duration;

use clap::Subcommand;

use crate::config::parse_duration;
use crate::model::{Day, JobState};

use super::many_args;
pub use super::many_args::{Failed, JobDiscard, JobRetry, Many};

#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// Show all that is known of a job
    Show(JobShow),
    /// List jobs, newest first
    List(JobList),
    /// Wait until jobs have ended: 0 = all complete, 1 = not all, 124 = timed out
    Wait(JobWait),
    /// Print what a job has written
    Logs(JobLogs),
    /// End jobs
    Cancel(JobCancel),
    /// Put ended jobs back to waiting, by their ids or by what they are
    #[command(override_usage = many_args::RETRY_USAGE, after_help = many_args::RETRY_HELP)]
    Retry(JobRetry),
    /// Remove ended jobs for good, with all that is kept of them
    #[command(after_help = many_args::DISCARD_HELP)]
    Discard(JobDiscard),
}

#[derive(Debug, clap::Args)]
pub struct JobShow {
    /// The job
    pub jid: String,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub struct JobList {
    /// In this state; several with commas
    #[arg(short, long, value_name = "STATE", value_delimiter = ',', value_parser = |text: &str| text.parse::<JobState>())]
    pub state: Vec<JobState>,
    /// Of this queue
    #[arg(short, long, value_name = "QUEUE")]
    pub queue: Option<String>,
    /// Of this class
    #[arg(long, value_name = "CLASS")]
    pub class: Option<String>,
    /// Put by this recurring job
    #[arg(long, value_name = "NAME")]
    pub recurring: Option<String>,
    /// Of this failure group
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,
    /// At most so many; 0 = all
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50)]
    pub limit: u32,
    /// Older than this job
    #[arg(long, value_name = "JID")]
    pub after: Option<String>,
    /// One JSON document a line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub struct JobWait {
    /// The jobs
    #[arg(required = true, value_name = "JID")]
    pub jids: Vec<String>,
    /// Wait no longer than this
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
    /// One JSON document a line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub struct JobLogs {
    /// The job
    pub jid: String,
    /// Go on until the job has ended
    #[arg(short, long)]
    pub follow: bool,
}

#[derive(Debug, clap::Args)]
pub struct JobCancel {
    #[command(flatten)]
    pub jobs: Jobs,
    /// Return when the processes of the jobs are proven dead
    #[arg(long)]
    pub wait: bool,
}

#[derive(Debug, clap::Args)]
pub struct Jobs {
    /// The jobs
    #[arg(required = true, value_name = "JID")]
    pub jids: Vec<String>,
    /// One JSON document a line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum QueueCommand {
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
pub struct QueueStats {
    /// The queue
    pub queue: String,
    /// Another day than today, in UTC
    #[arg(long, value_name = "DATE", value_parser = |text: &str| text.parse::<Day>())]
    pub day: Option<Day>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub struct QueueForget {
    /// The queues
    #[arg(required = true, value_name = "QUEUE")]
    pub queues: Vec<String>,
    /// First remove its jobs that are complete, failed or canceled, for good
    #[arg(long)]
    pub discard: bool,
    /// One JSON document a line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub struct QueueList {
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub struct QueuePause {
    /// The queue
    pub queue: String,
    /// Why, for others to read
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub struct QueueResume {
    /// The queue
    pub queue: String,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}
