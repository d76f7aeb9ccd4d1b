//! The workers: pools with their slots, and why one is as it is.

use maud::{Markup, html};

use model::{PoolStatus, SlotState, SlotStatus, Subject, Why};

use super::{fleet, forensics, rows};
use crate::app::{App, Page, Place, Visit};
use crate::layout::{button, command, nothing, scrolled};
use crate::text::encoded;
use crate::trouble::Trouble;
use crate::{say, shape, text};

/// Draws the page of all pools.
pub(crate) async fn page(app: &App, visit: &Visit) -> Result<Page, Trouble> {
    let Some(status) = app.source.status(app.live.changed()).await? else {
        // Those of other hosts are known where the broker is shared.
        return fleet::page(app).await.map_err(|_| Trouble::no_supervisor());
    };
    let is_shared = !status.broker.starts_with("sqlite:") && !status.broker.starts_with("memory:");
    let main = html! {
        h1 { "Workers" }
        p.lead {
            "Keeper " (status.keeper.pid) ", " (say::size(status.keeper.rss)) "; supervisor " (status.supervisor.pid) ", " (say::size(status.supervisor.rss))
            @if status.supervisor_restarts > 0 { ", started again " (say::counted(status.supervisor_restarts.into(), "time", "times")) }
            @if let Some(end) = &status.supervisor_last_end { ": " (text::shown(end)) }
            @if is_shared { ". " a href=(app.link("/fleet")) { "All supervisors of this broker" } }
        }
        @if status.pools.is_empty() { (nothing("This supervisor has no pool.")) }
        @for pool in &status.pools { (one(app, visit, pool)) }
        (command(app, "taskvisor status"))
    };
    Ok(Page { every: Some(3), ..Page::new("Workers", Place::Workers, "workers jobs orders", main) })
}

fn one(app: &App, visit: &Visit, pool: &PoolStatus) -> Markup {
    let name = pool.name.as_str();
    let title = format!("h-{}", encoded(name));
    let idle = |slot: &&SlotStatus| {
        slot.state == SlotState::Ready
            && slot.jobs.is_empty()
            && slot.why.is_none()
            && slot.process.as_ref().and_then(forensics::halted).is_none()
    };
    let (quiet, shown): (Vec<&SlotStatus>, Vec<&SlotStatus>) = pool.slots.iter().partition(|slot| idle(slot));
    // Equal slots are one row: a thousand of them would say no more.
    let fold = quiet.len() > 3;
    html! {
        section data-key={ "pool-" (name) } aria-labelledby=(title) {
            div.head {
                h2 id=(title) {
                    a href={ (app.of("pool", name)) } { (text::short(name)) } " " span.dim { (pool.mode) @if pool.concurrency > 1 { " ×" (pool.concurrency) } ", queues " (text::short(&queues(pool))) }
                    @if pool.paused { " " (shape::paused()) }
                }
                @if visit.may_change() { (orders(app, visit, pool)) }
            }
            @if let Some(pause) = &pool.pause { p.why { "paused by " (text::shown(&pause.by)) (text::shown(&pause.because())) } }
            @if let Some(why) = &pool.probing { p.why { (text::shown(why)) } }
            @if let Some(job) = &pool.suspect { p.why { "job " (rows::link(app, job.as_str())) " has this host for itself" } }
            (scrolled(&format!("Slots of {name}"), html! {
                table {
                    thead { tr { th { "Slot" } th { "State" } th.num { "For" } th { "Runs" } th.num { "Memory" } th.num { "CPU" } th.num { "Restarts" } } }
                    tbody {
                        @if let Some(template) = &pool.template { (row(app, template)) }
                        @for slot in &shown { (row(app, slot)) }
                        @if fold { tr data-key="idle" { td { "idle" } td { (shape::slot(SlotState::Ready)) " ×" (quiet.len()) } td {} td {} td.num { (say::size(quiet.iter().filter_map(|slot| slot.process.as_ref()).map(|process| process.uses().0).sum())) } td {} td {} } }
                        @else { @for slot in &quiet { (row(app, slot)) } }
                    }
                }
            }))
        }
    }
}

fn queues(pool: &PoolStatus) -> String {
    pool.queues.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn orders(app: &App, visit: &Visit, pool: &PoolStatus) -> Markup {
    let query = |act: &str| format!("act={act}&pool={}&back={}", encoded(&pool.name), encoded(&visit.url));
    html! {
        div.buttons {
            @if pool.paused { (button(app, &query("pool-resume"), "Resume", "main")) } @else { (button(app, &query("pool-pause"), "Pause…", "")) }
            (button(app, &query("pool-scale"), "Scale…", "")) (button(app, &query("pool-recycle"), "Recycle…", ""))
        }
    }
}

fn row(app: &App, slot: &SlotStatus) -> Markup {
    html! {
        tr data-key=(slot.slot) {
            td { a href={ (app.of("slot", &slot.slot.to_string())) } { (slot.slot) } }
            td { (shape::slot(slot.state)) @if let Some(halted) = slot.process.as_ref().and_then(forensics::halted) { span.why { (halted) } } }
            td.num { (say::age(say::whole(slot.age))) }
            td.what {
                @for job in slot.jobs.iter().take(5) {
                    span.title { (rows::link(app, job.id.as_str())) " " (text::short(app.redact.title(job.class.as_str(), Some(&job.title)))) }
                    @if let Some(flood) = &job.flood { span.why { "floods its output: " (say::size(flood.printed)) ", of which " (say::size(flood.dropped)) " are dropped" } }
                }
                @if slot.jobs.len() > 5 { span.why { "and " (slot.jobs.len() - 5) " more" } }
                @for why in [&slot.leaving, &slot.why].into_iter().flatten() { span.why { (text::short(rows::headline(why))) } }
                @if let Some(warning) = &slot.warning { span.why { (text::short(rows::headline(app.redact.warned(warning)))) } }
            }
            td.num { @if let Some(process) = &slot.process { (say::size(process.uses().0)) } }
            td.num { @if let Some(process) = &slot.process { (say::age(process.cpu)) } }
            (rows::cell(slot.restarts.into()))
        }
    }
}

/// Draws why a pool is as it is.
pub(crate) async fn pool(app: &App, visit: &Visit, name: &str) -> Result<Page, Trouble> {
    let why = app.redact.why(app.source.why(&Subject::Pool(name.into()), app.live.changed()).await?);
    let main = html! {
        h1 { "Pool " (text::short(name)) }
        @for (pool, _) in &why.pools { @if visit.may_change() { (orders(app, visit, pool)) } }
        (because(&app.words.why_pool(&why)))
        (decisions(app, &why))
        // Its buttons stand above already.
        @for (pool, _) in &why.pools { (one(app, &Visit { role: crate::session::Role::View, ..visit.clone() }, pool)) }
        (command(app, &format!("taskvisor why pool {}", text::names([name]))))
    };
    Ok(Page { every: Some(5), ..Page::new(format!("Pool {name}"), Place::Workers, "workers orders", main) })
}

/// Draws why a slot is as it is.
pub(crate) async fn slot(app: &App, name: &str) -> Result<Page, Trouble> {
    let why = app.redact.why(app.source.why(&Subject::Slot(name.into()), app.live.changed()).await?);
    let slots = why.pools.iter().flat_map(|(pool, _)| pool.slots.iter().chain(&pool.template));
    let found = slots.into_iter().find(|slot| slot.slot.to_string() == name);
    let main = html! {
        h1 { "Slot " (text::short(name)) }
        @if let Some(slot) = found { p { (shape::slot(slot.state)) " for " (say::age(say::whole(slot.age))) } }
        (because(&app.words.why_slot(name, &why)))
        div.columns {
            @if let Some(process) = found.and_then(|slot| slot.process.as_ref()) { section { h2 { "Its processes" } (forensics::tree(process)) } }
            @if let Some(seen) = &why.snapshot { section { h2 { "Its processes before they were last ended" } (forensics::snapshot(seen)) } }
            @if let Some(trace) = found.and_then(|slot| slot.trace.as_ref()) { section { h2 { "Last words of a worker that died" } div.out tabindex="0" role="group" aria-label="Trace" { pre { (text::lines(trace)) } } } }
            (decisions(app, &why))
        }
        (command(app, &format!("taskvisor why slot {}", text::names([name]))))
    };
    Ok(Page { every: Some(3), ..Page::new(format!("Slot {name}"), Place::Workers, "workers jobs", main) })
}

fn because(sentences: &[String]) -> Markup {
    html! { @if !sentences.is_empty() { section.because aria-label="Why" { @for sentence in sentences { p { (text::shown(sentence)) } } } } }
}

fn decisions(app: &App, why: &Why) -> Markup {
    html! { @if !why.decisions.is_empty() { section aria-labelledby="h-dec" { h2 #h-dec { "What the supervisor decided" } (rows::decisions(app, why)) } } }
}
