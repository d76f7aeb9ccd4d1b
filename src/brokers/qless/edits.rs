//! Changes that people make to a job.

use redis::Value;

use super::ask::{LOOKS, asked, asked_to};
use super::reply::{parts, text};
use super::shared::Shared;
use broker::Error;
use model::verb::{DependOff, DependOn, Discard, Done, Prioritize, SetData, State, Tag, Tags};
use model::{JobId, JobState, tags_fault};

pub(super) async fn prioritize(redis: &Shared, it: &Prioritize, by: &str) -> Result<Done, Error> {
    let done = asked_to(redis, "given another priority", "taskvisor.prioritize", |cmd| {
        cmd.arg(it.job.as_str()).arg(by).arg(it.priority);
    });
    done.await.map(|_| Done {})
}

/// Changes the tags of a job, and gives all tags that it has then.
pub(super) async fn tag(redis: &Shared, it: &Tag, by: &str) -> Result<Tags, Error> {
    for _ in 0..LOOKS {
        let kept = asked(redis, "taskvisor.tags", |cmd| {
            cmd.arg(it.job.as_str());
        });
        let [kept] = parts(kept.await?)?;
        let kept = text(&kept).unwrap_or_default();
        let before: Vec<String> = serde_json::from_str(&kept).unwrap_or_default();
        let tags = it.applied(&before);
        if let Some(fault) = tags_fault(&tags) {
            return Err(Error::Refused(fault));
        }
        // Nothing changes, so the history gets no entry.
        if tags == before {
            return Ok(Tags { tags });
        }
        let what = if tags.is_empty() { "no tags".into() } else { format!("tags {}", tags.join(" ")) };
        let written = asked(redis, "taskvisor.tag", |cmd| {
            // The script writes only if the tags are still these.
            cmd.arg(it.job.as_str()).arg(by).arg(&kept);
            cmd.arg(serde_json::to_string(&tags).unwrap_or_default()).arg(what);
        });
        if written.await? == Value::Int(1) {
            return Ok(Tags { tags });
        }
    }
    Err(Error::Failed(format!("the tags of job '{}' keep changing: try again", it.job)))
}

/// Changes the data of a job, with which its next attempt begins. Only the holder of its lease may do this.
pub(super) async fn set_data(redis: &Shared, it: &SetData) -> Result<Done, Error> {
    let answer = asked_to(redis, "given other data", "taskvisor.set_data", |cmd| {
        cmd.arg(it.job.as_str()).arg(it.fence.0).arg(&it.data.0);
    });
    let refused = |why: &str| Err(Error::Refused(format!("job '{}' {why}", it.job)));
    match text(&answer.await?).as_deref() {
        Some("lost") => refused("is run by somebody else: its data is theirs to change"),
        Some("program") => refused("is a program, which has no data to change"),
        _ => Ok(Done {}),
    }
}

/// Tracks a job, or stops tracking it.
pub(super) async fn track(redis: &Shared, job: &JobId, follows: bool) -> Result<Done, Error> {
    let command = if follows { "taskvisor.track" } else { "taskvisor.untrack" };
    let done = asked(redis, command, |cmd| {
        cmd.arg(job.as_str());
    });
    done.await.map(|_| Done {})
}

pub(super) async fn discard(redis: &Shared, it: &Discard) -> Result<Done, Error> {
    let gone = asked_to(redis, "discarded", "taskvisor.discard", |cmd| {
        cmd.arg(it.job.as_str());
    });
    gone.await.map(|_| Done {})
}

pub(super) async fn depend_on(redis: &Shared, it: &DependOn, by: &str) -> Result<State, Error> {
    let answer = asked_to(redis, "made to depend on others", "taskvisor.depend_on", |cmd| {
        cmd.arg(it.job.as_str()).arg(by).arg(it.jobs.len());
        for job in &it.jobs {
            cmd.arg(job.as_str());
        }
    });
    Ok(State { state: state_of(&answer.await?) })
}

pub(super) async fn depend_off(redis: &Shared, it: &DependOff, by: &str) -> Result<State, Error> {
    let jobs = it.jobs.as_deref().unwrap_or_default();
    let answer = asked_to(redis, "let off: it depends on nothing", "taskvisor.depend_off", |cmd| {
        let which = if it.jobs.is_none() { "all" } else { "these" };
        cmd.arg(it.job.as_str()).arg(by).arg(which).arg(jobs.len());
        for job in jobs {
            cmd.arg(job.as_str());
        }
    });
    Ok(State { state: state_of(&answer.await?) })
}

/// The job state for a word of the script.
pub(super) fn state_of(value: &Value) -> JobState {
    text(value).and_then(|word| word.parse().ok()).unwrap_or(JobState::Waiting)
}
