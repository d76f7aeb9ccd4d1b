//! `job show`: one job on one page.

use std::time::Duration;

use crate::cli::access::Access;
use crate::cli::access::hosts::Hosts;
use crate::cli::access::named::too_short;
use crate::cli::args::JobShow;
use crate::cli::record::{alone, killer, page};
use crate::cli::term::screen::{Look, age, print, print_json};
use crate::cli::why;
use config::Config;
use failure::{Failure, exit};
use model::verb::Ability;
use model::{JobId, JobRecord, Subject, Why};

/// Prints one job on one page.
pub(crate) async fn show(config: &Config, args: &JobShow) -> Result<u8, Failure> {
    let access = Access::open(config).await?;
    let id = access.shown(&args.jid).await?;
    let job = match access.job(&id).await {
        Ok(job) => job,
        // Its broker does not answer: what is known here is better than nothing.
        Err(failure)
            if failure.code == exit::UNAVAILABLE && !args.json && matches!(access, Access::Api(..)) =>
        {
            if !is_known_here(&access, &id).await {
                return Err(failure);
            }
            print(&why::text(&access, &Subject::Job(id), &Look::of_stdout(false)).await?)?;
            return Ok(exit::OK);
        }
        Err(failure) => return Err(too_short(&args.jid, failure)),
    };
    let why = of_supervisor(&access, &job).await;
    if args.json {
        let unkillable = why.as_ref().and_then(|why| unkillable(why, &job));
        print_json(&Shown { job: &job, unkillable })?;
        return Ok(exit::OK);
    }
    print(&page_of(&access, job, why, &Look::of_stdout(false)).await?)?;
    Ok(exit::OK)
}

/// Whether the supervisor runs a job, or has decided about it.
async fn is_known_here(access: &Access, id: &JobId) -> bool {
    access.why(id).await.is_ok_and(|why| !why.pools.is_empty() || !why.decisions.is_empty())
}

/// The page of a job.
pub(crate) async fn text(access: &Access, job: JobRecord, look: &Look) -> Result<String, Failure> {
    let why = of_supervisor(access, &job).await;
    page_of(access, job, why, look).await
}

async fn page_of(
    access: &Access,
    mut job: JobRecord,
    why: Option<Why>,
    look: &Look,
) -> Result<String, Failure> {
    let unkillable = why.as_ref().and_then(|why| unkillable(why, &job));
    let unkillable = unkillable.map(|what| ("unkillable", format!("for {}: {}", age(what.age), what.why)));
    let alone = why.and_then(|why| alone::row(&why, &job)).map(|what| ("alone", what));
    let of_supervisor: Vec<_> = unkillable.into_iter().chain(alone).collect();
    // After the JSON, in which programs find the bare names.
    Hosts::of(access).await.name_in(&mut job);
    let killed = killer::of(&job).unwrap_or_default();
    let instead = access.card().await?.and_then(|card| card.instead(Ability::Retry));
    Ok(page::render(&job, instead, &of_supervisor, look) + &killed)
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
    /// Duration in seconds.
    #[serde(rename = "seconds", serialize_with = "in_seconds")]
    age: Duration,
    why: String,
}

fn in_seconds<S: serde::Serializer>(age: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(age.as_secs_f64())
}

/// The supervisor's own facts about a running job.
async fn of_supervisor(access: &Access, job: &JobRecord) -> Option<Why> {
    match access {
        // Only such a job can be in a slot.
        Access::Api(..) if job.state.is_leased() => access.why(&job.id).await.ok(),
        Access::Api(..) | Access::Store(_) | Access::Spool(_) => None,
    }
}

/// The process of the job that was killed and does not die.
fn unkillable(why: &Why, job: &JobRecord) -> Option<Unkillable> {
    let (slot, _) = alone::running(why, &job.id)?;
    if !slot.has_unkillable(&job.id) {
        return None;
    }
    Some(Unkillable { age: slot.age, why: slot.why.clone().unwrap_or("why is not known".into()) })
}
