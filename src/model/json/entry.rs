//! A job's history in public JSON.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::new_job::present;
use crate::format::{At, JsonText, json_text};
use crate::{Attempt, Entry, Happened, JobState, Millis, QueueName};

/// Something that happened to a job and is over. Beside `kind` there are the fields of that kind.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "HistoryEntry")]
pub(crate) struct EntryJson {
    /// When it happened.
    #[serde(flatten, with = "At::<Option<Millis>>")]
    at: Option<Millis>,
    /// What happened. `attempt`: one came to an end that did not complete the job at once. `canceled`, `retried`, `edited`: a
    /// person did that. `advanced`: it was complete and went on in another queue. `noted`: what only qless has noted of it.
    kind: Kind,
    /// Of `attempt`: how it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attempt: Option<Box<Attempt>>,
    /// The person or program that ordered it, e.g. `uid 1000`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    /// Of `canceled`: why, as they said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Of `retried`: the state that it had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from_state: Option<JobState>,
    /// Of `edited` and `noted`: what, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    what: Option<String>,
    /// Of `advanced`: the queue it was in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from_queue: Option<QueueName>,
    /// Of `advanced`: the queue it went to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to_queue: Option<QueueName>,
    /// Of `advanced`: what the worker gave back, if that is no longer than 2048 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "Option<JsonText>")]
    result: Option<Box<RawValue>>,
    /// Of `advanced`: how long that was, if it was longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result_bytes: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Attempt,
    Canceled,
    Retried,
    Edited,
    Advanced,
    #[default]
    Noted,
}

impl From<Entry> for EntryJson {
    fn from(Entry { at, what }: Entry) -> EntryJson {
        let of = |kind| EntryJson { at: Some(at), kind, ..EntryJson::default() };
        match what {
            Happened::Attempt(attempt) => EntryJson { attempt: Some(attempt), ..of(Kind::Attempt) },
            Happened::Canceled { by, reason } => EntryJson { by: Some(by), reason, ..of(Kind::Canceled) },
            Happened::Retried { by, from } => {
                EntryJson { by: Some(by), from_state: Some(from), ..of(Kind::Retried) }
            }
            Happened::Edited { by, what } => EntryJson { by: Some(by), what: Some(what), ..of(Kind::Edited) },
            Happened::Advanced { from, to, result, result_bytes } => EntryJson {
                from_queue: Some(from),
                to_queue: Some(to),
                result: result.as_deref().and_then(json_text),
                result_bytes,
                ..of(Kind::Advanced)
            },
            Happened::Noted { what } => EntryJson { what: Some(what), ..of(Kind::Noted) },
        }
    }
}

impl From<EntryJson> for Entry {
    fn from(entry: EntryJson) -> Entry {
        let by = entry.by.unwrap_or_default();
        let text = entry.what.unwrap_or_default();
        let what = match (entry.kind, entry.attempt) {
            (Kind::Attempt, Some(attempt)) => Happened::Attempt(attempt),
            (Kind::Canceled, _) => Happened::Canceled { by, reason: entry.reason },
            (Kind::Retried, _) => {
                Happened::Retried { by, from: entry.from_state.unwrap_or(JobState::Complete) }
            }
            (Kind::Edited, _) => Happened::Edited { by, what: text },
            (Kind::Advanced, _) => Happened::Advanced {
                from: entry.from_queue.unwrap_or_else(|| "".into()),
                to: entry.to_queue.unwrap_or_else(|| "".into()),
                result: entry.result.map(|json| json.get().to_owned()),
                result_bytes: entry.result_bytes,
            },
            // An attempt without its data is still an event.
            (Kind::Noted | Kind::Attempt, _) => Happened::Noted { what: text },
        };
        Entry { at: entry.at.unwrap_or(Millis(0)), what }
    }
}
