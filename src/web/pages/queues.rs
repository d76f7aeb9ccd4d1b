//! Queues: all of them, and one with its day.

use maud::{Markup, html};

use model::verb::{Stats, Times};
use model::{JobState, SeriesQuery};

use super::{course, rows};
use crate::app::{App, Page, Place, Visit};
use crate::layout::{button, command, nothing};
use crate::text::encoded;
use crate::trouble::Trouble;
use crate::{chart, options, say, shape, text};

/// Draws the page of all queues.
pub(crate) async fn page(app: &App) -> Result<Page, Trouble> {
    let (queues, now) = (app.source.queues().await?, app.now());
    let main = html! {
        h1 { "Queues" }
        p.lead { strong { (say::count(queues.len() as u64)) } " " (if queues.len() == 1 { "queue" } else { "queues" }) }
        @if queues.is_empty() { (nothing(&app.typed("No queue has had a job yet: taskvisor put -- COMMAND"))) } @else { (rows::queues(app, &queues, now)) }
        (command(app, "taskvisor queue list"))
    };
    Ok(Page { every: Some(5), ..Page::new("Queues", Place::Queues, "jobs orders", main) })
}

/// Draws the page of one queue.
pub(crate) async fn one(app: &App, visit: &Visit, name: &str) -> Result<Page, Trouble> {
    let (mut queues, now) = (app.source.queues().await?, app.now());
    let queue = queues
        .remove(&model::QueueName::from(name))
        .ok_or_else(|| Trouble::new(404, format!("no queue is called '{name}'")))?;
    // Some brokers keep no statistics.
    let day = app.source.look(Stats { queue: name.into(), day: None }).await.ok();
    let course =
        course::section(app, visit, SeriesQuery { queue: Some(name.into()), ..SeriesQuery::default() }).await;
    let query = |act: &str| format!("act={act}&queue={}&back={}", encoded(name), encoded(&visit.url));
    let change = html! { @if visit.may_change() { div.buttons { (button(app, &query("queue-set"), "Set options…", "")) } } };
    let options = options::section(app, name, change).await;
    let main = html! {
        h1 { "Queue " (text::short(name)) }
        @if visit.may_change() {
            div.buttons {
                @if queue.paused.is_some() { (button(app, &query("queue-resume"), "Resume", "main")) } @else { (button(app, &query("queue-pause"), "Pause…", "")) }
                // Its page is gone then.
                @if queue.jobs.values().all(|count| *count == 0) { (button(app, &format!("act=queue-forget&queue={}&back={}", encoded(name), encoded(&app.link("/queues"))), "Forget…", "danger")) }
            }
        }
        @if let Some(pause) = &queue.paused { p { (shape::paused()) " " (say::when(pause.since, now, &app.zone)) " by " (text::shown(&pause.by)) (text::shown(&pause.because())) } }
        @if queue.unserved { p.fault { "No pool takes jobs from it." } }
        dl.facts {
            @for state in JobState::ALL {
                @let count = queue.jobs.get(&state).copied().unwrap_or(0);
                div { dt { (state) } dd { a data-state=(state) href=(rows::search(app, &[("state", state.as_str()), ("queue", name)])) { (say::count(count)) } } }
            }
            @if let Some(oldest) = queue.oldest_waiting { div { dt { "Oldest waiting" } dd { (say::since(oldest, now, &app.zone)) } } }
            @if let Some(most) = queue.max_concurrency { div { dt { "At a time" } dd { (say::count(most)) " at most" } } }
        }
        (course)
        @if let Some(day) = &day {
            div.columns {
                (times("Waited today (UTC)", "h-wait", &day.wait)) (times("Ran today (UTC)", "h-run", &day.run))
            }
            p.lead { (say::counted(day.retries, "attempt", "attempts")) " failed and were tried again today, " (say::counted(day.failures, "job", "jobs")) " failed" }
        }
        (options)
        (command(app, &format!("taskvisor queue stats {}", text::names([name]))))
    };
    let topics = format!("queue:{} orders", encoded(name));
    Ok(Page { every: Some(5), ..Page::new(format!("Queue {name}"), Place::Queues, topics, main) })
}

/// The steps of the bars, in seconds, with their names.
const STEPS: [(u32, &str); 11] = [
    (0, "under 1s"),
    (1, "1s to 2s"),
    (2, "2s to 5s"),
    (5, "5s to 10s"),
    (10, "10s to 30s"),
    (30, "30s to 1m"),
    (60, "1m to 5m"),
    (300, "5m to 30m"),
    (1800, "30m to 2h"),
    (7200, "2h to 1d"),
    (86_400, "1d or more"),
];

fn times(title: &str, id: &str, times: &Times) -> Markup {
    let mut counts = [0_u64; STEPS.len()];
    for (seconds, count) in &times.histogram {
        // The buckets of the statistics are finer than the bars.
        let step = STEPS.iter().rposition(|(from, _)| from <= seconds).unwrap_or(0);
        counts[step] += count;
    }
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let (first, last) =
        (counts.iter().position(|count| *count > 0), counts.iter().rposition(|count| *count > 0));
    html! {
        section aria-labelledby=(id) {
            h2 id=(id) { (title) " " span.dim { (say::count(times.count)) @if times.count > 0 { ", " (say::age(say::seconds(times.mean))) " on average" } } }
            @if let (Some(first), Some(last)) = (first, last) {
                table.bars { tbody {
                    @for (number, (_, name)) in STEPS.iter().enumerate().take(last + 1).skip(first) {
                        tr { th scope="row" { (name) } td.bar { (chart::progress(counts[number] as f64 / most as f64, name)) } (rows::cell(counts[number])) }
                    }
                } }
            } @else { (nothing("Nothing yet.")) }
        }
    }
}
