//! The jobs that a job needs and those that need it, as lists in one another: a graph for everybody.

use std::collections::HashSet;
use std::time::Duration;

use maud::{Markup, html};
use tokio::time::{Instant, timeout_at};

use model::{JobId, JobRecord};

use super::rows;
use crate::app::App;
use crate::trouble::Trouble;
use crate::{say, shape, text};

/// Limit of the jobs that are shown in each direction: each is asked for.
const MOST: usize = 24;
/// The deepest level that is shown.
const DEEPEST: usize = 6;
/// Limit of the time for all of them.
const PATIENCE: Duration = Duration::from_secs(5);

/// A job of the graph at its level.
struct Node {
    level: usize,
    job: Result<JobRecord, Trouble>,
    id: JobId,
    /// Whether it is shown above with what is below it.
    is_above: bool,
}

/// Both directions; nothing for a job that stands alone.
pub(crate) async fn section(app: &App, job: &JobRecord) -> Markup {
    if job.needs.is_empty() && job.needed_by.is_empty() {
        return html! {};
    }
    let until = Instant::now() + PATIENCE;
    let up = walk(app, job, until, |job| job.needs.iter().map(|need| need.job.clone()).collect()).await;
    let down = walk(app, job, until, |job| job.needed_by.clone()).await;
    html! {
        section aria-labelledby="h-needs" {
            h2 #h-needs { "Jobs before and after it" }
            (part(app, "It waits for", &up)) (part(app, "These wait for it", &down))
        }
    }
}

/// Goes from job to job, the first of each before the next one, and says whether there is more.
/// It ends where no answer comes.
async fn walk(
    app: &App,
    job: &JobRecord,
    until: Instant,
    next: impl Fn(&JobRecord) -> Vec<JobId>,
) -> (Vec<Node>, bool) {
    // A stack gives back the last first.
    let ids = |level: usize, ids: Vec<JobId>| ids.into_iter().rev().map(move |id| (level, id));
    let mut stack: Vec<(usize, JobId)> = ids(0, next(job)).collect();
    let (mut nodes, mut seen, mut has_more) = (Vec::new(), HashSet::new(), false);
    while let Some((level, id)) = stack.pop() {
        if nodes.len() == MOST {
            return (nodes, true);
        }
        let is_above = !seen.insert(id.clone());
        let late = |_| Err(Trouble::new(504, "no answer came in time"));
        let job = timeout_at(until, app.source.job(&id)).await.unwrap_or_else(late);
        let is_down = job.as_ref().is_err_and(|trouble| trouble.code >= 500);
        let below = job.as_ref().ok().map(&next).filter(|_| !is_above).unwrap_or_default();
        nodes.push(Node { level, job, id, is_above });
        // A job that is gone is shown as gone; without an answer each of the others would wait as long.
        if is_down {
            return (nodes, !stack.is_empty());
        }
        match level < DEEPEST {
            true => stack.extend(ids(level + 1, below)),
            false => has_more |= !below.is_empty(),
        }
    }
    (nodes, has_more)
}

fn part(app: &App, title: &str, (nodes, has_more): &(Vec<Node>, bool)) -> Markup {
    html! {
        @if !nodes.is_empty() {
            h3 { (title) }
            ul.graph-of {
                @for node in nodes {
                    li class={ "deep-" (node.level) } {
                        @if node.level > 0 { span.hidden { "level " (node.level + 1) ": " } span aria-hidden="true" { "└ " } }
                        (rows::link(app, node.id.as_str())) " "
                        @match &node.job {
                            Ok(job) => { (shape::job(job.state)) " " (text::short(rows::title(app, job))) }
                            Err(trouble) if trouble.code == 404 => { span.dim { "is known no more" } }
                            Err(_) => { span.dim { "is not known: no answer" } }
                        }
                        @if node.is_above { span.dim { ", see above" } }
                    }
                }
            }
            @if *has_more { p.dim { "and more: " (say::count(nodes.len() as u64)) " are shown" } }
        }
    }
}
