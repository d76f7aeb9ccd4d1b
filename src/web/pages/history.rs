//! What a recurring job did lately: a bar for each of its jobs, and for each time that it was due and put none.

use jiff::tz::TimeZone;
use maud::{Markup, html};

use model::{Filter, JobRecord, JobState, Millis, RecurringRecord, Schedule, Timetable};

use super::rows;
use crate::app::App;
use crate::chart::{Graph, Mark};
use crate::layout::scrolled;
use crate::{say, shape};

/// Limit of the bars.
const SHOWN: usize = 60;
/// What is late by no more is on time.
const LATE: i64 = 60_000;

/// A time that it was due, or was run by hand.
#[derive(Clone, Debug, PartialEq)]
struct Bar<'a> {
    at: Millis,
    what: What<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What<'a> {
    /// This job was put.
    Job(&'a JobRecord),
    /// None, as the one before had not ended.
    Skipped,
    /// None: nobody served the store, it was paused, or it could not be put.
    Missed,
}

/// The section; nothing where no job of it is known.
pub(crate) async fn section(app: &App, record: &RecurringRecord, zone: &TimeZone) -> Markup {
    let name = &record.recurring.name;
    let asked = Filter { recurring: Some(name.clone()), limit: SHOWN as u32, ..Filter::default() };
    // Not every broker lists the jobs of one: the rest of the page is shown.
    let Ok(jobs) = app.source.look(asked).await else { return html! {} };
    let table = timetable(record, zone);
    let bars = bars(record, &jobs, table.as_ref(), app.now());
    if bars.is_empty() {
        return html! {};
    }
    html! {
        section.wide aria-labelledby="h-history" {
            h2 #h-history { "What it did" }
            (draw(&bars))
            details { summary { "The same as a table" } (scrolled("The same as a table", html! {
                table {
                    thead { tr { th { "Due" } th { "What" } th.num { "Ran" } } }
                    tbody { @for bar in bars.iter().rev() {
                        tr data-key=(bar.at.0) {
                            th scope="row" { (say::moment(bar.at, zone)) }
                            @match bar.what {
                                What::Job(job) => { td { (shape::job(job.state)) " " (rows::link(app, job.id.as_str())) } td.num { @if let Some(ran) = rows::ran(job, app.now()) { (say::age(ran)) } } }
                                What::Skipped => { td { "skipped: the one before had not ended" } td {} }
                                What::Missed => { td.fault { "did not run" } td {} }
                            }
                        }
                    } }
                }
            })) }
        }
    }
}

/// Its schedule as of now, if it will be due again.
fn timetable(record: &RecurringRecord, zone: &TimeZone) -> Option<Timetable> {
    match &record.recurring.schedule {
        Schedule::Every { interval, .. } => Some(Timetable::Every {
            anchor: record.next_at?.0,
            interval: i64::try_from(interval.as_millis()).ok().filter(|interval| *interval > 0)?,
        }),
        Schedule::Cron { line, .. } => Some(Timetable::Cron(line.clone(), zone.clone())),
    }
}

/// The bars in order. Between two jobs whose numbers follow one another, and after the latest, none was put: what was due
/// there did not run. Of jobs that were removed since, nothing is said.
fn bars<'a>(
    record: &RecurringRecord,
    jobs: &'a [JobRecord],
    table: Option<&Timetable>,
    now: Millis,
) -> Vec<Bar<'a>> {
    let number = |job: &JobRecord| {
        let number = job.id.as_str().strip_prefix(&record.recurring.name)?.strip_prefix('-')?;
        number.parse::<u64>().ok()
    };
    // From the newest: where it was due and put none until then, and the number of the job that comes next.
    let (mut until, mut next) = (now.0 - LATE, Some(record.count + 1));
    let mut bars = Vec::new();
    for job in jobs {
        // One that was run by hand was not due.
        let due = table.filter(|_| record_put(job)).and_then(|table| {
            // The latest is due at the moment of its put, one of several that were made up for earlier.
            let last = job.put_at.0.min(if bars.is_empty() { i64::MAX } else { until });
            table.latest(record.put_at.0, last, 1).pop()
        });
        let at = due.unwrap_or(job.put_at.0);
        if let Some(table) = table.filter(|_| next.is_some() && next == number(job).map(|number| number + 1))
        {
            let first = (at + 1).max(record.put_at.0);
            let ended = job.ended_at.map_or(if job.state.has_ended() { 0 } else { i64::MAX }, |at| at.0);
            let empty = if first > until { Vec::new() } else { table.latest(first, until, SHOWN) };
            bars.extend(empty.into_iter().rev().map(|at| Bar {
                at: Millis(at),
                what: if at < ended { What::Skipped } else { What::Missed },
            }));
        }
        bars.push(Bar { at: Millis(at), what: What::Job(job) });
        (until, next) = (at - 1, number(job));
    }
    bars.truncate(SHOWN);
    bars.reverse();
    bars
}

/// Whether it was put as it was due, and not by a person.
fn record_put(job: &JobRecord) -> bool {
    job.put_by.as_deref().is_none_or(|by| by.starts_with("recurring "))
}

fn draw(bars: &[Bar<'_>]) -> Markup {
    let of = |is_it: &dyn Fn(JobState) -> bool| -> Vec<Option<f64>> {
        let height = |bar: &Bar<'_>| matches!(bar.what, What::Job(job) if is_it(job.state)).then_some(1.0);
        bars.iter().map(height).collect()
    };
    let without = |what: What<'_>| -> Vec<Option<f64>> {
        bars.iter().map(|bar| (bar.what == what).then_some(0.5)).collect()
    };
    let parts = [
        (Mark::new("complete", "complete"), of(&|state| state == JobState::Complete)),
        (Mark::new("failed", "failed"), of(&|state| state == JobState::Failed)),
        (Mark::new("held", "held"), of(&|state| state == JobState::Held)),
        (Mark::new("canceled", "canceled"), of(&|state| state == JobState::Canceled)),
        (Mark::new("running", "not ended"), of(&|state| !state.has_ended())),
        (Mark::new("skipped", "skipped"), without(What::Skipped)),
        (Mark::new("missed", "did not run"), without(What::Missed)),
    ];
    let count = |heights: &[Option<f64>]| heights.iter().flatten().count();
    let said: Vec<String> = parts
        .iter()
        .filter(|(_, heights)| count(heights) > 0)
        .map(|(mark, heights)| format!("{} {}", count(heights), mark.name()))
        .collect();
    let mut graph = Graph::new(format!("The latest {}", bars.len()), said.join(", "), "older");
    graph.last = "newest".into();
    parts
        .into_iter()
        .filter(|(_, heights)| count(heights) > 0)
        .for_each(|(mark, heights)| graph.bars(mark, heights));
    // Its bars have no figures.
    graph.draw(|_| String::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{NewJob, Overlap, Payload, Recurring};
    use std::time::Duration;

    fn job(number: u64, put_at: i64, ended_at: Option<i64>, by: &str) -> JobRecord {
        JobRecord {
            put_at: Millis(put_at * 60_000),
            ended_at: ended_at.map(|at| Millis(at * 60_000)),
            put_by: Some(by.into()),
            ..JobRecord::new(
                format!("tick-{number}").into(),
                "mail".into(),
                "Tick".into(),
                JobState::Complete,
            )
        }
    }

    fn told(jobs: &[JobRecord], count: u64, now: i64) -> Vec<(i64, String)> {
        let record = RecurringRecord {
            recurring: Recurring {
                name: "tick".into(),
                schedule: Schedule::Cron { line: "*/10 * * * *".parse().unwrap(), zone: "UTC".into() },
                overlap: Overlap::Skip,
                catch_up: Duration::ZERO,
                backlog: 1,
                job: NewJob::new("mail".into(), "Tick".into(), Payload::Data("{}".into())),
            },
            put_at: Millis(0),
            put_by: "uid 0".into(),
            next_at: None,
            then_at: vec![],
            count,
            skipped: 0,
            missed_at: None,
            stuck: None,
            latest: None,
            paused: None,
        };
        let table = timetable(&record, &TimeZone::UTC);
        let bars = bars(&record, jobs, table.as_ref(), Millis(now * 60_000));
        let word = |bar: &Bar<'_>| match bar.what {
            What::Job(job) => job.id.as_str().to_owned(),
            What::Skipped => "skipped".into(),
            What::Missed => "missed".into(),
        };
        bars.iter().map(|bar| (bar.at.0 / 60_000, word(bar))).collect()
    }

    #[test]
    fn what_was_due_between_two_jobs_and_after_the_latest_did_not_run() {
        let by = "recurring tick";
        let jobs = [job(3, 60, Some(61), by), job(2, 20, Some(35), by), job(1, 10, Some(11), by)];
        let told = told(&jobs, 3, 75);
        let expected = [
            (10, "tick-1"),
            (20, "tick-2"),
            (30, "skipped"),
            (40, "missed"),
            (50, "missed"),
            (60, "tick-3"),
            (70, "missed"),
        ];
        assert_eq!(told, expected.map(|(at, what)| (at, what.to_owned())));
    }

    #[test]
    fn removed_jobs_leave_no_gap_and_one_run_by_hand_is_no_due_one() {
        let by = "recurring tick";
        let jobs = [
            job(9, 65, Some(66), "uid 0, recurring tick"),
            job(8, 60, Some(61), by),
            job(3, 10, Some(11), by),
        ];
        let told = told(&jobs, 9, 69);
        assert_eq!(
            told,
            [(10, "tick-3"), (60, "tick-8"), (65, "tick-9")].map(|(at, what)| (at, what.to_owned()))
        );
    }

    #[test]
    fn several_that_were_made_up_for_at_once_are_each_due_at_a_time_of_their_own() {
        let by = "recurring tick";
        let jobs = [job(3, 41, Some(42), by), job(2, 41, Some(42), by), job(1, 10, Some(11), by)];
        let told = told(&jobs, 3, 45);
        let expected = [(10, "tick-1"), (20, "missed"), (30, "tick-2"), (40, "tick-3")];
        assert_eq!(told, expected.map(|(at, what)| (at, what.to_owned())));
    }
}
