//! Recurring jobs: their schedules in words, when they are due, and what did not run.

use jiff::tz::TimeZone;
use maud::{Markup, html};

use model::verb::{ListRecurring, ShowRecurring};
use model::{Millis, RecurringRecord, Schedule, format_duration};

use super::rows;
use crate::app::{App, Page, Place, Visit};
use crate::layout::{button, command, nothing, scrolled};
use crate::text::encoded;
use crate::trouble::Trouble;
use crate::{say, shape, text};

/// Draws the list of recurring jobs.
pub async fn page(app: &App) -> Result<Page, Trouble> {
    let (all, now) = (app.source.look(ListRecurring {}).await?, app.now());
    let main = html! {
        h1 { "Recurring jobs" }
        p.lead { strong { (say::count(all.len() as u64)) } " recurring " (if all.len() == 1 { "job" } else { "jobs" }) @let paused = all.iter().filter(|one| one.paused.is_some()).count(); @if paused > 0 { ", " (paused) " paused" } }
        @if all.is_empty() { (nothing("None yet: taskvisor recur put nightly --cron '0 3 * * *' -- COMMAND")) } @else { (table(app, &all, now)) }
        (command("taskvisor recur list"))
    };
    Ok(Page { every: Some(10), ..Page::new("Recurring jobs", Place::Recurring, "jobs orders", main) })
}

fn table(app: &App, all: &[RecurringRecord], now: Millis) -> Markup {
    scrolled(
        "Recurring jobs",
        html! {
            table {
                thead { tr { th { "Name" } th { "When" } th { "Next" } th { "Latest" } th.num { "Put" } th.num { "Skipped" } } }
                tbody {
                    @for one in all {
                        @let name = one.recurring.name.as_str();
                        tr data-key=(name) {
                            th scope="row" { a href={ (app.link("/recurring/")) (encoded(name)) } { (text::short(name)) } @if one.paused.is_some() { " " (shape::paused()) } (faults(app, one, now)) }
                            td { (text::short(&words(&one.recurring.schedule))) }
                            td { @if let Some(next) = one.next_at { (say::when(next, now, &app.zone)) } @else { "never again" } }
                            td { @if let Some(latest) = &one.latest { (rows::link(app, latest.id.as_str())) " " (shape::job(latest.state)) } }
                            td.num { (say::count(one.count)) } (rows::cell(one.skipped))
                        }
                    }
                }
            }
        },
    )
}

/// What did not run, and why.
fn faults(app: &App, one: &RecurringRecord, now: Millis) -> Markup {
    html! {
        @if let Some(why) = &one.stuck { span.fault { "cannot be put: " (text::short(why)) } }
        @if let Some(at) = one.missed_at { span.fault { "missed " (say::when(at, now, &app.zone)) } }
    }
}

/// Draws the page of one recurring job.
pub async fn one(app: &App, visit: &Visit, name: &str) -> Result<Page, Trouble> {
    let (one, now) = (app.source.look(ShowRecurring { name: name.into() }).await?, app.now());
    let leading = |act: &str, back: &str| format!("act={act}&name={}&back={}", encoded(name), encoded(back));
    let query = |act: &str| leading(act, &visit.url);
    let (job, zone) = (&one.recurring.job, zone(app, &one.recurring.schedule));
    let main = html! {
        h1 { (text::short(name)) }
        @if visit.may_change() {
            div.buttons {
                (button(app, &query("recur-run"), "Run now", "main"))
                @if one.paused.is_some() { (button(app, &query("recur-resume"), "Resume", "")) } @else { (button(app, &query("recur-pause"), "Pause", "")) }
                (button(app, &query("recur-edit"), "Change…", ""))
                // Its page is gone then.
                (button(app, &leading("recur-remove", &app.link("/recurring")), "Remove…", "danger"))
            }
        }
        @if let Some(pause) = &one.paused { p { (shape::paused()) " by " (text::shown(&pause.by)) " " (say::when(pause.since, now, &app.zone)) } }
        p { (faults(app, &one, now)) }
        dl.facts {
            div { dt { "When" } dd { (text::shown(&words(&one.recurring.schedule))) } }
            div { dt { "Queue" } dd { (text::shown(job.queue.as_str())) } }
            div { dt { "Class" } dd { (text::shown(job.class.as_str())) } }
            div { dt { "While one runs" } dd { (one.recurring.overlap.as_str()) } }
            div { dt { "Made up for within" } dd { (format_duration(one.recurring.catch_up)) } }
            div { dt { "Put" } dd { (say::count(one.count)) } }
            div { dt { "Skipped" } dd { (say::count(one.skipped)) } }
            div { dt { "By" } dd { (text::shown(&one.put_by)) ", " (say::when(one.put_at, now, &app.zone)) } }
        }
        div.columns {
            section aria-labelledby="h-next" {
                h2 #h-next { "Next times" @if let Some(zone) = zone.iana_name() { " " span.dim { (zone) } } }
                ol { @for at in one.next_at.iter().chain(&one.then_at) { li { (say::moment(*at, &zone)) " " span.dim { (say::when(*at, now, &app.zone)) } } } }
                @if one.next_at.is_none() { (nothing("It is never due again.")) }
            }
            section aria-labelledby="h-latest" {
                h2 #h-latest { a href=(rows::search(app, &[("recurring", name)])) { "Its jobs" } }
                @if let Some(latest) = &one.latest { p { (rows::link(app, latest.id.as_str())) " " (shape::job(latest.state)) " was due " (say::when(latest.at, now, &app.zone)) } } @else { (nothing("None is known.")) }
            }
        }
        (command(&format!("taskvisor recur show {}", text::names([name]))))
    };
    Ok(Page {
        every: Some(10),
        ..Page::new(format!("Recurring {name}"), Place::Recurring, "jobs orders", main)
    })
}

/// The zone by whose clock it is due.
fn zone(app: &App, schedule: &Schedule) -> TimeZone {
    match schedule {
        Schedule::Cron { zone, .. } => TimeZone::get(zone).unwrap_or_else(|_| app.zone.clone()),
        Schedule::Every { .. } => app.zone.clone(),
    }
}

/// A schedule in words.
fn words(schedule: &Schedule) -> String {
    match schedule {
        Schedule::Every { interval, .. } => format!("every {}", format_duration(*interval)),
        Schedule::Cron { line, zone } => {
            let line = line.to_string();
            match in_words(&line) {
                Some(words) => format!("{words} ({line}, {zone})"),
                None => format!("{line} ({zone})"),
            }
        }
    }
}

/// The usual lines of crontab in words.
fn in_words(line: &str) -> Option<String> {
    const DAYS: [&str; 8] =
        ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
    let fields: Vec<&str> = line.split_whitespace().collect();
    let number = |text: &str| text.parse::<usize>().ok();
    let (minute, hour, day, month, weekday) = match fields.as_slice() {
        ["@hourly"] => ("0", "*", "*", "*", "*"),
        ["@daily" | "@midnight"] => ("0", "0", "*", "*", "*"),
        ["@weekly"] => ("0", "0", "*", "*", "0"),
        ["@monthly"] => ("0", "0", "1", "*", "*"),
        [minute, hour, day, month, weekday] => (*minute, *hour, *day, *month, *weekday),
        _ => return None,
    };
    let at = || Some(format!("{:02}:{:02}", number(hour)?, number(minute)?));
    match (day, month, weekday) {
        ("*", "*", "*") if (minute, hour) == ("*", "*") => Some("every minute".into()),
        ("*", "*", "*") if hour == "*" => match minute.strip_prefix("*/") {
            Some(step) => Some(format!("every {} minutes", number(step)?)),
            None => Some(format!("hourly at minute {}", number(minute)?)),
        },
        ("*", "*", "*") => Some(format!("daily at {}", at()?)),
        ("*", "*", "1-5" | "mon-fri") => Some(format!("on weekdays at {}", at()?)),
        // With both a day and a weekday crontab means either, which has no short words.
        ("*", "*", _) => Some(format!("every {} at {}", DAYS.get(number(weekday)?)?, at()?)),
        (_, "*", "*") => Some(format!("on day {} of each month at {}", number(day)?, at()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_schedules_are_told_in_words() {
        for (line, words) in [
            ("0 3 * * *", Some("daily at 03:00")),
            ("*/5 * * * *", Some("every 5 minutes")),
            ("17 * * * *", Some("hourly at minute 17")),
            ("30 8 * * 1-5", Some("on weekdays at 08:30")),
            ("0 4 * * 1", Some("every Monday at 04:00")),
            ("@monthly", Some("on day 1 of each month at 00:00")),
            ("0 3 1,15 * *", None),
            ("0 0 1 1 *", None),
        ] {
            assert_eq!(in_words(line).as_deref(), words, "{line}");
        }
    }
}
