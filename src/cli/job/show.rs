//! `job show`: one job on a page.

use super::{killer, page};
use crate::cli::access::Access;
use crate::cli::access::hosts::Hosts;
use crate::cli::args::JobShow;
use crate::cli::term::screen::{Look, age, print, print_json};
use crate::config::Config;
use crate::failure::{Failure, exit};
use crate::model::JobRecord;

/// One job on a page.
pub async fn show(config: &Config, args: &JobShow) -> Result<u8, Failure> {
    let access = Access::open(config).await?;
    let mut job = access.job(&access.named(&args.jid).await?).await?;
    if args.json {
        print_json(&job)?;
        return Ok(exit::OK);
    }
    let unkillable = unkillable(&access, &job).await;
    Hosts::of(&access).await.name_in(&mut job);
    let killed = killer::of(&job).unwrap_or_default();
    print(&(page::render(&job, unkillable.as_deref(), &Look::of_stdout(false)) + &killed))?;
    Ok(exit::OK)
}

/// What of a running job was killed and does not die, as its supervisor knows it.
async fn unkillable(access: &Access, job: &JobRecord) -> Option<String> {
    match access {
        Access::Api(..) if job.state.is_leased() => {}
        Access::Api(..) | Access::Store(_) => return None,
    }
    let why = access.why(&job.id).await.ok()?;
    let mut slots = why.pools.iter().flat_map(|(pool, _)| &pool.slots);
    let slot = slots.find(|slot| slot.has_unkillable(&job.id))?;
    Some(format!("for {}: {}", age(slot.age), slot.why.as_deref().unwrap_or("why is not known")))
}
