//! A job's history in stored form.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::form::{Stored, from_json, kept, maybe};
use model::{
    Attempt, Count, Entry, Failure, Fence, Forensics, Happened, Instance, JobState, Millis, QueueName,
    WorkerName,
};

kept! {
    Entry as EntryRow;
    Attempt as AttemptRow;
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Entry")]
pub(super) struct EntryRow {
    at: Millis,
    #[serde(flatten, with = "HappenedRow")]
    what: Happened,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Happened", rename_all = "snake_case")]
enum HappenedRow {
    #[serde(with = "boxed")]
    Attempt(Box<Attempt>),
    Canceled {
        by: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    Retried {
        by: String,
        from: JobState,
    },
    Edited {
        by: String,
        what: String,
    },
    Advanced {
        from: QueueName,
        to: QueueName,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result_bytes: Option<usize>,
    },
    Noted {
        what: String,
    },
}

mod boxed {
    use super::*;

    pub(super) fn serialize<S: Serializer>(value: &Attempt, to: S) -> Result<S::Ok, S::Error> {
        AttemptRow::serialize(value, to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Box<Attempt>, D::Error> {
        AttemptRow::deserialize(from).map(Box::new)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Attempt")]
struct AttemptRow {
    attempt: u32,
    fence: Fence,
    started_at: Option<Millis>,
    instance: Option<Instance>,
    worker: Option<WorkerName>,
    #[serde(default)]
    renewals: u32,
    #[serde(default)]
    renewed_at: Option<Millis>,
    state: JobState,
    #[serde(default)]
    due_at: Option<Millis>,
    #[serde(default)]
    crashed: bool,
    #[serde(default)]
    counts: Option<Count>,
    #[serde(default, with = "maybe")]
    failure: Option<Failure>,
    #[serde(default, with = "maybe")]
    forensics: Option<Forensics>,
}

/// Reads a history that is stored as lines, oldest first.
pub fn entries(lines: &str) -> Vec<Entry> {
    lines.lines().map(|line| from_json(line.as_bytes()).unwrap_or_else(|_| unreadable(line))).collect()
}

/// An entry for a line that cannot be read: its text, cut, with its time if the line has one.
fn unreadable(line: &str) -> Entry {
    const SHOWN: usize = 200;
    // Found as text: the parser has failed on this line.
    let digits = line.split("\"at\":").nth(1).unwrap_or_default();
    let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
    let shown: String = line.chars().take(SHOWN).collect();
    let what = format!("a line that cannot be read: {shown}");
    Entry { at: Millis(digits[..end].parse().unwrap_or(0)), what: Happened::Noted { what } }
}
