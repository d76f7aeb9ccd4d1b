//! What happened lately, while somebody looked.

use maud::{Markup, html};

use model::PublishedEvent;

use super::rows;
use crate::app::{App, Page, Place};
use crate::layout::{command, nothing, scrolled};
use crate::trouble::Trouble;
use crate::{say, shape, text};

/// Draws the page of events.
pub(crate) async fn page(app: &App) -> Result<Page, Trouble> {
    let client = app.source.client()?;
    // A browser without scripts holds no stream open: its next look would find no events.
    app.live.linger(client);
    let events = app.live.latest();
    let main = html! {
        h1 { "Events" }
        p.lead { "The latest " (say::count(events.len() as u64)) " since a page is open; the supervisor keeps none" }
        @if events.is_empty() { (nothing("Nothing has happened since.")) } @else {
            (scrolled("Events", html! {
                table {
                    thead { tr { th { "At" } th { "Event" } th { "What" } th { "Queue" } th { "By" } th { "Why" } } }
                    tbody { @for news in &events { (row(app, news)) } }
                }
            }))
        }
        (command(app, "taskvisor events"))
    };
    Ok(Page::new("Events", Place::Events, "jobs workers orders", main))
}

fn row(app: &App, news: &PublishedEvent) -> Markup {
    html! {
        tr data-key={ "n" (news.n) } {
            td { time datetime=(news.at.rfc3339()) { (say::moment(news.at, &app.zone)) } }
            td { (news.what.as_str()) @if let Some(health) = news.health { " " (shape::health(health)) } }
            td.what {
                @if let Some(job) = &news.job { (rows::link(app, job.as_str())) " " }
                @if let Some(class) = &news.class { (text::short(class.as_str())) }
                @if let Some(worker) = &news.worker { a href={ (app.of("slot", &worker.slot.to_string())) } { (worker) } }
                @if let Some(pool) = &news.pool { "pool " (text::short(pool)) }
            }
            td { @if let Some(queue) = &news.queue { a.plain href={ (app.of("queue", queue.as_str())) } { (text::short(queue.as_str())) } } }
            td { @if let Some(by) = &news.by { (text::short(by)) } }
            // Of a job it may be what its program has said.
            td.what { @if let Some(why) = &news.why { (text::short(if news.job.is_some() { app.redact.said(why) } else { why.as_str() })) } @if let Some(count) = news.count { " " (if news.is_of_many() { say::counted(count, "job", "jobs") } else { say::count(count) }) } }
        }
    }
}
