//! A job of RQ as people are shown it.

use std::collections::BTreeMap;
use std::io::Read;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use redis::Value;
use serde::Deserialize;
use serde_json::json;

use super::job::{Taken, fence, text};
use crate::kale::pickle::{self, Limits};
use crate::model::{Bytes, Failure, Fence, Instance, JobId, JobRecord, JobState, Millis, Payload, QueueName};

/// The most that is inflated to be shown.
const MOST: u64 = 1 << 20;

/// Who holds a job.
#[derive(Deserialize)]
struct Holder {
    instance: String,
}

/// What RQ's status is here.
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

/// Names and values, one behind the other.
fn pairs(value: Value) -> BTreeMap<String, Vec<u8>> {
    let Value::Array(parts) = value else { return BTreeMap::new() };
    let mut parts = parts.into_iter();
    let mut all = BTreeMap::new();
    while let (Some(name), Some(Value::BulkString(bytes))) = (parts.next(), parts.next()) {
        all.extend(text(&name).map(|name| (name, bytes)));
    }
    all
}

/// One as the script gives it: id, fields, latest result, holder, execution, time at which it is due.
pub(super) fn record(value: Value, is_whole: bool) -> Option<JobRecord> {
    let Value::Array(parts) = value else { return None };
    let [id, fields, latest, holder, execution, due] = <[Value; 6]>::try_from(parts).ok()?;
    let (fields, latest) = (pairs(fields), pairs(latest));
    let of = |name: &str| fields.get(name).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let of = |name: &str| of(name).filter(|text| !text.is_empty());
    let time = |name: &str| of(name)?.parse::<Millis>().ok();
    let count = |name: &str| of(name).and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
    let state = state(&of("status").unwrap_or_default());
    let holder: Option<Holder> = serde_json::from_str(&text(&holder)?).ok();
    let worker = of("worker_name").filter(|_| state == JobState::Running && holder.is_none());
    let due = text(&due).and_then(|due| due.parse::<f64>().ok()).map(|due| Millis((due * 1000.0) as i64));
    let description = of("description");
    let (put_at, due_at) = (time("created_at").or_else(|| time("enqueued_at")).unwrap_or(Millis(0)), due);
    let (started_at, ended_at) = (time("started_at"), time("ended_at").filter(|_| state.has_ended()));
    let (attempt, interrupted) = (count("number_of_retries"), count("taskvisor_interrupted"));
    let failure = latest.get("exc_string").and_then(|packed| inflated(packed)).map(|said| failure(&said));
    let result = latest.get("return_value").and_then(|packed| shown(packed));
    let queue: QueueName = of("origin").unwrap_or_default().into();
    let taken = Taken { queue: queue.clone(), id: text(&id)?.into(), fields };
    Some(JobRecord {
        class: taken.class(),
        payload: is_whole.then(|| payload(&taken, description.as_deref())),
        title: description.map(|text| text.chars().take(80).collect()),
        time_limit: taken.timeout().map(Duration::from_secs),
        id: taken.id,
        queue,
        state,
        priority: 0,
        tags: Vec::new(),
        tracked: false,
        needs: Vec::new(),
        needed_by: Vec::new(),
        attempt: attempt + u32::from(started_at.is_some()),
        retry: None,
        crashes: 0,
        interrupted,
        unknown: 0,
        put_at,
        put_by: None,
        recurring: None,
        due_at,
        started_at,
        ended_at,
        instance: holder.map(|holder| Instance::from(holder.instance)),
        holder: worker,
        worker: None,
        fence: text(&execution).and_then(|execution| fence(&execution)).unwrap_or(Fence(0)),
        renewals: 0,
        renewed_at: None,
        expires_at: None,
        progress: None,
        result: result.filter(|_| state == JobState::Complete),
        failure: failure.filter(|_| state != JobState::Complete),
        forensics: None,
        history: Vec::new(),
    })
}

/// The call of the function, as far as it can be told without executing anything.
fn payload(taken: &Taken, description: Option<&str>) -> Payload {
    let data = taken.fields.get("data").map(Vec::as_slice).unwrap_or_default();
    let mut bytes = Vec::new();
    let _ = ZlibDecoder::new(data).take(MOST).read_to_end(&mut bytes);
    let bytes = if bytes.is_empty() { data } else { &bytes };
    let call = pickle::read(bytes, Limits::default()).map(|pickle| pickle.value.to_json());
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

/// A value as JSON text: RQ's pickle of it, or what its JSON serializer wrote.
fn shown(packed: &[u8]) -> Option<String> {
    let bytes = STANDARD.decode(packed).ok()?;
    let read = pickle::read(&bytes, Limits::default()).map(|pickle| pickle.value.to_json());
    Some(read.ok().or_else(|| serde_json::from_slice(&bytes).ok())?.to_string())
}

/// What an exception's text says: the last line has its class.
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
pub(super) fn ids(value: &Value) -> Vec<JobId> {
    let Value::Array(parts) = value else { return Vec::new() };
    parts.iter().filter_map(text).map(JobId::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_called_by_its_exception() {
        let group = |said: &str| failure(said).group;
        assert_eq!(group("Traceback (most recent call last):\n  x\napp.errors.Full: no room\n"), "Full");
        assert_eq!(group("ValueError\n"), "ValueError");
        assert_eq!(group("Work-horse terminated unexpectedly; waitpid returned 9 (signal 9); "), "crashed");
        assert_eq!(group("what: is this"), "what");
        assert_eq!(group("a text with blanks: x"), "failed");
        assert_eq!(failure("a\nB: c\n").trace.as_deref(), Some("a\nB: c\n"));
    }
}
