//! The command `queue list|pause|resume`.

mod stats;

use std::collections::BTreeMap;

pub(super) use self::stats::render as day;

use unicode_width::UnicodeWidthStr;

use super::access::Access;
use super::args::{QueueCommand, QueueList, QueuePause, QueueResume};
use super::job::many;
use super::term::screen::{Look, age, escaped, print, print_json, table};
use crate::cli::term::format::{ago, between, known};
use config::Config;
use failure::{Failure, exit};
use model::verb::{Pause, Queues, Resume};
use model::{JobState, Millis, QueueCounts, QueueName};

/// Runs one of the commands.
pub(super) async fn run(config: &Config, command: QueueCommand) -> Result<u8, Failure> {
    match command {
        QueueCommand::List(args) => list(config, &args).await,
        QueueCommand::Pause(args) => pause(config, &args).await,
        QueueCommand::Resume(args) => resume(config, &args).await,
        QueueCommand::Stats(args) => stats::stats(config, &args).await,
        QueueCommand::Forget(args) => many::forget(config, &args).await,
    }
}

/// Prints the counts of all queues.
pub(super) async fn list(config: &Config, args: &QueueList) -> Result<u8, Failure> {
    let queues = Access::open(config).await?.ask(Queues {}).await?;
    match args.json {
        true => print_json(&queues)?,
        false if queues.is_empty() => {}
        false => print(&render(&queues, clock::wall(), &Look::of_stdout(false)))?,
    }
    Ok(exit::OK)
}

/// Pauses a queue. It need not have had a job yet, but an unknown name may be misspelled.
pub(super) async fn pause(config: &Config, args: &QueuePause) -> Result<u8, Failure> {
    let access = Access::open_or_make(config).await?;
    let name = QueueName::from(args.queue.as_str());
    // Asked before the pause, which puts the queue on the list.
    let is_new = access.ask(Queues {}).await.is_ok_and(|queues| !queues.contains_key(&name));
    access.ask(Pause { queue: args.queue.as_str().into(), reason: args.reason.clone() }).await?;
    if is_new {
        eprintln!(
            "note: no job was ever put into queue '{0}'; it is paused all the same: taskvisor queue resume {0} ends that, \
             and taskvisor queue forget {0} then takes it off the list",
            escaped(&args.queue)
        );
    }
    if args.json {
        print_json(&serde_json::json!({ "queue": args.queue, "paused": true }))?;
    }
    Ok(exit::OK)
}

/// Resumes a queue.
pub(super) async fn resume(config: &Config, args: &QueueResume) -> Result<u8, Failure> {
    Access::open(config).await?.ask(Resume { queue: args.queue.as_str().into() }).await?;
    if args.json {
        print_json(&serde_json::json!({ "queue": args.queue, "paused": false }))?;
    }
    Ok(exit::OK)
}

/// The table of queues; it is also printed below the tree of `status`.
pub(super) fn render(queues: &BTreeMap<QueueName, QueueCounts>, now: Millis, look: &Look) -> String {
    let columns: Vec<&Column> = COLUMNS.iter().filter(|column| column.is_shown(queues)).collect();
    let heads = columns.iter().map(|column| column.head);
    let heads: Vec<&str> = std::iter::once("QUEUE").chain(heads).chain(["OLDEST", "STATE"]).collect();
    let mut rows: Vec<_> = queues.iter().map(|(name, counts)| row(name, counts, &columns, now)).collect();
    shorten(&mut rows, &heads, look);
    table(look, &heads, &rows)
}

/// Cuts names where the columns behind them would not fit: how long the oldest waits says more than the end of a name.
fn shorten(rows: &mut [Vec<String>], heads: &[&str], look: &Look) {
    /// A name is cut to no fewer letters.
    const SHORTEST: usize = 8;
    let Some(width) = look.width else { return };
    let widest = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width());
        cells.chain([heads[column].width()]).max().unwrap_or(0)
    };
    let behind: usize = (1..heads.len()).map(|column| 2 + widest(column)).sum();
    let narrow = Look { width: Some(width.saturating_sub(behind).max(SHORTEST)), ..look.clone() };
    for name in rows.iter_mut().filter_map(|row| row.first_mut()) {
        *name = narrow.cut(name).into_owned();
    }
}

/// A column, which counts jobs together.
struct Column {
    head: &'static str,
    states: &'static [JobState],
    /// Whether the column is left out if it has no jobs at all: on a narrow screen the last columns are cut.
    is_rare: bool,
}

impl Column {
    const fn of(head: &'static str, states: &'static [JobState]) -> Column {
        Column { head, states, is_rare: false }
    }

    const fn rare(head: &'static str, states: &'static [JobState]) -> Column {
        Column { head, states, is_rare: true }
    }

    fn count(&self, counts: &QueueCounts) -> u64 {
        self.states.iter().filter_map(|state| counts.jobs.get(state)).sum()
    }

    fn is_shown(&self, queues: &BTreeMap<QueueName, QueueCounts>) -> bool {
        !self.is_rare || queues.values().any(|counts| self.count(counts) > 0)
    }
}

const COLUMNS: [Column; 8] = [
    Column::of("WAITING", &[JobState::Waiting]),
    Column::of("DELAYED", &[JobState::Delayed]),
    Column::rare("DEPENDS", &[JobState::Depends]),
    // What is being canceled has its slot until it is dead.
    Column::of("RUNNING", &[JobState::Running, JobState::Canceling]),
    Column::of("COMPLETE", &[JobState::Complete]),
    Column::of("FAILED", &[JobState::Failed]),
    Column::of("HELD", &[JobState::Held]),
    Column::rare("CANCELED", &[JobState::Canceled]),
];

fn row(name: &QueueName, counts: &QueueCounts, columns: &[&Column], now: Millis) -> Vec<String> {
    let state = match &counts.paused {
        None if counts.unserved => "no pool".to_string(),
        None => "open".to_string(),
        Some(pause) => {
            let reason = pause.reason.as_ref().map(|reason| format!(" \"{reason}\"")).unwrap_or_default();
            let since = known(pause.since).map(|at| format!(" {}", ago(at, now)));
            format!("paused{} by {}{reason}", since.unwrap_or_default(), pause.by)
        }
    };
    let mut row = vec![escaped(name.as_str()).into_owned()];
    row.extend(columns.iter().map(|column| column.count(counts).to_string()));
    row.push(counts.oldest_waiting.map_or("-".into(), |put| age(between(put, now))));
    row.push(escaped(&state).into_owned());
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::record::page::tests::look;

    #[test]
    fn long_names_give_way_to_the_columns_behind_them() {
        let queue = QueueCounts {
            jobs: [(JobState::Waiting, 3)].into(),
            oldest_waiting: Some(Millis(0)),
            unserved: true,
            ..QueueCounts::default()
        };
        let long = "a-queue-with-a-very-long-name-as-frameworks-make-them";
        let shown = |look: &Look| render(&[(long.into(), queue.clone())].into(), Millis(60_000), look);
        let narrow = shown(&look(80));
        let line = narrow.lines().nth(1).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert!(words[0].starts_with("a-queue-wit") && words[0].ends_with('…'), "{narrow}");
        assert!(words.ends_with(&["1m", "no", "pool"]), "{narrow}");
        assert!(shown(&look(200)).contains(long));
        assert!(shown(&Look { width: None, ..look(80) }).contains(long));
    }

    #[test]
    fn a_queue_whose_jobs_all_wait_for_others_does_not_look_empty() {
        let queue = |state| QueueCounts { jobs: [(state, 3)].into(), ..QueueCounts::default() };
        let shown = |queues: &[(&str, QueueCounts)]| {
            let queues = queues.iter().map(|(name, counts)| ((*name).into(), counts.clone())).collect();
            render(&queues, Millis(0), &look(120))
        };
        insta::assert_snapshot!(
            "queues",
            [
                shown(&[("mail", queue(JobState::Waiting))]),
                shown(&[("mail", queue(JobState::Waiting)), ("video", queue(JobState::Depends))]),
                shown(&[("mail", queue(JobState::Canceling)), ("video", queue(JobState::Canceled))]),
            ]
            .join("\n")
        );
    }
}
