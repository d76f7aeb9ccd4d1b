//! Sends requests of people to the script, and reads its refusals.

use redis::{Cmd, Value};

use super::reply;
use super::shared::Shared;
use broker::Error;
use common::{circle, stored};
use model::{Entry, Happened, JobId, JobState, Millis};

/// How often to look again when jobs change between the look and the change.
pub(super) const LOOKS: usize = 10;

/// Sends a request to the script. The caller reads refusals that name a job's state.
pub(super) async fn asked(
    redis: &Shared,
    command: &str,
    args: impl FnOnce(&mut Cmd) + Send,
) -> Result<Value, Error> {
    asked_to(redis, "asked that", command, args).await
}

/// Sends a request; `verb` is a participle, for the text of a refusal.
pub(super) async fn asked_to(
    redis: &Shared,
    verb: &'static str,
    command: &str,
    args: impl FnOnce(&mut Cmd) + Send,
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

/// A line for a job's history about a person's request.
pub(super) fn line(entry: Happened, at: Millis) -> String {
    stored::to_json(&Entry { at, what: entry }).unwrap_or_default()
}

/// The line that a person has put a job back to waiting; the script completes it.
pub(super) fn retried(at: Millis, by: &str) -> String {
    // Which state the job had is known only when the script looks, so any state stands in for it.
    let line = line(Happened::Retried { by: by.into(), from: JobState::Complete }, at);
    line.replace("\"complete\"}", "\"FROM\"}")
}
