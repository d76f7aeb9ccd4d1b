//! `job show`: one job on one page.

use std::time::Duration;

use super::{killer, page};
use crate::cli::access::Access;
use crate::cli::access::hosts::Hosts;
use crate::cli::args::JobShow;
use crate::cli::term::screen::{Look, age, print, print_json};
use crate::config::Config;
use crate::failure::{Failure, exit};
use crate::model::JobRecord;

/// Prints one job on one page.
pub async fn show(config: &Config, args: &JobShow) -> Result<u8, Failure> {
    let access = Access::open(config).await?;
    let mut job = access.job(&access.named(&args.jid).await?).await?;
    let unkillable = unkillable(&access, &job).await;
    if args.json {
        print_json(&Shown { job: &job, unkillable })?;
        return Ok(exit::OK);
    }
    let unkillable = unkillable.map(|what| format!("for {}: {}", age(what.age), what.why));
    Hosts::of(&access).await.name_in(&mut job);
    let killed = killer::of(&job).unwrap_or_default();
    print(&(page::render(&job, unkillable.as_deref(), &Look::of_stdout(false)) + &killed))?;
    Ok(exit::OK)
}

/// A job with data that only its supervisor knows.
#[derive(serde::Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    job: &'a JobRecord,
    #[serde(skip_serializing_if = "Option::is_none")]
    unkillable: Option<Unkillable>,
}

/// A process of a job that was killed and does not die.
#[derive(serde::Serialize)]
struct Unkillable {
    /// For how long, in seconds.
    #[serde(rename = "seconds", serialize_with = "in_seconds")]
    age: Duration,
    why: String,
}

fn in_seconds<S: serde::Serializer>(age: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(age.as_secs_f64())
}

/// The process of a running job that was killed and does not die, as its supervisor reports it.
async fn unkillable(access: &Access, job: &JobRecord) -> Option<Unkillable> {
    match access {
        Access::Api(..) if job.state.is_leased() => {}
        Access::Api(..) | Access::Store(_) => return None,
    }
    let why = access.why(&job.id).await.ok()?;
    let mut slots = why.pools.iter().flat_map(|(pool, _)| &pool.slots);
    let slot = slots.find(|slot| slot.has_unkillable(&job.id))?;
    Some(Unkillable { age: slot.age, why: slot.why.clone().unwrap_or("why is not known".into()) })
}
