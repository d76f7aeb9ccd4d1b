//! Recurring jobs: their schedules in words, when they are due, and what did not run.

use jiff::tz::TimeZone;
use maud::{Markup, html};

use model::verb::{ListRecurring, ShowRecurring};
use model::{Millis, RecurringRecord, Schedule, format_duration};

use super::{history, rows, when};
use crate::app::{App, Page, Place, Visit};
use crate::layout::{button, command, nothing, scrolled};
use crate::text::encoded;
use crate::trouble::Trouble;
use crate::{say, shape, text};

/// Draws the list of recurring jobs.
pub(crate) async fn page(app: &App) -> Result<Page, Trouble> {
    let (all, now) = (app.source.look(ListRecurring {}).await?, app.now());
    let main = html! {
        h1 { "Recurring jobs" }
        p.lead { strong { (say::count(all.len() as u64)) } " recurring " (if all.len() == 1 { "job" } else { "jobs" }) @let paused = all.iter().filter(|one| one.paused.is_some()).count(); @if paused > 0 { ", " (paused) " paused" } }
        @if all.is_empty() { (nothing(&app.typed("None yet: taskvisor recur put nightly --cron '0 3 * * *' -- COMMAND"))) } @else { (table(app, &all, now)) }
        (command(app, "taskvisor recur list"))
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
                            th scope="row" { a href={ (app.of("recurring", name)) } { (text::short(name)) } @if one.paused.is_some() { " " (shape::paused()) } (faults(app, one, now)) }
                            td { (text::short(&when::words(&one.recurring.schedule))) }
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
pub(crate) async fn one(app: &App, visit: &Visit, name: &str) -> Result<Page, Trouble> {
    let (one, now) = (app.source.look(ShowRecurring { name: name.into() }).await?, app.now());
    let leading = |act: &str, back: &str| format!("act={act}&name={}&back={}", encoded(name), encoded(back));
    let query = |act: &str| leading(act, &visit.url);
    let (job, zone) = (&one.recurring.job, zone(app, &one.recurring.schedule));
    let history = history::section(app, &one, &zone).await;
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
            div { dt { "When" } dd { (text::shown(&when::words(&one.recurring.schedule))) } }
            div { dt { "Queue" } dd { (text::shown(job.queue.as_str())) } }
            div { dt { "Class" } dd { (text::shown(job.class.as_str())) } }
            div { dt { "While one runs" } dd { (one.recurring.overlap.as_str()) } }
            @if !one.recurring.catch_up.is_zero() { div { dt { "Made up for within" } dd { (format_duration(one.recurring.catch_up)) } } }
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
        (history)
        (command(app, &format!("taskvisor recur show {}", text::names([name]))))
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
