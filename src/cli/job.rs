//! `job show|list|wait|cancel`.

use std::time::{Duration, SystemTime};

use super::access::{Access, Ends, for_each};
use super::args::{JobCancel, JobList, JobShow, JobWait};
use super::failure::Failure;
use super::screen::{Look, age, escaped, print, print_json, table};
use super::{exit, page};
use crate::broker::Error;
use crate::config::Config;
use crate::model::verb::{Cancel, Each, Fate, Refusal};
use crate::model::{Filter, JobId, JobRecord, JobState, Millis};

/// One job on a page.
pub async fn show(config: &Config, args: &JobShow) -> Result<u8, Failure> {
    let job = Access::open(config).await?.job(&args.jid.as_str().into()).await?;
    match args.json {
        true => print_json(&job)?,
        false => print(&page::render(&job, &Look::of_stdout(false)))?,
    }
    Ok(exit::OK)
}

/// Jobs, newest first.
pub async fn list(config: &Config, args: JobList) -> Result<u8, Failure> {
    let filter = Filter {
        states: args.state,
        queue: args.queue.map(Into::into),
        class: args.class.map(Into::into),
        tag: args.tag,
        tracked: args.tracked,
        recurring: args.recurring,
        group: args.group,
        limit: args.limit,
        after: args.after.map(Into::into),
    };
    let jobs = Access::open(config).await?.ask(filter).await?;
    if args.json {
        jobs.iter().try_for_each(print_json)?;
    } else if !jobs.is_empty() {
        print(&list_text(&jobs, now(), &Look::of_stdout(false)))?;
    }
    Ok(exit::OK)
}

/// The table of them.
pub fn list_text(jobs: &[JobRecord], now: Millis, look: &Look) -> String {
    let rows: Vec<Vec<String>> = jobs.iter().map(|job| row(job, now)).collect();
    table(look, &["ID", "STATE", "QUEUE", "CLASS", "TRY", "AGE", "RAN", "WHY"], &rows)
}

fn row(job: &JobRecord, now: Millis) -> Vec<String> {
    let ran = job.started_at.map(|start| age(between(start, job.ended_at.unwrap_or(now))));
    let why = job.failure.as_ref().map(|failure| match failure.message.is_empty() {
        true => failure.group.clone(),
        false => failure.message.clone(),
    });
    vec![
        escaped(job.id.as_str()).into_owned(),
        job.state.to_string(),
        escaped(job.queue.as_str()).into_owned(),
        escaped(job.class.as_str()).into_owned(),
        job.attempt.to_string(),
        age(between(job.put_at, now)),
        ran.unwrap_or_else(|| "-".into()),
        escaped(&why.unwrap_or_default()).into_owned(),
    ]
}

/// The wall clock, as the broker's clock: both are of this host.
pub fn now() -> Millis {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// From one moment to a later one; nothing if a clock was set back.
pub fn between(from: Millis, to: Millis) -> Duration {
    Duration::from_millis(u64::try_from(to.0.saturating_sub(from.0)).unwrap_or(0))
}

/// Waits for the end of all.
pub async fn wait(config: &Config, args: &JobWait) -> Result<u8, Failure> {
    let all = async {
        let mut complete = true;
        let mut ends = Ends::open(config, &args.jids).await?;
        let code = for_each(ids(&args.jids), async |id| {
            let state = ends.next().await?;
            complete &= state == JobState::Complete;
            Ok(tell(&id, state, args.json)?)
        })
        .await?;
        Ok(if code == exit::OK && !complete { exit::FAILED } else { code })
    };
    match args.timeout {
        None => all.await,
        Some(timeout) => match tokio::time::timeout(timeout, all).await {
            Ok(code) => code,
            Err(_) => {
                Err(Failure::new(exit::TIMED_OUT, format!("not all jobs have ended within {}", age(timeout))))
            }
        },
    }
}

/// Ends jobs.
pub async fn cancel(config: &Config, args: &JobCancel) -> Result<u8, Failure> {
    let access = Access::open(config).await?;
    let jobs = ids(&args.jobs.jids).collect();
    let each = access.ask(Cancel { jobs, dependents: args.dependents }).await?;
    for_each(each, async |Each { job, fate }| {
        let state = match fate {
            Fate::State(state) if args.wait && !state.has_ended() => access.ended(&job).await?,
            Fate::State(state) => state,
            Fate::Refused(why) => return Err(not_canceled(job, why)),
        };
        Ok(tell(&job, state, args.jobs.json)?)
    })
    .await
}

fn not_canceled(job: JobId, why: Refusal) -> Failure {
    let is_needed = matches!(why, Refusal::NeededBy { .. });
    let hint = format!("taskvisor job cancel --dependents {job} ends them too");
    let failure = Failure::from(Error::refused(job, why, "canceled"));
    if is_needed { failure.hint(hint) } else { failure }
}

/// The ids that were typed.
pub fn ids(typed: &[String]) -> impl Iterator<Item = JobId> {
    typed.iter().map(|id| id.as_str().into())
}

pub fn tell(id: &JobId, state: JobState, json: bool) -> std::io::Result<()> {
    match json {
        true => print_json(&serde_json::json!({ "id": id, "state": state })),
        false => print(&format!("{} {state}\n", escaped(id.as_str()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::page::tests::{failed_job, look};

    #[test]
    fn a_list_is_a_table() {
        let failed = failed_job();
        let mut waiting = failed_job();
        waiting.id = "0199aa00000070008000000000000002".into();
        waiting.state = JobState::Waiting;
        waiting.attempt = 0;
        (waiting.started_at, waiting.ended_at, waiting.failure) = (None, None, None);
        let text = list_text(&[waiting, failed], Millis(1_790_000_060_000), &look(100));
        insta::assert_snapshot!("job_list", text);
    }
}
