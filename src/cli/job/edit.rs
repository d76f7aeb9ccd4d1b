//! The commands `job depends|priority|tag|track|untrack`.

use serde_json::{Value, json};

use super::state_line::print_state;
use crate::cli::access::named::all_named;
use crate::cli::access::{Access, for_each};
use crate::cli::args::{JobDepends, JobPriority, JobTag, Jobs, OnOff, TagHow};
use crate::cli::term::screen::{escaped, print, print_json};
use config::Config;
use failure::{Failure, exit};
use model::JobId;
use model::verb::{DependOff, DependOn, Prioritize, Tag, Track, Untrack, VerbRequest};

/// Makes a job wait for others, or not any more.
pub(super) async fn depends(config: &Config, args: JobDepends) -> Result<u8, Failure> {
    let JobDepends { jid, how, others, all, json } = args;
    let access = Access::open(config).await?;
    let (job, jobs) = (access.named(&jid).await?, all_named(&access, &others).await?);
    let answer = match (how, all) {
        (OnOff::On, false) => access.ask(DependOn { job: job.clone(), jobs }).await?,
        (OnOff::Off, false) => access.ask(DependOff { job: job.clone(), jobs: Some(jobs) }).await?,
        (OnOff::Off, true) => access.ask(DependOff { job: job.clone(), jobs: None }).await?,
        (OnOff::On, true) => {
            return Err(Failure::new(exit::USAGE, "--all is for off: a job cannot depend on all others"));
        }
    };
    print_state(&job, answer.state, json)?;
    Ok(exit::OK)
}

/// Gives jobs another priority.
pub(super) async fn priority(config: &Config, args: &JobPriority) -> Result<u8, Failure> {
    let JobPriority { jids, priority, json } = args;
    let ask = |job| Prioritize { job, priority: *priority };
    act(config, jids, *json, ask, &format!("priority {priority}"), ("priority", json!(priority))).await
}

/// Changes the tags of a job, and prints all its tags.
pub(super) async fn tag(config: &Config, args: JobTag) -> Result<u8, Failure> {
    let JobTag { jid, how, tags, json } = args;
    let access = Access::open(config).await?;
    let job = access.named(&jid).await?;
    let asked = match how {
        TagHow::Add => Tag { job: job.clone(), add: tags, remove: Vec::new() },
        TagHow::Remove => Tag { job: job.clone(), add: Vec::new(), remove: tags },
    };
    let tags = access.ask(asked).await?.tags;
    match json {
        true => print_json(&json!({ "id": job, "tags": tags }))?,
        false => print(&format!("{}\n", escaped([vec![job.to_string()], tags].concat().join(" ").as_str())))?,
    }
    Ok(exit::OK)
}

/// Marks jobs as tracked.
pub(super) async fn track(config: &Config, args: &Jobs) -> Result<u8, Failure> {
    act(config, &args.jids, args.json, |job| Track { job }, "tracked", ("tracked", json!(true))).await
}

/// Stops tracking jobs.
pub(super) async fn untrack(config: &Config, args: &Jobs) -> Result<u8, Failure> {
    act(config, &args.jids, args.json, |job| Untrack { job }, "not tracked", ("tracked", json!(false))).await
}

/// Sends the same request for each job, and prints its state.
pub(super) async fn act<V: VerbRequest>(
    config: &Config,
    jids: &[String],
    as_json: bool,
    ask: impl Fn(JobId) -> V,
    words: &str,
    (field, value): (&str, Value),
) -> Result<u8, Failure> {
    let access = Access::open(config).await?;
    for_each(all_named(&access, jids).await?, async |id| {
        access.ask(ask(id.clone())).await?;
        match as_json {
            true => print_json(&json!({ "id": id, field: value }))?,
            false => print(&format!("{} {words}\n", escaped(id.as_str())))?,
        }
        Ok(())
    })
    .await
}
