//! The command `recur put|list|show|run|pause|resume|remove`.

use std::fmt::Write as _;

use std::path::Path;

use jiff::tz::TimeZone;

use super::access::{Access, for_each};
use super::args::recur::{RecurCommand, RecurList, RecurName, RecurNames, RecurPut};
use super::put::form::Form;
use super::record::page::{carried, program, row};
use super::term::format::{counted, known, schedule as schedule_words};
use super::term::screen::{Look, escaped, print, print_json, table};
use super::unserved::note_recurring;
use config::{Config, format_duration};
use failure::{Failure, exit};
use model::verb::{
    ListRecurring, PauseRecurring, RemoveRecurring, ResumeRecurring, RunRecurring, ShowRecurring, VerbRequest,
};
use model::{Millis, Overlap, Pause, Payload, Recurring, RecurringRecord, Schedule};

/// Runs one of the commands.
pub(super) async fn run(config: &Config, command: &RecurCommand) -> Result<u8, Failure> {
    match command {
        RecurCommand::Put(args) => put(config, args).await,
        RecurCommand::List(args) => list(config, args).await,
        RecurCommand::Show(args) => show(config, args).await,
        RecurCommand::Run(args) => put_now(config, args).await,
        RecurCommand::Pause(args) => {
            each(config, args, |name| PauseRecurring { name }, ("paused", true), "paused").await
        }
        RecurCommand::Resume(args) => {
            each(config, args, |name| ResumeRecurring { name }, ("paused", false), "resumed").await
        }
        RecurCommand::Remove(args) => {
            each(config, args, |name| RemoveRecurring { name }, ("removed", true), "removed").await
        }
    }
}

/// Puts a recurring job.
async fn put(config: &Config, args: &RecurPut) -> Result<u8, Failure> {
    // First: a command that is wrong makes no store.
    let recurring = recurring(args)?;
    let access = Access::open_or_make(config).await?;
    let record = access.ask(recurring).await?;
    match args.put.json {
        true => print_json(&record)?,
        false => print(&page(&record, &Look::of_stdout(false)))?,
    }
    note_recurring(config, &access, &record.recurring.job).await;
    Ok(exit::OK)
}

fn recurring(args: &RecurPut) -> Result<Recurring, Failure> {
    let Some((name, put)) = args.placed() else {
        let message = "there are too many words: with --name only queue, class and data are left";
        return Err(Failure::new(exit::USAGE, message).hint("leave out the last one"));
    };
    let is_delayed = put.delay.is_some() || put.at.is_some();
    if put.lines || put.wait || is_delayed || put.jid.is_some() || !put.depends.is_empty() {
        let message = "--lines, --delay, --at, --depends, --wait and --jid belong to a single put, not to a recurring job";
        return Err(Failure::new(exit::USAGE, message).hint("leave them out; --offset is the first delay"));
    }
    if args.backlog > 1 && args.overlap == Overlap::Skip {
        let message = format!(
            "--backlog {} has no meaning with --overlap skip, which puts one job at a time",
            args.backlog
        );
        return Err(Failure::new(exit::USAGE, message).hint("leave it out, or add --overlap allow"));
    }
    let schedule = match (args.every, args.cron.clone()) {
        (Some(interval), _) => Schedule::Every { interval, offset: args.offset.unwrap_or_default() },
        (None, Some(line)) => Schedule::Cron { line, zone: args.tz.clone().map_or_else(own_zone, Ok)? },
        (None, None) => return Err(Failure::new(exit::USAGE, "there is neither --every nor --cron")),
    };
    Ok(Recurring {
        name,
        schedule,
        overlap: args.overlap,
        catch_up: args.catch_up.unwrap_or_default(),
        backlog: args.backlog,
        job: Form::of(&put)?.job(),
    })
}

/// The name of this machine's time zone. A machine that sets none has UTC, as its C library sees it; a zone without a
/// name is not taken for another one.
fn own_zone() -> Result<String, Failure> {
    // jiff gives this name to a zone that it could not find.
    if let Some(name) = TimeZone::system().iana_name().filter(|name| *name != "Etc/Unknown") {
        return Ok(name.to_owned());
    }
    let set = std::env::var("TZ").ok().filter(|zone| !zone.is_empty());
    let what = match set {
        Some(zone) => format!("TZ={zone}"),
        None if Path::new("/etc/localtime").exists() => "/etc/localtime".to_owned(),
        None => return Ok("UTC".to_owned()),
    };
    let message = format!(
        "the time zone of this machine has no name: {what} is no link to one of the time zone database"
    );
    Err(Failure::new(exit::USAGE, message).hint("name the zone: --tz Europe/Vienna"))
}

/// Prints all recurring jobs.
async fn list(config: &Config, args: &RecurList) -> Result<u8, Failure> {
    let all = Access::open(config).await?.ask(ListRecurring {}).await?;
    if args.json {
        all.iter().try_for_each(print_json)?;
    } else if !all.is_empty() {
        print(&list_text(&all, &Look::of_stdout(false)))?;
    }
    Ok(exit::OK)
}

fn list_text(all: &[RecurringRecord], look: &Look) -> String {
    let rows: Vec<Vec<String>> = all.iter().map(|record| cells(record, look)).collect();
    table(look, &["NAME", "QUEUE", "CLASS", "NEXT", "JOBS", "LATEST", "SCHEDULE"], &rows)
}

fn cells(record: &RecurringRecord, look: &Look) -> Vec<String> {
    let Recurring { name, schedule, job, .. } = &record.recurring;
    let latest = record.latest.as_ref().map(|latest| latest.state.to_string());
    vec![
        escaped(name).into_owned(),
        escaped(job.queue.as_str()).into_owned(),
        escaped(job.class.as_str()).into_owned(),
        match (&record.paused, &record.stuck) {
            // Nothing is put while it is paused, so what kept it from being put does not matter now.
            (Some(_), _) => "paused".into(),
            (None, Some(_)) => "cannot be put".into(),
            (None, None) => moment(record.next_at, look),
        },
        record.count.to_string(),
        latest.unwrap_or_else(|| "-".into()),
        escaped(&schedule_words(schedule)).into_owned(),
    ]
}

fn moment(at: Option<Millis>, look: &Look) -> String {
    at.map_or_else(|| "never".into(), |at| look.moment(at))
}

/// Prints one recurring job.
async fn show(config: &Config, args: &RecurName) -> Result<u8, Failure> {
    let record = Access::open(config).await?.ask(ShowRecurring { name: args.name.clone() }).await?;
    match args.json {
        true => print_json(&record)?,
        false => print(&page(&record, &Look::of_stdout(false)))?,
    }
    Ok(exit::OK)
}

/// The page of `recur show`.
pub(super) fn page(record: &RecurringRecord, look: &Look) -> String {
    let Recurring { name, schedule, overlap, catch_up, backlog, job } = &record.recurring;
    let mut out = String::new();
    row(&mut out, "recurring", name);
    row(&mut out, "schedule", &schedule_words(schedule));
    let (overlap, most) = match overlap {
        Overlap::Skip => ("skip", String::new()),
        Overlap::Allow => ("allow", format!(", {} at most", counted(*backlog as usize, "job", "jobs"))),
    };
    row(&mut out, "overlap", overlap);
    if !catch_up.is_zero() {
        row(&mut out, "catch up", &format!("{}{most}", format_duration(*catch_up)));
    }
    row(&mut out, "queue", &format!("{}, priority {}", job.queue, job.priority));
    row(&mut out, "class", job.class.as_str());
    match &job.payload {
        Payload::Exec(exec) => program(&mut out, exec),
        Payload::Data(data) => carried(&mut out, "data", &data.0),
    }
    let at = known(record.put_at).map_or_else(|| "at an unknown time".into(), |at| look.moment(at));
    row(&mut out, "put", &format!("{at} by {}", record.put_by));
    if let Some(Pause { since, by, .. }) = &record.paused {
        row(&mut out, "paused", &format!("{} by {by}", look.moment(*since)));
    }
    row(&mut out, "next", &moment(record.next_at, look));
    for then in &record.then_at {
        let _ = writeln!(out, "{:<11} {}", "", look.moment(*then));
    }
    if let Some(why) = &record.stuck {
        row(&mut out, "not put", &format!("{why}; it is tried again all the time"));
    }
    row(&mut out, "jobs", &format!("{}, skipped {}", record.count, record.skipped));
    if let Some(latest) = &record.latest {
        row(&mut out, "latest", &format!("{} {}, due {}", latest.id, latest.state, look.moment(latest.at)));
    }
    if let Some(missed) = record.missed_at {
        row(&mut out, "missed", &format!("{}: --catch-up makes up for it", look.moment(missed)));
    }
    out
}

/// Puts one of its jobs now.
async fn put_now(config: &Config, args: &RecurName) -> Result<u8, Failure> {
    let job = Access::open(config).await?.ask(RunRecurring { name: args.name.clone() }).await?;
    match args.json {
        true => print_json(&job)?,
        false => print(&format!("{}\n", job.id))?,
    }
    Ok(exit::OK)
}

/// Carries out a verb for each, and prints its state.
async fn each<V: VerbRequest>(
    config: &Config,
    args: &RecurNames,
    verb: impl Fn(String) -> V,
    (word, is): (&str, bool),
    said: &str,
) -> Result<u8, Failure> {
    let access = Access::open(config).await?;
    for_each(&args.names, async |name| {
        access.ask(verb(name.clone())).await?;
        match args.json {
            true => print_json(&serde_json::json!({ "name": name, word: is }))?,
            false => print(&format!("{} {said}\n", escaped(name)))?,
        }
        Ok(())
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cli::record::page::tests::look;
    use model::{JobState, LatestJob, NewJob};

    fn nightly() -> RecurringRecord {
        let at = |n: i64| Millis(1_790_000_000_000 + n * 86_400_000);
        let data = Payload::Data("{\"to\":\"ann\x1b\"}".into());
        let job = NewJob { priority: -1, ..NewJob::new("mail".into(), "Report".into(), data) };
        let line = "30 2 * * mon-fri".parse().unwrap();
        let recurring = Recurring {
            name: "nightly".into(),
            schedule: Schedule::Cron { line, zone: "Europe/Vienna".into() },
            overlap: Overlap::Allow,
            catch_up: Duration::from_secs(3600),
            backlog: 3,
            job,
        };
        RecurringRecord {
            recurring,
            put_at: at(0),
            put_by: "uid 1000".into(),
            next_at: Some(at(3)),
            then_at: vec![at(4), at(5)],
            count: 17,
            skipped: 2,
            missed_at: Some(at(1)),
            stuck: None,
            latest: Some(LatestJob { id: "nightly-17".into(), state: JobState::Running, at: at(2) }),
            paused: None,
        }
    }

    #[test]
    fn a_list_is_a_table() {
        let mut poll = nightly();
        (poll.recurring.name, poll.next_at, poll.latest) = ("po\nll".into(), None, None);
        let paused = Some(Pause { since: Millis(0), by: "uid 0".into(), reason: None });
        let rests = RecurringRecord { paused, ..nightly() };
        poll.recurring.schedule =
            Schedule::Every { interval: Duration::from_secs(600), offset: Duration::ZERO };
        insta::assert_snapshot!("recur_list", list_text(&[nightly(), poll, rests], &look(100)));
    }

    #[test]
    fn later_times_of_a_recurring_job_stand_below_the_next_one() {
        let stuck = RecurringRecord { stuck: Some("no room".into()), ..nightly() };
        let page = page(&stuck, &look(100));
        let place = |text: &str| page.find(text).unwrap();
        assert!(place(&look(100).moment(nightly().then_at[0])) < place("not put"), "{page}");
    }

    #[test]
    fn recurring_job_page_shows_job_and_schedule() {
        insta::assert_snapshot!("recur_show", page(&nightly(), &look(100)));
    }
}
