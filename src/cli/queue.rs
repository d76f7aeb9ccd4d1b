//! `queue list|pause|resume`.

use std::collections::BTreeMap;

use super::access::Access;
use super::args::{QueueCommand, QueueList, QueuePause, QueueResume};
use super::exit;
use super::failure::Failure;
use super::job::{between, now};
use super::screen::{Look, age, escaped, print, print_json, table};
use super::{many, stats};
use crate::config::Config;
use crate::model::verb::{Pause, Queues, Resume};
use crate::model::{JobState, Millis, QueueCounts, QueueName};

/// One of them.
pub async fn run(config: &Config, command: QueueCommand) -> Result<u8, Failure> {
    match command {
        QueueCommand::List(args) => list(config, &args).await,
        QueueCommand::Pause(args) => pause(config, &args).await,
        QueueCommand::Resume(args) => resume(config, &args).await,
        QueueCommand::Stats(args) => stats::stats(config, &args).await,
        QueueCommand::Forget(args) => many::forget(config, &args).await,
    }
}

/// All queues, counted.
pub async fn list(config: &Config, args: &QueueList) -> Result<u8, Failure> {
    let queues = Access::open(config).await?.ask(Queues {}).await?;
    match args.json {
        true => print_json(&queues)?,
        false if queues.is_empty() => {}
        false => print(&render(&queues, now(), &Look::of_stdout(false)))?,
    }
    Ok(exit::OK)
}

/// Stops fetching from one.
pub async fn pause(config: &Config, args: &QueuePause) -> Result<u8, Failure> {
    let access = Access::open(config).await?;
    access.ask(Pause { queue: args.queue.as_str().into(), reason: args.reason.clone() }).await?;
    if args.json {
        print_json(&serde_json::json!({ "queue": args.queue, "paused": true }))?;
    }
    Ok(exit::OK)
}

/// Fetches from it again.
pub async fn resume(config: &Config, args: &QueueResume) -> Result<u8, Failure> {
    Access::open(config).await?.ask(Resume { queue: args.queue.as_str().into() }).await?;
    if args.json {
        print_json(&serde_json::json!({ "queue": args.queue, "paused": false }))?;
    }
    Ok(exit::OK)
}

/// The table of queues, also below the tree of `status`.
pub fn render(queues: &BTreeMap<QueueName, QueueCounts>, now: Millis, look: &Look) -> String {
    let rows: Vec<Vec<String>> = queues.iter().map(|(name, counts)| row(name, counts, now)).collect();
    let heads = ["QUEUE", "WAITING", "DELAYED", "RUNNING", "COMPLETE", "FAILED", "HELD", "OLDEST", "STATE"];
    table(look, &heads, &rows)
}

fn row(name: &QueueName, counts: &QueueCounts, now: Millis) -> Vec<String> {
    let count = |state| counts.jobs.get(&state).copied().unwrap_or(0);
    let state = match &counts.paused {
        None => "open".to_string(),
        Some(pause) => {
            let reason = pause.reason.as_ref().map(|reason| format!(" \"{reason}\"")).unwrap_or_default();
            format!("paused {} ago by {}{reason}", age(between(pause.since, now)), pause.by)
        }
    };
    vec![
        escaped(name.as_str()).into_owned(),
        count(JobState::Waiting).to_string(),
        count(JobState::Delayed).to_string(),
        (count(JobState::Running) + count(JobState::Canceling)).to_string(),
        count(JobState::Complete).to_string(),
        count(JobState::Failed).to_string(),
        count(JobState::Held).to_string(),
        counts.oldest_waiting.map_or("-".into(), |put| age(between(put, now))),
        escaped(&state).into_owned(),
    ]
}
