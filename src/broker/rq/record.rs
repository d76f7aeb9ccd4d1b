//! A job of RQ as it is shown to people.

use std::collections::BTreeMap;
use std::io::Read;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use redis::Value;
use serde::Deserialize;
use serde_json::json;

use super::job::{Taken, fence, pairs};
use crate::broker::redis::values::{array, parts, text};
use crate::broker::stored::{entries, from_json};
use crate::kale::pickle::{self, Limits};
use crate::model::{
    Attempt, Bytes, Entry, Failure, Fence, Forensics, Happened, Instance, JobId, JobRecord, JobState, Millis,
    Payload, QueueName, WorkerName,
};

/// Most bytes to decompress for display.
const MOST: u64 = 1 << 20;

/// The holder of a job.
#[derive(Deserialize)]
struct Holder {
    instance: String,
    /// The worker's name as JSON.
    slot: Option<String>,
}

impl Holder {
    fn worker(&self) -> Option<WorkerName> {
        serde_json::from_str(self.slot.as_deref()?).ok()
    }
}

/// The job state for a status of RQ.
pub(super) fn state(status: &str) -> JobState {
    match status {
        "started" => JobState::Running,
        "deferred" | "ready_to_enqueue" => JobState::Depends,
        "scheduled" | "rate_limited" => JobState::Delayed,
        "finished" => JobState::Complete,
        "failed" | "stopped" => JobState::Failed,
        "canceled" => JobState::Canceled,
        _ => JobState::Waiting,
    }
}

/// The same for a job that may have been canceled while it ran.
fn state_of(status: &str, is_canceled: bool) -> JobState {
    if is_canceled && status == "started" { JobState::Canceling } else { state(status) }
}

/// Reads a job as the script gives it: id, fields, latest result, holder, execution, the end of its lease, the time at
/// which it is due.
pub(super) fn record(value: Value, is_whole: bool) -> Option<JobRecord> {
    let [id, fields, latest, holder, execution, ends, due] = parts(value).ok()?;
    let (fields, latest) = (pairs(fields), pairs(latest));
    let of = |name: &str| fields.get(name).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let of = |name: &str| of(name).filter(|text| !text.is_empty());
    let time = |name: &str| of(name)?.parse::<Millis>().ok();
    let at = |value: &Value| Some(Millis((text(value)?.parse::<f64>().ok()? * 1000.0) as i64));
    let state = state_of(&of("status").unwrap_or_default(), of("taskvisor_canceled").is_some());
    let holder: Option<Holder> = serde_json::from_str(&text(&holder)?).ok();
    let other = of("worker_name").filter(|_| state.is_leased() && holder.is_none());
    let description = of("description");
    let put_at = time("created_at").or_else(|| time("enqueued_at")).unwrap_or(Millis(0));
    let (started_at, ended_at) = (time("started_at"), time("ended_at").filter(|_| state.has_ended()));
    let (history, last) = history(&of("taskvisor_history").unwrap_or_default(), state, ended_at, is_whole);
    let queue: QueueName = of("origin").unwrap_or_default().into();
    let taken = Taken { queue: queue.clone(), id: text(&id)?.into(), fields };
    let attempt = match &last {
        Some(last) if state.has_ended() => last.attempt,
        _ => taken.spent() + u32::from(state.is_leased() || state.has_ended() && started_at.is_some()),
    };
    let is_spent = !state.is_leased() && !state.has_ended();
    let retry = taken.retry(if is_spent { attempt } else { attempt.saturating_sub(1) });
    let (instance, worker, fence) = run_by(holder.as_ref(), &execution, last.as_ref());
    Some(JobRecord {
        class: taken.class(),
        payload: is_whole.then(|| payload(&taken, description.as_deref())),
        title: description.map(|text| text.chars().take(80).collect()),
        time_limit: taken.timeout().map(Duration::from_secs),
        crashes: taken.count("taskvisor_crashes"),
        interrupted: taken.count("taskvisor_interrupted"),
        id: taken.id,
        queue,
        state,
        priority: 0,
        tags: Vec::new(),
        tracked: false,
        needs: Vec::new(),
        needed_by: Vec::new(),
        attempt,
        retry,
        unknown: 0,
        put_at,
        put_by: None,
        recurring: None,
        due_at: at(&due),
        started_at,
        ended_at,
        instance,
        holder: other,
        worker,
        fence,
        renewals: 0,
        renewed_at: None,
        expires_at: at(&ends),
        progress: taken.fields.get("taskvisor_progress").and_then(|text| from_json(text).ok()),
        result: latest.get("return_value").filter(|_| state == JobState::Complete).and_then(|it| shown(it)),
        failure: why(&latest, state, last.as_ref()),
        forensics: last.and_then(|last| last.forensics),
        history,
    })
}

/// The supervisor that runs the job or ran it last, with the worker and the lease.
fn run_by(
    holder: Option<&Holder>,
    execution: &Value,
    last: Option<&Attempt>,
) -> (Option<Instance>, Option<WorkerName>, Fence) {
    match (holder, last) {
        (Some(holder), _) => {
            let fence = text(execution).and_then(|execution| fence(&execution));
            (Some(Instance::from(&*holder.instance)), holder.worker(), fence.unwrap_or(Fence(0)))
        }
        (None, Some(last)) => (last.instance.clone(), last.worker.clone(), last.fence),
        (None, None) => (None, None, Fence(0)),
    }
}

/// Why the job did not complete: from the last attempt, else from what RQ keeps of an ended job.
fn why(latest: &BTreeMap<String, Vec<u8>>, state: JobState, last: Option<&Attempt>) -> Option<Failure> {
    if state == JobState::Complete {
        return None;
    }
    let told = || latest.get("exc_string").filter(|_| state.has_ended()).and_then(|packed| inflated(packed));
    last.and_then(|last| last.failure.clone()).or_else(|| told().map(|said| failure(&said)))
}

/// A job's history, if wanted, and its last ended attempt. A worker of RQ keeps no history: the attempt that completed
/// the job is made from the job's own fields.
fn history(
    lines: &str,
    state: JobState,
    ended_at: Option<Millis>,
    is_whole: bool,
) -> (Vec<Entry>, Option<Attempt>) {
    let lines = if is_whole { lines } else { lines.lines().next_back().unwrap_or_default() };
    let mut history = entries(lines);
    let last = match history.last() {
        Some(Entry { at, what: Happened::Attempt(last) }) if ended_at.is_none_or(|end| at.0 + 1 >= end.0) => {
            let forensics = last.forensics.clone().map(|left| Forensics { at: Some(*at), ..left });
            Some(Attempt { forensics, ..(**last).clone() })
        }
        Some(_) | None => None,
    };
    let is_told = state == JobState::Complete && last.is_some();
    if is_told {
        history.pop();
    }
    (if is_whole { history } else { Vec::new() }, last)
}

/// The call of the function, as far as it can be read without executing anything.
fn payload(taken: &Taken, description: Option<&str>) -> Payload {
    let data = taken.fields.get("data").map(Vec::as_slice).unwrap_or_default();
    let mut bytes = Vec::new();
    let _ = ZlibDecoder::new(data).take(MOST).read_to_end(&mut bytes);
    let bytes = if bytes.is_empty() { data } else { &bytes };
    let call = pickle::read(bytes, Limits::default()).map(|value| value.to_json());
    let call = call.ok().or_else(|| serde_json::from_slice(bytes).ok());
    let data = match call.as_ref().and_then(serde_json::Value::as_array).map(Vec::as_slice) {
        Some([_, _, args, kwargs]) => json!({"args": args, "kwargs": kwargs}),
        _ => json!({"description": description}),
    };
    Payload::Data(Bytes(data.to_string().into_bytes()))
}

fn inflated(packed: &[u8]) -> Option<String> {
    let packed = STANDARD.decode(packed).ok()?;
    let mut bytes = Vec::new();
    ZlibDecoder::new(&*packed).take(MOST).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A value as JSON text: from RQ's pickle, or from what its JSON serializer wrote.
fn shown(packed: &[u8]) -> Option<String> {
    let bytes = STANDARD.decode(packed).ok()?;
    let read = pickle::read(&bytes, Limits::default()).map(|value| value.to_json());
    Some(read.ok().or_else(|| serde_json::from_slice(&bytes).ok())?.to_string())
}

/// Reads the text of an exception: its last line has the class.
fn failure(said: &str) -> Failure {
    let begins = |words| said.starts_with(words);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let class = last.split(':').next().unwrap_or_default().rsplit('.').next().unwrap_or_default();
    let is_name = !class.is_empty() && class.chars().all(|c| c.is_alphanumeric() || c == '_');
    let group = match said {
        _ if begins("Work-horse terminated") => "crashed",
        _ if begins("Job stopped by user") => "stopped",
        _ if begins("Moved to FailedJobRegistry") => "abandoned",
        _ if is_name => class,
        _ => "failed",
    };
    let trace = (last.len() < said.trim_end().len()).then(|| said.to_owned());
    Failure { group: group.into(), message: last.into(), trace }.cut()
}

/// The ids in an answer.
pub(super) fn ids(value: Value) -> Vec<JobId> {
    array(value).unwrap_or_default().iter().filter_map(text).map(JobId::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_group_is_the_exception_name() {
        let group = |said: &str| failure(said).group;
        assert_eq!(group("Traceback (most recent call last):\n  x\napp.errors.Full: no room\n"), "Full");
        assert_eq!(group("ValueError\n"), "ValueError");
        assert_eq!(group("Work-horse terminated unexpectedly; waitpid returned 9 (signal 9); "), "crashed");
        assert_eq!(group("what: is this"), "what");
        assert_eq!(group("a text with blanks: x"), "failed");
        assert_eq!(failure("a\nB: c\n").trace.as_deref(), Some("a\nB: c\n"));
    }
}
