//! The list of jobs: one search line, which is the URL.

use maud::{Markup, html};

use model::{Cut, Filter, JobId, JobRecord, JobState};

use super::rows;
use crate::app::{App, Page, Place, Visit};
use crate::form::Fields;
use crate::layout::{command, nothing};
use crate::search::{HELP, Search};
use crate::text::encoded;
use crate::trouble::Trouble;
use crate::{say, shape, text};

/// Number of jobs on a page.
const PAGE: u32 = 50;
/// Limit of the jobs that are counted for the page.
const COUNTED: u32 = 10_000;

/// Draws the list of jobs.
pub(crate) async fn page(app: &App, visit: &Visit, fields: &Fields) -> Result<Page, Trouble> {
    let (line, now) = (fields.get("q").unwrap_or_default(), app.now());
    let Search { filter, faults } = Search::read(line, now, &app.redact);
    let after = fields.get("after");
    let listed = match faults.is_empty() {
        // One more shows whether there are older ones.
        true => {
            let asked = Filter { limit: PAGE + 1, after: after.map(Into::into), ..filter.clone() };
            tokio::try_join!(app.source.list(&asked), count(app, &filter)).map(Some)
        }
        false => Ok(None),
    };
    // An unknown queue is said beside the search line, which can be mended there.
    let (listed, wrong) = match listed {
        Err(trouble) if trouble.code < 500 => (None, vec![trouble.message]),
        listed => (listed?, faults),
    };
    let main = html! {
        h1.hidden { "Jobs" }
        form.search method="get" action=(app.link("/jobs")) role="search" {
            label.hidden for="q" { "Search jobs" }
            input #q name="q" type="search" value=(line) placeholder="state:failed queue:mail class:… since:2h words" autocomplete="off" autocapitalize="off" spellcheck="false" maxlength="1000";
            button.main type="submit" { "Search" }
        }
        (states(app, line, &filter))
        details.help { summary { "What can be searched for" } p { code { (HELP) } } }
        @for fault in &wrong { p.fault role="alert" { (text::shown(fault)) } }
        @if let Some(((jobs, cut), counted)) = &listed {
            @let has_older = jobs.len() > PAGE as usize;
            @let jobs = jobs.get(..PAGE as usize).unwrap_or(jobs);
            @let found = counted.as_ref().map_or(jobs.len() as u64, |counted| counted.count);
            @let more = counted.as_ref().map_or(has_older || cut.is_some(), |counted| counted.more);
            p.lead {
                strong data-count=(found) { (say::count(found)) @if more { "+" } } " " (if found == 1 { "job" } else { "jobs" }) @if after.is_some() { ", older ones" }
                @if let Some(cut) = cut { ", of " (say::count(cut.looked.into())) " that were looked at" }
            }
            @if jobs.is_empty() { (nothing("No job is like that.")) } @else {
                (rows::table(app, jobs, now, visit.may_change().then_some("chosen")))
                (orders(app, visit, &jobs.iter().map(|job| job.state).collect::<Vec<_>>()))
            }
            nav.pager aria-label="More" {
                @if after.is_some() { a.button href={ (app.link("/jobs?q=")) (encoded(line)) } { "Newest" } }
                @if let Some(last) = older(jobs, has_older, cut.as_ref()) {
                    a.button href={ (app.link("/jobs?q=")) (encoded(line)) "&after=" (encoded(last.as_str())) } { "Older" }
                }
            }
            (command(app, &shell(&filter)))
        }
    };
    Ok(Page {
        every: Some(10),
        // What happens changes the newest jobs, not the older pages.
        ..Page::new("Jobs", Place::Jobs, if after.is_some() { "" } else { "jobs" }, main)
    })
}

/// How many jobs there are, up to a limit.
struct Counted {
    count: u64,
    more: bool,
}

/// After which job older ones are listed, if there are any.
fn older<'a>(jobs: &'a [JobRecord], has_older: bool, cut: Option<&'a Cut>) -> Option<&'a JobId> {
    match jobs.last() {
        Some(last) if has_older => Some(&last.id),
        _ => cut.map(|cut| &cut.after),
    }
}

/// None for a search: it looks at a part of the jobs only.
async fn count(app: &App, filter: &Filter) -> Result<Option<Counted>, Trouble> {
    if filter.search.is_some() {
        return Ok(None);
    }
    let asked = Filter { limit: COUNTED, ..filter.clone() };
    let counts = app.source.count(&asked).await?;
    Ok(Some(Counted { count: counts.count(), more: counts.more }))
}

/// A link for each state, which puts it into the search line.
fn states(app: &App, line: &str, filter: &Filter) -> Markup {
    let rest: Vec<&str> = line.split_whitespace().filter(|word| !word.starts_with("state:")).collect();
    let rest = rest.join(" ");
    let link = |state: Option<JobState>| {
        let line = state.map(|state| format!("state:{state} {rest}")).unwrap_or_else(|| rest.clone());
        format!("{}?q={}", app.link("/jobs"), encoded(line.trim()))
    };
    html! {
        nav.states aria-label="By state" {
            a href=(link(None)) aria-current=[filter.states.is_empty().then_some("true")] { "any" }
            @for state in JobState::ALL {
                a href=(link(Some(state))) aria-current=[(filter.states == [state]).then_some("true")] { (shape::job(state)) }
            }
        }
    }
}

/// Orders about the jobs whose boxes are checked.
fn orders(app: &App, visit: &Visit, states: &[JobState]) -> Markup {
    let some_ended = states.iter().any(|state| state.has_ended());
    let some_live = states.iter().any(|state| !state.has_ended());
    html! {
        @if visit.may_change() {
            // By GET it leads to the question; only the form there orders.
            form.chosen #chosen method="get" action=(app.link("/act")) {
                input type="hidden" name="back" value=(visit.url);
                span.dim { "With the checked jobs:" }
                button type="submit" name="act" value="retry" disabled[!some_ended] { "Retry" }
                button type="submit" name="act" value="cancel" disabled[!some_live] { "Cancel…" }
                button.danger type="submit" name="act" value="discard" disabled[!some_ended] { "Discard…" }
            }
        }
    }
}

/// The command that lists the same.
fn shell(filter: &Filter) -> String {
    let mut line = "taskvisor job list".to_owned();
    let states: Vec<&str> = filter.states.iter().map(|state| state.as_str()).collect();
    let states = Some(states.join(",")).filter(|states| !states.is_empty());
    let time = |at: Option<model::Millis>| at.map(model::Millis::rfc3339);
    let options = [
        ("state", states),
        ("queue", filter.queue.as_ref().map(ToString::to_string)),
        ("class", filter.class.as_ref().map(ToString::to_string)),
        ("tag", filter.tag.clone()),
        ("group", filter.group.clone()),
        ("id-prefix", filter.id_prefix.clone()),
        ("search", filter.search.as_ref().map(ToString::to_string)),
        ("recurring", filter.recurring.clone()),
        ("since", time(filter.since)),
        ("until", time(filter.until)),
    ];
    for (name, value) in options {
        line += &value.map(|value| text::option(name, &value)).unwrap_or_default();
    }
    line + if filter.tracked { " --tracked" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Redact;

    #[test]
    fn command_lists_what_the_search_line_finds() {
        let line = "state:failed queue:mail group:\"exit 1\" id:0199 is:tracked class:-x";
        let Search { filter, faults } = Search::read(line, model::Millis(0), &Redact::default());
        assert_eq!(faults, Vec::<String>::new());
        assert_eq!(
            shell(&filter),
            "taskvisor job list --state failed --queue mail --class=-x --group 'exit 1' --id-prefix 0199 --tracked"
        );
    }
}
