//! Batches: jobs that were put under one name, as one.

use std::collections::HashMap;

use maud::{Markup, html};

use model::{Filter, JobCounts, JobState, Millis};

use super::{course, rows};
use crate::app::{App, Page, Place};
use crate::layout::{command, nothing, scrolled};
use crate::trouble::Trouble;
use crate::{chart, say, shape, text};

/// Number of the newest jobs among which batches are looked for, whether or not they are of one: as `batch list`.
const SEARCHED: u32 = 10_000;
/// Number of the newest batches that are counted beyond those jobs.
const COUNTED: usize = 20;
/// Limit of the jobs that are counted for each.
const MOST: u32 = 10_000;
/// What the tag of a batch begins with.
const TAG: &str = "batch:";

/// Draws the list of batches.
pub(crate) async fn page(app: &App) -> Result<Page, Trouble> {
    let now = app.now();
    // A batch is only a tag: no broker lists batches.
    let (jobs, _) = app.source.list(&Filter { limit: SEARCHED, ..Filter::default() }).await?;
    let (mut names, mut counts) = (Vec::new(), HashMap::<&str, JobCounts>::new());
    for job in &jobs {
        for name in job.tags.iter().filter_map(|tag| tag.strip_prefix(TAG)) {
            if !counts.contains_key(name) {
                names.push(name);
            }
            counts.entry(name).or_default().add_record(job, now);
        }
    }
    // Older jobs of a batch may be there, too.
    let is_cut = jobs.len() >= SEARCHED as usize;
    for (at, name) in names.iter().enumerate().filter(|_| is_cut) {
        if at < COUNTED {
            counts.insert(name, app.source.count(&of(name, MOST)).await?);
        } else if let Some(counts) = counts.get_mut(name) {
            counts.more = true;
        }
    }
    let main = html! {
        h1 { "Batches" }
        p.lead {
            strong data-batches=(names.len()) { (say::count(names.len() as u64)) } " " (if names.len() == 1 { "batch" } else { "batches" })
            @if is_cut { " among the newest " (say::count(SEARCHED.into())) " jobs; older ones are not shown" }
        }
        @if names.is_empty() { (nothing(&app.typed("None: taskvisor put --batch NAME …"))) } @else {
            (scrolled("Batches", html! {
                table {
                    thead { tr { th { "Batch" } th { "So far" } th.num { "Jobs" } th.num { "Ended" } th.num { "Failed" } th.num { "Put" } } }
                    tbody { @for name in &names { @if let Some(counts) = counts.get(name) { (row(app, name, counts, now)) } } }
                }
            }))
        }
        (command(app, "taskvisor batch list"))
    };
    // No event has it fetched again: while jobs run there would always be one, and so many jobs are much to look at.
    Ok(Page { every: Some(10), ..Page::new("Batches", Place::Batches, "orders", main) })
}

/// The jobs of a batch, up to a limit.
fn of(name: &str, limit: u32) -> Filter {
    Filter { tag: Some(format!("{TAG}{name}")), limit, ..Filter::default() }
}

fn row(app: &App, name: &str, counts: &JobCounts, now: Millis) -> Markup {
    html! {
        tr data-key=(name) {
            th scope="row" { a href={ (app.of("batch", name)) } { (text::short(name)) } }
            td.bar { (bar(counts)) }
            td.num { (say::count(counts.count())) @if counts.more { "+" } } td.num { (say::count(counts.ended())) } (rows::cell(failed(counts)))
            td.num { @if let Some(at) = counts.put_at { (say::when(at, now, &app.zone)) } }
        }
    }
}

fn failed(counts: &JobCounts) -> u64 {
    [JobState::Failed, JobState::Held].iter().filter_map(|state| counts.states.get(state)).sum()
}

fn bar(counts: &JobCounts) -> Markup {
    let parts: Vec<(&str, u64, &str)> = [
        (JobState::Complete, "complete"),
        (JobState::Failed, "failed"),
        (JobState::Held, "held"),
        (JobState::Canceled, "canceled"),
        (JobState::Running, "running"),
    ]
    .map(|(state, name)| (name, counts.states.get(&state).copied().unwrap_or(0), name))
    .into();
    let rest = counts.count() - parts.iter().map(|(_, count, _)| count).sum::<u64>();
    chart::stacked(&[parts.as_slice(), &[("none", rest, "to run")]].concat())
}

/// Draws the page of one batch.
pub(crate) async fn one(app: &App, name: &str) -> Result<Page, Trouble> {
    let now = app.now();
    let counts = app.source.count(&of(name, JobCounts::MOST)).await?;
    if counts.count() == 0 {
        // A batch without jobs cannot be told from one that never was.
        return Err(Trouble::new(404, format!("no job is in a batch '{name}'")).hint("taskvisor batch list"));
    }
    let (all, ended, rate) = (counts.count(), counts.ended(), counts.rate(now));
    let left = (rate > 0.0).then(|| say::seconds((all - ended) as f64 / rate));
    let main = html! {
        h1 { "Batch " (text::short(name)) }
        p.lead { strong data-ended=(ended) { (say::count(ended)) } " of " strong data-count=(all) { (say::count(all)) @if counts.more { "+" } } " jobs have ended" @if ended < all { @if let Some(left) = left { ", the rest in about " (say::age(say::whole(left))) } } }
        (bar(&counts))
        dl.facts {
            @for (state, count) in &counts.states { div { dt { (shape::job(*state)) } dd { a href=(rows::search(app, &[("state", state.as_str()), ("batch", name)])) { (say::count(*count)) } } } }
            @if ended < all { div { dt { "Per second" } dd { (format!("{rate:.1}")) } } }
            @if let Some(at) = counts.put_at { div { dt { "Put" } dd { (say::when(at, now, &app.zone)) } } }
            @if let Some(at) = counts.ended_at.filter(|_| ended == all) { div { dt { "Ended" } dd { (say::when(at, now, &app.zone)) } } }
        }
        (course::ends(app, &counts.ends))
        @if !counts.failures.is_empty() {
            section aria-labelledby="h-first" {
                h2 #h-first { "First failures" }
                ul { @for failure in &counts.failures { li { (rows::link(app, failure.job.as_str())) " " (text::short(&failure.group)) @let message = app.redact.said(&failure.message); @if !message.is_empty() { ": " (text::short(message)) } } } }
            }
        }
        (command(app, &format!("taskvisor batch show {}", text::names([name]))))
    };
    let every = if ended < all { 2 } else { 15 };
    Ok(Page { every: Some(every), ..Page::new(format!("Batch {name}"), Place::Batches, "jobs", main) })
}
