//! All supervisors that share the broker.

use maud::{Markup, html};

use model::Member;
use model::verb::ShowFleet;

use crate::app::{App, Page, Place};
use crate::layout::{command, nothing, scrolled};
use crate::trouble::Trouble;
use crate::{say, shape, text};

/// Draws the page of the fleet.
pub(crate) async fn page(app: &App) -> Result<Page, Trouble> {
    let fleet = app.source.look(ShowFleet { jobs: false }).await?;
    let main = html! {
        h1 { "Fleet" }
        p.lead { strong { (say::count(fleet.supervisors.len() as u64)) } " " (if fleet.supervisors.len() == 1 { "supervisor" } else { "supervisors" }) }
        @if fleet.supervisors.is_empty() { (nothing("No supervisor has given a sign of life.")) } @else {
            (scrolled("Supervisors", html! {
                table {
                    thead { tr { th { "Host" } th { "Seen" } th.num { "Running" } th { "Pools" } th { "Version" } } }
                    tbody { @for member in &fleet.supervisors { (row(app, member, fleet.now)) } }
                }
            }))
        }
        (command(app, "taskvisor status --fleet"))
    };
    Ok(Page { every: Some(5), ..Page::new("Fleet", Place::Workers, "workers", main) })
}

fn row(app: &App, member: &Member, now: model::Millis) -> Markup {
    html! {
        tr data-key=(member.instance) {
            th scope="row" {
                (text::short(&member.host)) @if member.silent { " " (shape::alert("silent")) }
                @if member.stopping.is_some() { " " span.why { "is stopping" } }
                span.why { (text::short(&member.instance)) @if let Some(since) = member.since { ", since " (say::when(since, now, &app.zone)) } }
            }
            td { @if let Some(seen) = member.seen { (say::when(seen, now, &app.zone)) } }
            td.num { (say::count(member.running)) }
            td.what {
                @for pool in &member.pools {
                    span.title { (text::short(&pool.name)) " " span.dim { (pool.mode) ", " (pool.busy) " of " (pool.slots) " busy" } @if pool.paused { " " (shape::paused()) } }
                }
            }
            td { (text::short(&member.version)) }
        }
    }
}
