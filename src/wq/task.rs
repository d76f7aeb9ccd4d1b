//! A task as it is shown to people: the status of its job in the words of QuantumLeap, and its errors.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use model::{Failure, Happened, JobRecord, JobState, Payload};

/// Where a task is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// It waits, runs, or waits for a retry.
    Pending,
    /// It is complete.
    Succeeded,
    /// Out of tries, failed for good, or held for a person.
    Failed,
    /// None of these: somebody has canceled it.
    Unknown,
}

/// A status by which clients find tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AskedStatus {
    /// They wait, run, or wait for a retry.
    Pending,
    /// They are complete.
    Succeeded,
    /// They are out of tries, failed for good, or held for a person.
    Failed,
}

impl AskedStatus {
    /// Whether a job in this state has this status.
    pub fn includes(self, state: JobState) -> bool {
        let status = match self {
            AskedStatus::Pending => TaskStatus::Pending,
            AskedStatus::Succeeded => TaskStatus::Succeeded,
            AskedStatus::Failed => TaskStatus::Failed,
        };
        TaskStatus::of(state) == status
    }

    /// The job states with this status.
    pub fn states(self) -> Vec<JobState> {
        JobState::ALL.into_iter().filter(|state| self.includes(*state)).collect()
    }
}

impl TaskStatus {
    /// The status of a job.
    pub fn of(state: JobState) -> TaskStatus {
        match state {
            JobState::Waiting
            | JobState::Delayed
            | JobState::Depends
            | JobState::Running
            | JobState::Canceling => TaskStatus::Pending,
            JobState::Complete => TaskStatus::Succeeded,
            JobState::Failed | JobState::Held => TaskStatus::Failed,
            JobState::Canceled => TaskStatus::Unknown,
        }
    }
}

/// What has become of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskRuntime {
    /// The id of its job.
    pub task_id: String,
    /// The class of its job.
    pub task_type: String,
    /// Where it is in its life.
    pub status: TaskStatus,
    /// Tries that are left after a failure; null if it has no retries at all.
    pub retries_left: Option<u32>,
    /// Why its attempts failed, the first one first: of the latest 100.
    pub errors: Vec<String>,
}

/// A task, whole.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    /// What has become of it.
    pub runtime: TaskRuntime,
    /// The data of its job, a [`TaskInput`](super::TaskInput); null if that is no JSON.
    #[schemars(with = "Option<super::TaskInput>")]
    pub input: Option<Box<RawValue>>,
}

impl TaskRuntime {
    /// From a job; the errors are complete only if the job comes with its history.
    pub fn of(job: &JobRecord) -> TaskRuntime {
        TaskRuntime {
            task_id: job.id.to_string(),
            task_type: job.class.to_string(),
            status: TaskStatus::of(job.state),
            retries_left: retries_left(job),
            errors: errors(job),
        }
    }

    /// Whether a job without its history may have more errors than it shows.
    pub fn needs_history(job: &JobRecord) -> bool {
        job.attempt > 1 || job.failure.is_some()
    }
}

impl Task {
    /// From a job with its data and its history.
    pub fn of(job: &JobRecord) -> Task {
        let input = match &job.payload {
            Some(Payload::Data(data)) => input(&data.0),
            Some(Payload::Exec(_)) | None => None,
        };
        Task { runtime: TaskRuntime::of(job), input }
    }
}

/// The input of a task. For a job of RQ, which is a call, its only argument.
fn input(data: &[u8]) -> Option<Box<RawValue>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Call {
        args: [Box<RawValue>; 1],
        kwargs: HashMap<String, IgnoredAny>,
    }
    match serde_json::from_slice(data) {
        Ok(Call { args: [input], kwargs }) if kwargs.is_empty() => Some(input),
        // A call with several arguments, or with names for them, is shown whole.
        Ok(_) | Err(_) => serde_json::from_slice(data).ok(),
    }
}

fn retries_left(job: &JobRecord) -> Option<u32> {
    let retries = job.retry.map(|retry| retry.retries).filter(|retries| *retries > 0)?;
    let is_spent = match job.state {
        // The attempt that runs, or has completed, is no failure.
        JobState::Running | JobState::Canceling | JobState::Complete => job.attempt.saturating_sub(1),
        JobState::Waiting
        | JobState::Delayed
        | JobState::Depends
        | JobState::Failed
        | JobState::Held
        | JobState::Canceled => job.attempt,
    };
    Some(retries.saturating_sub(is_spent))
}

fn errors(job: &JobRecord) -> Vec<String> {
    let of_attempt = |what: &Happened| match what {
        Happened::Attempt(attempt) => attempt.failure.as_ref().map(told),
        Happened::Canceled { .. }
        | Happened::Retried { .. }
        | Happened::Edited { .. }
        | Happened::Advanced { .. }
        | Happened::Noted { .. } => None,
    };
    let errors: Vec<String> = job.history.iter().filter_map(|entry| of_attempt(&entry.what)).collect();
    // Without its history a job still shows its latest failure.
    if errors.is_empty() { job.failure.iter().map(told).collect() } else { errors }
}

/// A failure in one line, as QuantumLeap shows it: an exception as Python's `repr` writes one whose only argument is its
/// text. What is no exception, as `exit 1`, stands as it is.
fn told(failure: &Failure) -> String {
    let Failure { group, message, .. } = failure;
    if !is_name(group) {
        return match message.starts_with(group.as_str()) {
            true => message.clone(),
            false if message.is_empty() => group.clone(),
            false => format!("{group}: {message}"),
        };
    }
    // Workers in Python write the name of the exception in front of its text, where `repr` has none.
    let text =
        message.strip_prefix(group.as_str()).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(message);
    let has_text = !text.is_empty() && text != group;
    format!("{group}({})", if has_text { quoted(text) } else { String::new() })
}

/// Whether this is the name of a class, perhaps with its modules, and not words about a program's end.
fn is_name(group: &str) -> bool {
    let is_part = |part: &str| {
        part.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    // Groups of our own, as `exit 1` and `lost`, have no capital; the names of exceptions have one.
    group.split('.').all(is_part) && group.contains(char::is_uppercase)
}

/// A text as Python writes it.
fn quoted(text: &str) -> String {
    // As Python chooses: double quotes only where they save an escape.
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let escape = |c: char| match c {
        '\\' => "\\\\".to_owned(),
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        c if c == quote => format!("\\{c}"),
        c if c.is_control() && (c as u32) < 0x100 => format!("\\x{:02x}", c as u32),
        c => c.to_string(),
    };
    format!("{quote}{}{quote}", text.chars().map(escape).collect::<String>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use model::Retry;

    fn job(state: &str, attempt: u32, retries: u32) -> JobRecord {
        let job = json!({
            "id": "t", "queue": "q", "class": "Insert", "state": state, "priority": 0, "tags": [], "attempt": attempt,
            "crashes": 0, "interruptions": 0, "put_at_ms": 1, "fence": 0,
        });
        let retry = Some(Retry { retries, ..Retry::CLASS });
        JobRecord { retry, ..serde_json::from_value(job).unwrap() }
    }

    #[test]
    fn every_state_has_one_status_and_pending_means_not_ended() {
        let all = [AskedStatus::Pending, AskedStatus::Succeeded, AskedStatus::Failed];
        for state in JobState::ALL {
            let asked = all.into_iter().filter(|status| status.states().contains(&state)).count();
            assert_eq!(asked, usize::from(state != JobState::Canceled), "{state}");
            assert_eq!(TaskStatus::of(state) == TaskStatus::Pending, !state.has_ended(), "{state}");
        }
    }

    #[test]
    fn retries_left_counts_down_with_attempts() {
        let left = |state, attempt, retries| TaskRuntime::of(&job(state, attempt, retries)).retries_left;
        assert_eq!(left("waiting", 0, 2), Some(2));
        assert_eq!(left("running", 1, 2), Some(2));
        assert_eq!(left("delayed", 1, 2), Some(1));
        assert_eq!(left("running", 2, 2), Some(1));
        assert_eq!(left("failed", 3, 2), Some(0));
        assert_eq!(left("complete", 1, 2), Some(2));
        assert_eq!(left("waiting", 0, 0), None);
    }

    #[test]
    fn input_is_the_data_or_the_single_argument_of_a_call() {
        let read = |data: &str| input(data.as_bytes()).map(|input| input.get().to_owned());
        assert_eq!(read(r#"{"args": [{"a": 1.50}], "kwargs": {}}"#).as_deref(), Some(r#"{"a": 1.50}"#));
        for whole in
            [r#"{"args":[1,2],"kwargs":{}}"#, r#"{"args":[1],"kwargs":{"b":1}}"#, r#"{"payload":[]}"#]
        {
            assert_eq!(read(whole).as_deref(), Some(whole));
        }
        assert_eq!(read("no"), None);
    }

    #[test]
    fn errors_include_those_of_all_attempts() {
        let failure = |group: &str, message: &str| Failure {
            group: group.into(),
            message: message.into(),
            trace: None,
        };
        let entry = |n: u32, what: Failure| json!({ "at_ms": n, "kind": "attempt", "attempt": { "attempt": n, "fence": n, "state": "delayed", "failure": what } });
        let mut record = job("failed", 2, 1);
        record.failure = Some(failure("ValueError", "no"));
        assert_eq!(TaskRuntime::of(&record).errors, ["ValueError('no')"]);
        let history = json!([entry(1, failure("OSError", "")), entry(2, failure("exit 1", "exit 1"))]);
        let mut whole = serde_json::to_value(&record).unwrap();
        whole["history"] = history;
        let record: JobRecord = serde_json::from_value(whole).unwrap();
        assert_eq!(TaskRuntime::of(&record).errors, ["OSError()", "exit 1"]);
    }

    #[test]
    fn errors_are_written_as_repr_writes_exceptions() {
        for (group, message, expected) in [
            ("ValueError", "ValueError: it's no", r#"ValueError("it's no")"#),
            ("app.Odd", "'a' and \"b\"\n", r#"app.Odd('\'a\' and "b"\n')"#),
            ("Odd", "Odd", "Odd()"),
            ("Odd", "a\\b\u{1}é", r"Odd('a\\b\x01é')"),
            ("exit 1", "exit 1", "exit 1"),
            ("signal 9", "killed", "signal 9: killed"),
            ("lost", "", "lost"),
        ] {
            let failure = Failure { group: group.into(), message: message.into(), trace: None };
            assert_eq!(told(&failure), expected);
        }
    }
}
