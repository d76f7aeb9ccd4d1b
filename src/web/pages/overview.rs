//! The overview: how it is, what waits, what runs, what failed.

use std::collections::BTreeMap;
use std::sync::Arc;

use maud::{Markup, html};

use model::verb::Failed;
use model::{
    JobState, Millis, PoolStatus, QueueCounts, QueueName, RunningJob, SeriesQuery, SlotStatus, Status,
};

use super::{course, failures, rows};
use crate::app::{App, Page, Place, Visit};
use crate::chart;
use crate::layout::{nothing, reasons, scrolled};
use crate::trouble::Trouble;
use crate::{say, shape, text};

type Counts = BTreeMap<QueueName, QueueCounts>;

/// Draws the overview.
pub(crate) async fn page(app: &App, visit: &Visit) -> Result<Page, Trouble> {
    let now = app.now();
    let status = app.source.status(app.live.changed()).await?;
    let counted = match &status {
        // A status has the counts already.
        Some(_) => None,
        None => Some(app.source.queues().await?),
    };
    let queues = counted.as_ref().or(status.as_ref().map(|status| &status.queues));
    let empty = Counts::new();
    let queues = queues.unwrap_or(&empty);
    // A broker that cannot tell failures by group has an overview all the same.
    let groups = app.source.look(Failed::default()).await;
    let course = course::section(app, visit, SeriesQuery::default()).await;
    let main = html! {
        h1.hidden { "Overview" }
        (verdict(status.as_ref()))
        (tiles(app, queues, status.as_deref(), now))
        (course)
        div.columns {
            section aria-labelledby="h-queues" {
                h2 #h-queues { "Queues" }
                @if queues.is_empty() { (nothing(&app.typed("No queue has had a job yet: taskvisor put -- COMMAND"))) } @else { (rows::queues(app, queues, now)) }
            }
            @if let Some(status) = &status {
                section aria-labelledby="h-running" { h2 #h-running { "Running now" } (running(app, status)) }
                section aria-labelledby="h-workers" { h2 #h-workers { "Workers" } (pools(&status.pools)) }
            }
            section aria-labelledby="h-failures" {
                h2 #h-failures { a href=(app.link("/failures")) { "Failures" } }
                @match &groups {
                    Ok(groups) if groups.is_empty() => (nothing("Nothing has failed.")),
                    Ok(groups) => (failures::brief(app, groups, now)),
                    Err(trouble) => p.empty { "Not known: " (text::shown(&trouble.message)) },
                }
            }
        }
    };
    Ok(Page { every: Some(5), ..Page::new("Overview", Place::Overview, "jobs workers orders", main) })
}

fn verdict(status: Option<&Arc<Status>>) -> Markup {
    let Some(status) = status else {
        return html! { div.verdict { p.big { "No supervisor runs here" } p { "These are the jobs that the broker holds. " code { "taskvisor start" } " runs them." } } };
    };
    html! {
        div.verdict {
            p.big { (shape::health(status.verdict)) }
            (reasons(&status.reasons))
            dl.facts {
                div { dt { "Host" } dd { (text::shown(&status.host.name)) } }
                div { dt { "Up" } dd { (say::age(say::whole(status.up))) } }
                div { dt { "Load" } dd { (format!("{:.2}", status.host.load)) " of " (status.host.cpus) " CPUs" } }
                div { dt { "Memory" } dd { (say::size(status.host.memory_used)) " of " (say::size(status.host.memory_total)) } }
                div { dt { "Broker" } dd { (text::shown(&status.broker)) } }
                div { dt { "Version" } dd { (status.version) } }
            }
        }
    }
}

/// The sum of a state over all queues.
fn sum(queues: &Counts, states: &[JobState]) -> u64 {
    queues.values().flat_map(|queue| states.iter().filter_map(|state| queue.jobs.get(state))).sum()
}

fn tiles(app: &App, queues: &Counts, status: Option<&Status>, now: Millis) -> Markup {
    let oldest = queues.values().filter_map(|queue| queue.oldest_waiting).min();
    let tile = |state: &str, name: &str, number: u64, below: Markup| {
        html! {
            a.tile.quiet[number == 0] href=(rows::search(app, &[("state", state)])) data-tile=(state) {
                span.name { (name) } span.figure { (say::count(number)) } span.below { (below) }
            }
        }
    };
    let today = queues.values().fold(model::Today::default(), |mut sum, queue| {
        sum += queue.today;
        sum
    });
    let mean = |sum: model::Sum| (sum.count > 0).then(|| say::seconds(sum.seconds / sum.count as f64));
    let slots = status.map(|status| status.pools.iter().flat_map(|pool| &pool.slots).count());
    html! {
        div.tiles {
            (tile("waiting", "Waiting", sum(queues, &[JobState::Waiting]), html! { @if let Some(oldest) = oldest { "oldest " (say::since(oldest, now, &app.zone)) } }))
            (tile("running,canceling", "Running", sum(queues, &[JobState::Running, JobState::Canceling]), html! { @if let Some(slots) = slots { "of " (say::counted(slots as u64, "slot", "slots")) } }))
            (tile("delayed,depends", "Delayed", sum(queues, &[JobState::Delayed, JobState::Depends]), html! { "or wait for others" }))
            (tile("failed", "Failed", sum(queues, &[JobState::Failed]), html! { (say::count(today.failures)) " today" }))
            (tile("held", "Held", sum(queues, &[JobState::Held]), html! { "for a person" }))
            (tile("complete", "Complete", sum(queues, &[JobState::Complete]), html! {
                (say::count(today.run.count)) " today"
                @if let Some(mean) = mean(today.run) { ", " (say::age(mean)) " each" }
            }))
        }
    }
}

fn running(app: &App, status: &Status) -> Markup {
    const SHOWN: usize = 10;
    let mut jobs: Vec<(&SlotStatus, &RunningJob)> = status
        .pools
        .iter()
        .flat_map(|pool| &pool.slots)
        .flat_map(|slot| slot.jobs.iter().map(move |job| (slot, job)))
        .collect();
    jobs.sort_by_key(|(_, job)| std::cmp::Reverse(job.ran));
    let more = jobs.len().saturating_sub(SHOWN);
    if jobs.is_empty() {
        return nothing("No job runs.");
    }
    scrolled(
        "Running now",
        html! {
            table {
                thead { tr { th { "Job" } th { "What" } th { "Slot" } th.num { "For" } th.num { "Memory" } } }
                tbody {
                    @for (slot, job) in jobs.iter().take(SHOWN) {
                        tr data-key=(job.id) {
                            td { (rows::link(app, job.id.as_str())) }
                            td.what {
                                span.title { (text::short(app.redact.title(job.class.as_str(), Some(&job.title)))) }
                                @if let Some(ending) = &job.ending { span.why { (text::short(ending)) } }
                                @if let Some(fraction) = job.progress.as_ref().and_then(|progress| progress.fraction) {
                                    (chart::progress(fraction, &format!("{:.0} percent", fraction * 100.0)))
                                }
                            }
                            td { (slot.slot) }
                            td.num { (say::age(say::whole(job.ran))) }
                            td.num { @if let Some(process) = &slot.process { (say::size(all_rss(process))) } }
                        }
                    }
                }
            }
            @if more > 0 { p.more { a href=(rows::search(app, &[("state", "running")])) { (say::count(more as u64)) " more" } } }
        },
    )
}

/// The memory of a process with all below it.
pub(crate) fn all_rss(process: &model::Process) -> u64 {
    process.rss + process.children.iter().map(all_rss).sum::<u64>()
}

fn pools(pools: &[PoolStatus]) -> Markup {
    html! {
        @if pools.is_empty() { (nothing("This supervisor has no pool.")) }
        ul.pools {
            @for pool in pools {
                @let busy = pool.slots.iter().filter(|slot| !slot.jobs.is_empty()).count();
                li data-key=(pool.name) {
                    p {
                        strong { (text::short(&pool.name)) } " " span.dim { (pool.mode) }
                        @if pool.paused { " " (shape::paused()) }
                        span.right { (busy) " of " (say::counted(pool.slots.len() as u64, "slot", "slots")) " busy" }
                    }
                    (slots(&pool.slots))
                    @if let Some(why) = &pool.probing { p.why { (text::shown(why)) } }
                }
            }
        }
    }
}

/// The slots as a row of marks. Their counts by state stand beside them, for who cannot see them.
fn slots(slots: &[SlotStatus]) -> Markup {
    let mut states: BTreeMap<_, (&str, u64)> = BTreeMap::new();
    for slot in slots {
        // By number, so that the parts keep their order while they change.
        states.entry(slot.state as u8).or_insert((slot.state.as_str(), 0)).1 += 1;
    }
    let parts: Vec<(&str, u64, &str)> = states.values().map(|(name, count)| (*name, *count, *name)).collect();
    html! {
        div.slots { (chart::stacked(&parts)) }
        p.dim { @for (number, (_, count, name)) in parts.iter().enumerate() { @if number > 0 { ", " } (say::count(*count)) " " (name) } }
    }
}
