//! Failures by what they are called, with orders about all of a group.

use maud::{Markup, html};

use model::Millis;
use model::verb::{Failed, FailureGroup};

use super::rows;
use crate::app::{App, Page, Place, Visit};
use crate::form::Fields;
use crate::layout::{button, command, nothing, scrolled};
use crate::text::encoded;
use crate::trouble::Trouble;
use crate::{say, text};

/// Limit of the groups on the page.
const SHOWN: usize = 100;

/// Draws the page of failures.
pub(crate) async fn page(app: &App, visit: &Visit, fields: &Fields) -> Result<Page, Trouble> {
    let (queue, class) = (fields.get("queue"), fields.get("class"));
    let asked = Failed { queue: queue.map(Into::into), class: class.map(Into::into), since: None };
    let groups = app.source.look(asked).await?;
    let now = app.now();
    let all: u64 = groups.iter().map(|group| group.failed + group.held).sum();
    let mut line = "taskvisor failed".to_owned();
    for (name, value) in [("queue", queue), ("class", class)] {
        line += &value.map(|value| text::option(name, value)).unwrap_or_default();
    }
    let main = html! {
        h1 { "Failures" }
        p.lead {
            strong { (say::count(all)) } " " (if all == 1 { "job" } else { "jobs" }) " in " (say::counted(groups.len() as u64, "group", "groups"))
            @for (name, value) in [("queue", queue), ("class", class)] { @if let Some(value) = value { ", " (name) " " (text::shown(value)) } }
            @if queue.or(class).is_some() { " " a href=(app.link("/failures")) { "Show all" } }
        }
        // With one group its own buttons do the same.
        @if visit.may_change() && groups.len() > 1 { (of_all(app, visit, &groups, queue, class)) }
        @if groups.is_empty() { (nothing("Nothing has failed, and nothing is held.")) }
        ul.groups { @for group in groups.iter().take(SHOWN) { (card(app, visit, group, queue, class, now)) } }
        @if groups.len() > SHOWN { p.more { (say::count((groups.len() - SHOWN) as u64)) " smaller groups are not shown" } }
        (command(app, &line))
    };
    Ok(Page { every: Some(10), ..Page::new("Failures", Place::Failures, "jobs", main) })
}

/// Orders about the jobs of all groups, also of those that are not shown.
fn of_all(
    app: &App,
    visit: &Visit,
    groups: &[FailureGroup],
    queue: Option<&str>,
    class: Option<&str>,
) -> Markup {
    let counts: [(&str, u64); 2] = [
        ("failed", groups.iter().map(|group| group.failed).sum()),
        ("held", groups.iter().map(|group| group.held).sum()),
    ];
    let words = [("queue", queue), ("class", class)];
    let query = |act: &str, state: &str| {
        let mut query = format!("act={act}&state={state}&back={}", encoded(&visit.url));
        for (name, value) in words {
            query += &value.map(|value| format!("&{name}={}", encoded(value))).unwrap_or_default();
        }
        query
    };
    html! {
        div.buttons {
            @for (state, count) in counts.iter().filter(|(_, count)| *count > 0) { (button(app, &query("retry-all", state), &format!("Retry all {} {state}", say::count(*count)), "")) }
            @for (state, count) in counts.iter().filter(|(_, count)| *count > 0) { (button(app, &query("discard-all", state), &format!("Discard all {} {state}…", say::count(*count)), "danger")) }
        }
    }
}

fn card(
    app: &App,
    visit: &Visit,
    group: &FailureGroup,
    queue: Option<&str>,
    class: Option<&str>,
    now: Millis,
) -> Markup {
    let name = group.group.as_str();
    let mut words = vec![("group", name)];
    words.extend(queue.map(|queue| ("queue", queue)));
    words.extend(class.map(|class| ("class", class)));
    let query = |act: &str, state: &str| {
        let mut query = format!("act={act}&state={state}&back={}", encoded(&visit.url));
        words.iter().for_each(|(name, value)| query += &format!("&{name}={}", encoded(value)));
        query
    };
    let list = rows::search(app, &[&[("state", "failed,held")], words.as_slice()].concat());
    html! {
        li.group data-key=(name) {
            div.head {
                h2 { a href=(list) { (text::short(name)) } }
                p.figures {
                    @if group.failed > 0 { span.state."s-failed" data-failed=(group.failed) { (say::count(group.failed)) " failed" } }
                    @if group.held > 0 { span.state."s-held" data-held=(group.held) { (say::count(group.held)) " held" } }
                    span.dim { "newest " (say::when(group.newest, now, &app.zone)) }
                }
            }
            p.message { (text::short(rows::headline(app.redact.said(&group.message)))) }
            p.dim { "newest: " (rows::link(app, group.job.as_str())) }
            @if visit.may_change() {
                div.buttons {
                    @if group.failed > 0 { (button(app, &query("retry-all", "failed"), &format!("Retry {}", say::count(group.failed)), "")) }
                    @if group.held > 0 { (button(app, &query("retry-all", "held"), &format!("Retry {} held", say::count(group.held)), "")) }
                    @if group.failed > 0 { (button(app, &query("discard-all", "failed"), "Discard…", "danger")) }
                    @if group.held > 0 { (button(app, &query("discard-all", "held"), "Discard held…", "danger")) }
                }
            }
        }
    }
}

/// The largest groups in short.
pub(crate) fn brief(app: &App, groups: &[FailureGroup], now: Millis) -> Markup {
    const FIRST: usize = 6;
    scrolled(
        "Failures",
        html! {
            table {
                thead { tr { th { "Failure" } th.num { "Failed" } th.num { "Held" } th.num { "Newest" } } }
                tbody {
                    @for group in groups.iter().take(FIRST) {
                        tr data-key=(group.group) {
                            td.what {
                                a.title href=(rows::search(app, &[("state", "failed,held"), ("group", &group.group)])) { (text::short(&group.group)) }
                                span.why { (text::short(rows::headline(app.redact.said(&group.message)))) }
                            }
                            (rows::cell(group.failed)) (rows::cell(group.held))
                            td.num { (say::when(group.newest, now, &app.zone)) }
                        }
                    }
                }
            }
            @if groups.len() > FIRST { p.more { a href=(app.link("/failures")) { (say::count((groups.len() - FIRST) as u64)) " more" } } }
        },
    )
}
