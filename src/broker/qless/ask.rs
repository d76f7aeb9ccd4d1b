//! How people's requests are put to the script, and how it refuses them.

use redis::{Cmd, Value};

use super::reply;
use super::shared::Shared;
use crate::broker::{Error, circle, stored};
use crate::model::{Entry, Happened, JobId, JobState, Millis};

/// So often it is looked again when jobs change between the look and the act.
pub(super) const LOOKS: usize = 10;

/// Asks the script. What refuses a state of a job is said by the one that asks.
pub(super) async fn asked(
    redis: &Shared,
    command: &str,
    args: impl FnOnce(&mut Cmd),
) -> Result<Value, Error> {
    asked_to(redis, "asked that", command, args).await
}

/// Asks for something that is called `verb`, a participle, when it is refused.
pub(super) async fn asked_to(
    redis: &Shared,
    verb: &'static str,
    command: &str,
    args: impl FnOnce(&mut Cmd),
) -> Result<Value, Error> {
    let answer = redis.call("ask", command, |cmd, _| args(cmd)).await?;
    reply::unless_refused(answer, |words| refused(verb, words))
}

pub(super) fn refused(verb: &'static str, words: &[String]) -> Option<Error> {
    let (kind, words) = words.split_first()?;
    match (kind.as_str(), words) {
        ("state", [id, state, ..]) => Some(Error::WrongState {
            id: id.as_str().into(),
            state: state.parse().unwrap_or(JobState::Waiting),
            verb,
        }),
        ("needed", [id, by @ ..]) => {
            let by = by.iter().map(|id| id.as_str().into()).collect();
            Some(Error::Needed { id: id.as_str().into(), by, verb })
        }
        ("circle", names) => {
            let names: Vec<JobId> = names.iter().map(|name| name.as_str().into()).collect();
            Some(circle::refusal(&names))
        }
        ("refused", [why]) => Some(Error::Refused(why.clone())),
        ("recurs", [queue, names]) => {
            let why = format!("recurring jobs are put into it: {names}");
            Some(Error::InUse(queue.as_str().into(), why))
        }
        _ => None,
    }
}

/// A line for the history of what a person does.
pub(super) fn line(entry: Happened, at: Millis) -> String {
    stored::to_json(&Entry { at, what: entry }).unwrap_or_default()
}

/// That somebody has put a job back, as the script completes it.
pub(super) fn retried(at: Millis, by: &str) -> String {
    let line = line(Happened::Retried { by: by.into(), from: JobState::Complete }, at);
    line.replace("\"complete\"}", "\"FROM\"}")
}
