//! A job of RQ as it is shown to people.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::job::{Fields, Taken, fence, inflated};
use common::stored::{entries, from_json};
use kale::pickle::{self, Limits};
use model::{
    Attempt, Bytes, Entry, Failure, Fence, Forensics, Happened, Instance, JobRecord, JobState, Millis,
    Payload, QueueName, WorkerName,
};
use redis_link::values::Text;

/// Limit of the bytes decompressed for display.
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

/// A job as the script gives it: id, state, fields, latest result, holder, execution, the end of its lease, the time at
/// which it is due.
pub(super) type Row = (Text, Text, Fields, Fields, Text, Text, Text, Text);

/// The state of that name; a job of a status that nobody knows counts as waiting.
pub(super) fn state(name: &Text) -> JobState {
    name.0.parse().unwrap_or(JobState::Waiting)
}

/// Makes the record of a job, its payload and history included if it is to be whole.
pub(super) fn record(row: Row, is_whole: bool) -> JobRecord {
    let (Text(id), name, fields, latest, Text(holder), Text(execution), ends, due) = row;
    let of = |name: &str| fields.get(name).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let of = |name: &str| of(name).filter(|text| !text.is_empty());
    let time = |name: &str| of(name)?.parse::<Millis>().ok();
    let at = |Text(seconds): &Text| Some(Millis((seconds.parse::<f64>().ok()? * 1000.0) as i64));
    let state = state(&name);
    let holder: Option<Holder> = serde_json::from_str(&holder).ok();
    // Without an entry of ours a worker of RQ itself runs it.
    let other = of("worker_name").filter(|_| state.is_leased() && holder.is_none());
    let description = of("description");
    let put_at = time("created_at").or_else(|| time("enqueued_at")).unwrap_or(Millis(0));
    let (started_at, ended_at) = (time("started_at"), time("ended_at").filter(|_| state.has_ended()));
    let (history, last) = history(&of("taskvisor_history").unwrap_or_default(), state, ended_at, is_whole);
    let queue: QueueName = of("origin").unwrap_or_default().into();
    let taken = Taken { queue: queue.clone(), id: id.into(), fields };
    let attempt = match &last {
        Some(last) if state.has_ended() => last.attempt,
        _ => taken.spent() + u32::from(state.is_leased() || state.has_ended() && started_at.is_some()),
    };
    let is_spent = !state.is_leased() && !state.has_ended();
    let retry = taken.retry(if is_spent { attempt } else { attempt.saturating_sub(1) });
    let (instance, worker, fence) = run_by(holder.as_ref(), &execution, last.as_ref());
    JobRecord {
        payload: is_whole.then(|| payload(&taken, description.as_deref())),
        title: description.map(|text| text.chars().take(80).collect()),
        time_limit: taken.timeout().map(Duration::from_secs),
        tags: taken.tags(),
        crashes: taken.count("taskvisor_crashes"),
        interrupted: taken.count("taskvisor_interrupted"),
        attempt,
        retry,
        put_at,
        due_at: at(&due),
        started_at,
        ended_at,
        instance,
        holder: other,
        worker,
        fence,
        expires_at: at(&ends),
        progress: taken.fields.get("taskvisor_progress").and_then(|text| from_json(text).ok()),
        result: latest.get("return_value").filter(|_| state == JobState::Complete).and_then(|it| shown(it)),
        failure: why(&latest, state, last.as_ref()),
        forensics: last.and_then(|last| last.forensics),
        history,
        ..JobRecord::new(taken.id.clone(), queue, taken.class(), state)
    }
}

/// The supervisor that runs the job or ran it last, with the worker and the lease.
fn run_by(
    holder: Option<&Holder>,
    execution: &str,
    last: Option<&Attempt>,
) -> (Option<Instance>, Option<WorkerName>, Fence) {
    match (holder, last) {
        (Some(holder), _) => {
            let fence = fence(execution).unwrap_or(Fence(0));
            (Some(Instance::from(&*holder.instance)), holder.worker(), fence)
        }
        (None, Some(last)) => (last.instance.clone(), last.worker.clone(), last.fence),
        (None, None) => (None, None, Fence(0)),
    }
}

/// Why the job did not complete: from the last attempt, else from what RQ keeps of an ended job.
fn why(latest: &Fields, state: JobState, last: Option<&Attempt>) -> Option<Failure> {
    if state == JobState::Complete {
        return None;
    }
    let told = || latest.get("exc_string").filter(|_| state.has_ended()).and_then(|packed| unpacked(packed));
    // RQ's type of result for a `Retry` that was returned more often than it allows.
    let is_used_up = state == JobState::Failed && latest.get("type").is_some_and(|kind| kind == b"5");
    last.and_then(|last| last.failure.clone())
        .or_else(|| told().map(|said| failure(&said)))
        .or_else(|| is_used_up.then(|| failure("Retry: it was returned once more than it allows")))
}

/// A job's history, if wanted, and its last ended attempt. A worker of RQ keeps no history: the attempt that completed
/// the job is made from the job's own fields.
fn history(
    lines: &str,
    state: JobState,
    ended_at: Option<Millis>,
    is_whole: bool,
) -> (Vec<Entry>, Option<Attempt>) {
    // An edit of an ended job says nothing of its end.
    let is_edit = |line: &&str| line.contains(r#","edited":{"#);
    let latest = || lines.lines().rev().find(|line| !is_edit(line)).unwrap_or_default();
    let mut history = entries(if is_whole { lines } else { latest() });
    let end = history.iter().rposition(|entry| !matches!(entry.what, Happened::Edited { .. }));
    let last = match end.map(|end| &history[end]) {
        Some(Entry { at, what: Happened::Attempt(last) }) if ended_at.is_none_or(|end| at.0 + 1 >= end.0) => {
            let forensics = last.forensics.clone().map(|left| Forensics { at: Some(*at), ..left });
            Some(Attempt { forensics, ..(**last).clone() })
        }
        Some(_) | None => None,
    };
    if let Some(end) = end.filter(|_| state == JobState::Complete && last.is_some()) {
        history.remove(end);
    }
    (if is_whole { history } else { Vec::new() }, last)
}

/// The call of the function, as far as it can be read without executing anything.
fn payload(taken: &Taken, description: Option<&str>) -> Payload {
    let data = taken.fields.get("data").map(Vec::as_slice).unwrap_or_default();
    let call = value(&inflated(data, MOST));
    let data = match call.as_ref().and_then(Json::as_array).map(Vec::as_slice) {
        Some([_, _, args, kwargs]) => json!({"args": args, "kwargs": kwargs}),
        _ => json!({"description": description}),
    };
    Payload::Data(Bytes(data.to_string().into_bytes()))
}

fn unpacked(packed: &[u8]) -> Option<String> {
    let packed = STANDARD.decode(packed).ok()?;
    Some(String::from_utf8_lossy(&inflated(&packed, MOST)).into_owned())
}

/// A result as JSON text.
fn shown(packed: &[u8]) -> Option<String> {
    Some(value(&STANDARD.decode(packed).ok()?)?.to_string())
}

/// A value as RQ's pickle or its JSON serializer wrote it.
fn value(bytes: &[u8]) -> Option<Json> {
    let read = pickle::read(bytes, Limits::default()).map(|value| value.to_json());
    read.ok().or_else(|| serde_json::from_slice(bytes).ok())
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
