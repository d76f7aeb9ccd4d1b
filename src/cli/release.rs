//! `release status`: the jobs that are left in the queues of a release.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Subcommand;
use serde::Serialize;

use super::access::Access;
use super::queue;
use super::term::screen::{Look, escaped, print, print_json};
use config::{Config, format_duration, parse_duration};
use failure::{Failure, exit};
use model::verb::Queues;
use model::{JobState, QueueCounts, QueueName};

/// States of jobs that wait, run or will run.
const UNFINISHED: [JobState; 5] =
    [JobState::Waiting, JobState::Delayed, JobState::Depends, JobState::Running, JobState::Canceling];

#[derive(Debug, Subcommand)]
pub(super) enum ReleaseCommand {
    /// Say what is left in the queues whose names begin with RELEASE-, and whether they are drained
    #[command(after_help = HELP)]
    Status(Status),
}

#[derive(Debug, clap::Args)]
pub(super) struct Status {
    /// The release, e.g. r42 of the queue r42-mail
    #[arg(value_parser = name)]
    release: String,
    /// Look again and again until they are drained
    #[arg(long)]
    wait: bool,
    /// They are drained when they were empty for this time
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "15m", requires = "wait")]
    empty_for: Duration,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Amazon SQS counts approximately, and late: so the queues must have been empty for a while, with nothing delayed and
nothing in flight, before their workers are taken away.

Exits with 1 if something is left, with 7 if no queue is called so. Examples:
  taskvisor release status r42 --broker sqs://eu-west-1
  taskvisor release status r42 --broker sqs://eu-west-1 --wait && systemctl stop taskvisor@r42";

fn name(text: &str) -> Result<String, String> {
    match text.is_empty() || text.ends_with('-') {
        true => Err("it is the name without the dash that follows it, e.g. r42 of r42-mail".into()),
        false => Ok(text.to_owned()),
    }
}

/// What `release status --json` prints, schema `taskvisor.release/1`.
#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    release: &'a str,
    /// Jobs that wait, are delayed or run.
    unfinished: u64,
    /// Whether the queues were empty for as long as was asked.
    drained: bool,
    queues: &'a BTreeMap<QueueName, QueueCounts>,
}

/// Runs the command.
pub(super) async fn release(config: &Config, command: &ReleaseCommand) -> Result<u8, Failure> {
    let ReleaseCommand::Status(how) = command;
    let mut queues = look(config, &how.release).await?;
    let mut drained = false;
    if how.wait {
        // Some thirty looks in all: each is a call that Amazon SQS bills.
        let pause = (how.empty_for / 30).clamp(Duration::from_millis(100), Duration::from_secs(30));
        let mut empty_since = clock::now();
        while !drained && !queues.is_empty() {
            tokio::time::sleep(pause).await;
            queues = look(config, &how.release).await?;
            if unfinished(&queues) > 0 {
                empty_since = clock::now();
            }
            drained = clock::now().since(empty_since) >= how.empty_for;
        }
    }
    let left = unfinished(&queues);
    if queues.is_empty() {
        let message = format!("no queue is called {}-…", how.release);
        return Err(
            Failure::new(exit::NOTHING_MATCHED, message).hint("taskvisor queue list names the queues")
        );
    }
    if how.json {
        let (schema, release) = ("taskvisor.release/1", how.release.as_str());
        print_json(&Report { schema, release, unfinished: left, drained, queues: &queues })?;
    } else {
        print(&queue::render(&queues, clock::wall(), &Look::of_stdout(false)))?;
        print(&format!("{}\n", escaped(&verdict(how, left, drained))))?;
    }
    Ok(if left > 0 { exit::FAILED } else { exit::OK })
}

/// The queues of the release. If the broker's usual list has them all, that is read.
async fn look(config: &Config, release: &str) -> Result<BTreeMap<QueueName, QueueCounts>, Failure> {
    // The usual list may lack some, as on SQS: then the server is asked for this prefix.
    if let Some(queues) = config.broker.release(release).await? {
        return Ok(queues);
    }
    let start = format!("{release}-");
    let mut queues = Access::open(config).await?.ask(Queues {}).await?;
    queues.retain(|name, _| name.as_str().starts_with(&start));
    Ok(queues)
}

fn unfinished(queues: &BTreeMap<QueueName, QueueCounts>) -> u64 {
    queues.values().flat_map(|queue| UNFINISHED.iter().filter_map(|state| queue.jobs.get(state))).sum()
}

fn verdict(how: &Status, left: u64, drained: bool) -> String {
    let release = &how.release;
    match left {
        1 => format!("release {release} has 1 job left"),
        left if left > 0 => format!("release {release} has {left} jobs left"),
        _ if drained => format!("release {release} is drained: empty for {}", format_duration(how.empty_for)),
        _ => format!("release {release} is empty just now: --wait says whether it stays so"),
    }
}
