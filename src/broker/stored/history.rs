//! What happened to a job, as it is kept.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::form::{Stored, kept, maybe};
use crate::model::{
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

    pub fn serialize<S: Serializer>(value: &Attempt, to: S) -> Result<S::Ok, S::Error> {
        AttemptRow::serialize(value, to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Box<Attempt>, D::Error> {
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
