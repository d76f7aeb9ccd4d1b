//! The pages of the screen: those of the commands.

use super::desk::Desk;
use crate::cli::job::list::list_text;
use crate::cli::job::show;
use crate::cli::status::{fleet, slot, tree};
use crate::cli::term::branch::Node;
use crate::cli::{queue, recur, why};
use ::top::ask::Kind;
use ::top::thing::Thing;
use failure::Failure;
use model::verb::{ShowFleet, ShowRecurring, Stats};
use model::{Filter, Fleet, Subject};

/// The text of a page.
pub(super) async fn text(desk: &Desk, thing: &Thing, kind: Kind) -> Result<String, Failure> {
    match kind {
        Kind::Why => because(desk, thing).await,
        Kind::Page | Kind::Output => page(desk, thing).await,
    }
}

async fn because(desk: &Desk, thing: &Thing) -> Result<String, Failure> {
    let subject = match thing {
        Thing::Job(id) => Subject::Job(id.clone()),
        Thing::Slot(name) | Thing::Process(name, _) => Subject::Slot(name.clone()),
        Thing::Pool(name) => Subject::Pool(name.clone()),
        Thing::Queue(_) | Thing::Group(_) | Thing::Recurring(_) | Thing::Member(_) | Thing::Event(_) => {
            return Ok(format!("why is known of jobs, slots and pools, not of {}\n", thing.kind()));
        }
    };
    let access = desk.access().await?;
    why::text(&access, &subject, &desk.look).await
}

async fn page(desk: &Desk, thing: &Thing) -> Result<String, Failure> {
    if let Thing::Slot(_) | Thing::Process(..) | Thing::Pool(_) = thing {
        return Ok(of_status(desk, thing).unwrap_or_default());
    }
    let access = desk.access().await?;
    let look = &desk.look;
    Ok(match thing {
        Thing::Job(id) => show::text(&access, access.job(id).await?, look).await?,
        Thing::Queue(name) => {
            let day = access.ask(Stats { queue: name.as_str().into(), day: None }).await?;
            queue::day(&day, look)
        }
        Thing::Group(name) => {
            let filter = Filter { group: Some(name.clone()), limit: 50, ..Filter::default() };
            list_text(&access.ask(filter).await?, clock::wall(), look)
        }
        Thing::Recurring(name) => recur::page(&access.ask(ShowRecurring { name: name.clone() }).await?, look),
        Thing::Member(instance) => {
            let mut fleet: Fleet = access.ask(ShowFleet { jobs: true }).await?;
            fleet.supervisors.retain(|member| member.instance == *instance);
            fleet::render(&fleet, true, look)
        }
        Thing::Slot(_) | Thing::Process(..) | Thing::Pool(_) | Thing::Event(_) => String::new(),
    })
}

/// The page of a slot or a pool, as it was seen last.
fn of_status(desk: &Desk, thing: &Thing) -> Option<String> {
    let status = desk.status()?;
    let is = |name: &str| thing.name() == name;
    let node: Node = if let Thing::Pool(_) = thing {
        tree::pool(status.pools.iter().find(|pool| is(&pool.name))?, &desk.look)
    } else {
        let mut slots = status.pools.iter().flat_map(|pool| pool.template.iter().chain(&pool.slots));
        slot::slot(slots.find(|slot| is(&slot.slot.to_string()))?, &desk.look)
    };
    let mut out = String::new();
    node.draw(&desk.look, "", "", &mut out);
    Some(out)
}
