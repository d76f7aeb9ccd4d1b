//! Jobs as rows of a table.

use std::collections::BTreeMap;

use maud::{Markup, html};

use model::{JobRecord, JobState, Millis, QueueCounts, QueueName, Why};

use crate::app::App;
use crate::search::word;
use crate::{chart, layout, say, shape, text};

/// A link to a job.
pub(crate) fn link(app: &App, id: &str) -> Markup {
    // Ids that taskvisor makes begin alike: their ends tell them apart.
    let is_made = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    html! {
        a.id href={ (app.of("job", id)) } title=[is_made.then_some(id)] {
            @if is_made { (&id[..8]) "…" (&id[26..]) } @else { (text::short(id)) }
        }
    }
}

/// A link to a list of jobs that a word of the search line selects.
pub(crate) fn search(app: &App, words: &[(&str, &str)]) -> String {
    let line: Vec<String> = words.iter().map(|(name, value)| word(name, value)).collect();
    format!("{}?q={}", app.link("/jobs"), text::encoded(&line.join(" ")))
}

/// The table. With a form's name each row has a box to check.
pub(crate) fn table(app: &App, jobs: &[JobRecord], now: Millis, form: Option<&str>) -> Markup {
    layout::scrolled(
        "Jobs",
        html! {
            table.jobs {
                thead { tr {
                    @if form.is_some() { th.box { span.hidden { "Choose" } } }
                    th { "State" } th { "Job" } th { "What" } th { "Queue" } th.num { "Attempt" } th.num { "Age" } th.num { "Ran" }
                } }
                tbody {
                    @for job in jobs { (row(app, job, now, form)) }
                }
            }
        },
    )
}

fn row(app: &App, job: &JobRecord, now: Millis, form: Option<&str>) -> Markup {
    let id = job.id.as_str();
    html! {
        tr data-key=(id) {
            @if let Some(form) = form {
                // The form stands below the table: its boxes belong to it by name.
                td.box { label.pick { input type="checkbox" name="job" value=(id) form=(form); span.hidden { "Choose " (id) } } }
            }
            td { (shape::job(job.state)) }
            td { (link(app, id)) }
            td.what {
                span.title { (text::short(title(app, job))) }
                @if let Some(cause) = job.cause() {
                    span.why { (text::short(&cause.group)) @let message = app.redact.said(&cause.message); @if !message.is_empty() { ": " (text::short(headline(message))) } }
                } @else if let Some(said) = job.told_progress().and_then(|progress| progress.message) {
                    span.why { (text::short(app.redact.said(&said))) }
                }
            }
            td { a.plain href=(search(app, &[("queue", job.queue.as_str())])) { (text::short(job.queue.as_str())) } }
            td.num { (job.attempt) }
            td.num { (say::since(moment(job), now, &app.zone)) }
            td.num { @if let Some(ran) = ran(job, now) { (say::age(ran)) } }
        }
    }
}

/// What a job is, in a line. Where data is hidden it is the class alone.
pub(crate) fn title<'a>(app: &App, job: &'a JobRecord) -> &'a str {
    app.redact.title(job.class.as_str(), job.title.as_deref())
}

/// When the latest thing happened to it.
fn moment(job: &JobRecord) -> Millis {
    let at = if job.state.is_leased() { job.started_at } else { job.ended_at };
    at.unwrap_or(job.put_at)
}

/// How long its latest attempt ran, or runs.
pub(crate) fn ran(job: &JobRecord, now: Millis) -> Option<std::time::Duration> {
    if job.state.is_leased() {
        return job.started_at.map(|at| say::whole(say::between(at, now)));
    }
    job.forensics.as_ref().map(|left| left.ran).filter(|ran| !ran.is_zero())
}

/// The line of a message that says most: the last of a traceback, else the first.
pub(crate) fn headline(message: &str) -> &str {
    let is_traceback = message.trim_start().starts_with("Traceback (most recent call last)");
    let mut lines = message.lines().map(str::trim).filter(|line| !line.is_empty());
    // Python prints the exception itself last.
    if is_traceback { lines.next_back() } else { lines.next() }.unwrap_or_default()
}

/// A count; nothing stands out less than a nought.
pub(crate) fn cell(number: u64) -> Markup {
    html! { td.num.nought[number == 0] { (say::count(number)) } }
}

/// The table of queues.
pub(crate) fn queues(app: &App, queues: &BTreeMap<QueueName, QueueCounts>, now: Millis) -> Markup {
    let count = |queue: &QueueCounts, state| queue.jobs.get(&state).copied().unwrap_or(0);
    layout::scrolled(
        "Queues",
        html! {
            table.queues {
                thead { tr { th { "Queue" } th { "Now" } th.num { "Waiting" } th.num { "Oldest" } th.num { "Running" } th.num { "Delayed" } th.num { "Failed" } th.num { "Held" } } }
                tbody {
                    @for (name, queue) in queues {
                        @let [waiting, running, failed, held] = [JobState::Waiting, JobState::Running, JobState::Failed, JobState::Held].map(|state| count(queue, state));
                        @let delayed = count(queue, JobState::Delayed) + count(queue, JobState::Depends);
                        tr data-key=(name) {
                            th scope="row" {
                                a href={ (app.of("queue", name.as_str())) } { (text::short(name.as_str())) }
                                @if let Some(pause) = &queue.paused { " " (shape::paused()) span.why { "by " (text::short(&pause.by)) (text::short(&pause.because())) } }
                                @if queue.unserved { span.why { "no pool takes jobs from it" } }
                            }
                            td.bar { (chart::stacked(&[("running", running, "running"), ("waiting", waiting, "waiting"), ("delayed", delayed, "delayed"), ("failed", failed, "failed"), ("held", held, "held")])) }
                            (cell(waiting))
                            td.num { @if let Some(oldest) = queue.oldest_waiting { (say::since(oldest, now, &app.zone)) } }
                            (cell(running)) (cell(delayed)) (cell(failed)) (cell(held))
                        }
                    }
                }
            }
        },
    )
}

/// The latest decisions about something.
pub(crate) fn decisions(app: &App, why: &Why) -> Markup {
    let now = app.now();
    html! {
        ol.timeline {
            @for decision in &why.decisions {
                @let ago = i64::try_from(decision.ago.as_millis()).unwrap_or(i64::MAX);
                li { time { (say::moment(Millis(now.0.saturating_sub(ago)), &app.zone)) } span.later {} div { p { (text::shown(&decision.what)) } } }
            }
        }
    }
}
