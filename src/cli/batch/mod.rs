//! `batch`: jobs that were put under one name, as one.

pub(super) mod bar;

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use super::access::Access;
use super::access::listing::Listing;
use super::args::batch::{BatchCommand, BatchList, BatchShow, BatchWait, of_tag, tag_of};
use super::term::format::{ago, grouped};
use super::term::screen::{Look, escaped, print, print_json, table};
use config::{Config, format_duration};
use failure::{Failure, exit};
use model::{Filter, JobCounts, JobState, Millis};

/// Number of the newest jobs in which `batch list` looks for batches.
const SEARCHED: u32 = 10_000;

/// Runs one of the commands.
pub(super) async fn run(config: &Config, command: BatchCommand) -> Result<u8, Failure> {
    match command {
        BatchCommand::Show(args) => show(config, &args).await,
        BatchCommand::Wait(args) => wait(config, &args).await,
        BatchCommand::List(args) => list(config, &args).await,
    }
}

/// The jobs of a batch.
pub(super) fn filter(name: &str) -> Filter {
    Filter { tag: Some(tag_of(name)), limit: 0, ..Filter::default() }
}

async fn show(config: &Config, args: &BatchShow) -> Result<u8, Failure> {
    let access = Access::open(config).await?;
    let tally = counted(&access, &args.name).await?;
    if let Some(broker) = access.hides_waiting().await? {
        eprintln!(
            "note: {broker} shows a job once this host has taken it: those that wait there are not counted"
        );
    }
    match args.json {
        true => print_json(&Shown { batch: &args.name, tally: &tally })?,
        false => print(&bar::page(&args.name, &tally, clock::wall(), &Look::of_stdout(false)))?,
    }
    Ok(exit::OK)
}

/// The output of `--json`.
#[derive(Serialize)]
struct Shown<'a> {
    batch: &'a str,
    #[serde(flatten)]
    tally: &'a JobCounts,
}

async fn counted(access: &Access, name: &str) -> Result<JobCounts, Failure> {
    let tally = access.count_jobs(&filter(name)).await?;
    if tally.count() == 0 {
        return Err(Failure::new(exit::NOTHING_MATCHED, format!("no job is in a batch '{}'", escaped(name)))
            .hint("taskvisor batch list"));
    }
    Ok(tally)
}

/// Waits until no job of the batch is left, also over a stop and a start of the supervisor.
async fn wait(config: &Config, args: &BatchWait) -> Result<u8, Failure> {
    if let Some(broker) = Access::open(config).await?.hides_waiting().await? {
        let what =
            format!("{broker} shows a job once this host has taken it: when all have ended is not known");
        return Err(Failure::new(exit::UNSUPPORTED, what).hint(format!(
            "taskvisor batch show {} counts those that were taken here",
            escaped(&args.name)
        )));
    }
    let deadline = args.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut told = Told::new(&args.name);
    loop {
        let begun = Instant::now();
        let (tally, code) = look(config, &args.name).await?;
        told.tell(&tally, code.is_some())?;
        if let Some(code) = code {
            if args.json {
                print_json(&Shown { batch: &args.name, tally: &tally })?;
            }
            return Ok(code);
        }
        // Counting a large batch takes a while: nine tenths of the time nobody counts.
        let next = Instant::now() + (begun.elapsed() * 9).max(LOOK);
        if deadline.is_some_and(|deadline| deadline <= next) {
            tokio::time::sleep_until(deadline.unwrap_or(next)).await;
            let (tally, code) = look(config, &args.name).await?;
            if code.is_none() {
                told.tell(&tally, true)?;
                let within = args.timeout.map(format_duration).unwrap_or_default();
                let what = format!("not all jobs have ended within {within}");
                return Err(Failure::new(exit::TIMED_OUT, what)
                    .hint(format!("they go on; taskvisor batch show {}", escaped(&args.name))));
            }
            continue;
        }
        tokio::time::sleep_until(next).await;
    }
}

/// Pause between two looks, at least.
const LOOK: Duration = Duration::from_millis(250);

/// The counts, and the exit code once no job is left.
async fn look(config: &Config, name: &str) -> Result<(JobCounts, Option<u8>), Failure> {
    // The supervisor may have stopped meanwhile, or another may have started.
    let access = Access::open(config).await?;
    let tally = counted(&access, name).await?;
    let has_any = async |states: Vec<JobState>| {
        let found = access.count_jobs(&Filter { states, limit: 1, ..filter(name) }).await?;
        Ok(found.count() > 0)
    };
    let code = exit_code(&tally, has_any).await?;
    Ok((tally, code))
}

/// The exit code of `wait`, or none while a job is left. `has_any` says whether a job of the batch is in one of some states.
async fn exit_code(
    tally: &JobCounts,
    has_any: impl AsyncFn(Vec<JobState>) -> Result<bool, Failure>,
) -> Result<Option<u8>, Failure> {
    let states =
        |wanted: fn(JobState) -> bool| JobState::ALL.into_iter().filter(|state| wanted(*state)).collect();
    // The newest jobs alone are counted where there are many: the states of older ones are looked for.
    let is_over = tally.ended() == tally.count()
        && !(tally.more && has_any(states(|state| !state.has_ended())).await?);
    if !is_over {
        return Ok(None);
    }
    let complete = tally.states.get(&JobState::Complete).copied().unwrap_or_default();
    let is_complete = complete == tally.count()
        && !(tally.more && has_any(states(|state| state != JobState::Complete)).await?);
    Ok(Some(if is_complete { exit::OK } else { exit::FAILED }))
}

/// Tells on stderr how far it is: a terminal gets a bar that grows, others a line for each tenth.
pub(super) struct Told {
    name: String,
    look: Look,
    is_terminal: bool,
    tenth: Option<u64>,
}

impl Told {
    /// Nothing was told yet.
    pub(super) fn new(name: &str) -> Told {
        let is_terminal = io::stderr().is_terminal();
        Told { name: escaped(name).into_owned(), look: Look::of_stdout(false), is_terminal, tenth: None }
    }

    /// A bar for these jobs, which only a terminal gets: others have a line for each job.
    pub(super) fn bar(name: &str) -> Option<Told> {
        Some(Told::new(name)).filter(|told| told.is_terminal)
    }

    /// Takes the bar away, so that something else can be printed.
    pub(super) fn clear(&self) {
        // To the beginning of the line, and erase it to its end (EL).
        eprint!("\r\x1b[K");
    }

    /// Tells it, if it is news.
    pub(super) fn tell(&mut self, tally: &JobCounts, is_last: bool) -> Result<(), Failure> {
        let line = format!("{}  {}", self.name, bar::line(tally, clock::wall(), &self.look));
        if self.is_terminal {
            let end = if is_last { "\n" } else { "" };
            write!(io::stderr(), "\r{}\x1b[K{end}", self.look.cut(&line))?;
            return Ok(());
        }
        let tenth = Some(tally.ended() * 10 / tally.count().max(1));
        if is_last || tenth != self.tenth {
            writeln!(io::stderr(), "{line}")?;
        }
        self.tenth = tenth;
        Ok(())
    }
}

async fn list(config: &Config, args: &BatchList) -> Result<u8, Failure> {
    let newest = Filter { limit: SEARCHED, ..Filter::default() };
    let mut listing = Listing::open(Access::open(config).await?, newest).await?;
    let (now, mut names, mut tallies) = (clock::wall(), Vec::new(), HashMap::<String, JobCounts>::new());
    loop {
        let jobs = listing.next().await?;
        if jobs.is_empty() {
            break;
        }
        for job in &jobs {
            for name in job.tags.iter().filter_map(|tag| of_tag(tag)) {
                let tally = tallies.entry(name.to_owned()).or_insert_with(|| {
                    // A map has no order: the batch of the newest job comes first.
                    names.push(name.to_owned());
                    JobCounts::default()
                });
                tally.add_record(job, now);
            }
        }
    }
    let batches: Vec<(&String, &JobCounts)> =
        names.iter().filter_map(|name| tallies.get_key_value(name)).collect();
    if args.json {
        batches.iter().try_for_each(|(batch, tally)| print_json(&Shown { batch, tally }))?;
    } else if !batches.is_empty() {
        let rows: Vec<Vec<String>> = batches.iter().map(|(name, tally)| row(name, tally, now)).collect();
        print(&table(&Look::of_stdout(false), &["BATCH", "JOBS", "ENDED", "FAILED", "PUT"], &rows))?;
    }
    Ok(exit::OK)
}

fn row(name: &str, tally: &JobCounts, now: Millis) -> Vec<String> {
    let failed = [JobState::Failed, JobState::Held].iter().filter_map(|state| tally.states.get(state)).sum();
    let put = tally.put_at.map(|at| ago(at, now)).unwrap_or_default();
    vec![escaped(name).into_owned(), grouped(tally.count()), grouped(tally.ended()), grouped(failed), put]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn batch_of_more_jobs_than_are_counted_fails_by_an_old_job_and_waits_for_one() {
        let newest = |state, more| JobCounts { states: [(state, 5)].into(), more, ..JobCounts::default() };
        // The tally of the newest, the state of an older job, the exit code.
        for (tally, old, code) in [
            (newest(JobState::Complete, true), JobState::Complete, Some(exit::OK)),
            (newest(JobState::Complete, true), JobState::Failed, Some(exit::FAILED)),
            (newest(JobState::Complete, true), JobState::Held, Some(exit::FAILED)),
            (newest(JobState::Complete, true), JobState::Canceled, Some(exit::FAILED)),
            (newest(JobState::Complete, true), JobState::Running, None),
            (newest(JobState::Canceled, true), JobState::Complete, Some(exit::FAILED)),
            (newest(JobState::Complete, false), JobState::Failed, Some(exit::OK)),
            (newest(JobState::Waiting, false), JobState::Complete, None),
        ] {
            let has_any = async |states: Vec<JobState>| Ok(states.contains(&old));
            assert_eq!(exit_code(&tally, has_any).await.unwrap(), code, "{tally:?} {old:?}");
        }
    }
}
