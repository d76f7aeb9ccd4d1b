//! What can be typed after `batch`.

use std::time::Duration;

use clap::Subcommand;

use config::parse_duration;
use model::NewJob;

/// A batch is the jobs with a tag of this beginning and its name.
const TAG: &str = "batch:";

#[derive(Debug, Subcommand)]
pub(crate) enum BatchCommand {
    /// Show how far a batch is, and what failed first
    Show(BatchShow),
    /// Wait until all jobs of a batch have ended: 0 = all complete, 1 = not all, 124 = timed out
    Wait(BatchWait),
    /// List the batches among the newest 10,000 jobs
    List(BatchList),
}

#[derive(Debug, clap::Args)]
pub(crate) struct BatchShow {
    /// Name of the batch
    #[arg(value_parser = batch)]
    pub name: String,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct BatchWait {
    /// Name of the batch
    #[arg(value_parser = batch)]
    pub name: String,
    /// Wait no longer than this; the jobs go on
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
    /// Print the counts at the end as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct BatchList {
    /// One JSON document a line
    #[arg(long)]
    pub json: bool,
}

/// Parses the name of a batch.
pub(crate) fn batch(text: &str) -> Result<String, String> {
    let most = NewJob::NAME_MAX - TAG.len();
    match text {
        "" => Err("a batch needs a name".into()),
        long if long.len() > most => Err(format!("the name of a batch has {most} bytes at most")),
        name => Ok(name.to_owned()),
    }
}

/// The tag of the jobs of a batch.
pub(crate) fn tag_of(batch: &str) -> String {
    format!("{TAG}{batch}")
}

/// The batch whose jobs have this tag, if it is one of a batch.
pub(crate) fn of_tag(tag: &str) -> Option<&str> {
    tag.strip_prefix(TAG)
}
