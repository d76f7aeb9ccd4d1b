//! What has happened to a job: kept with it for the person who asks at 3 a.m.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::json::{DueAt, RenewedAt, StartedAt};
use super::{Count, Failure, Fence, Forensics, Instance, JobState, Millis, QueueName, WorkerName};

/// Something that happened to a job and is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When it happened.
    pub at: Millis,
    /// What happened then.
    pub what: Happened,
}

/// What happened. An attempt that completed the job at once is told by the job itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happened {
    /// An attempt came to an end.
    Attempt(Box<Attempt>),
    /// Somebody ended the job.
    Canceled {
        /// Who, e.g. `uid 1000`.
        by: String,
        /// Why, as they said.
        reason: Option<String>,
    },
    /// Somebody put it back to waiting.
    Retried {
        /// Who did it, e.g. `uid 1000`.
        by: String,
        /// Its state before.
        from: JobState,
    },
    /// Somebody changed something about it.
    Edited {
        /// Who did it, e.g. `uid 1000`.
        by: String,
        /// What, in words.
        what: String,
    },
    /// It was complete and went on in another queue, as its worker said.
    Advanced {
        /// The queue it was in.
        from: QueueName,
        /// The queue it went on to.
        to: QueueName,
        /// What the worker gave back, JSON text, if it is no longer than 2048 bytes.
        result: Option<String>,
        /// Else how long it was.
        result_bytes: Option<usize>,
    },
    /// What only qless has noted of it, in its words: mostly what another program did. The time is of whole seconds.
    Noted {
        /// What, e.g. `popped by host-1`.
        what: String,
    },
}

impl Happened {
    /// The job goes on in another queue. A result that is cut would be no JSON: a long one is left out.
    pub fn advanced(from: QueueName, to: QueueName, result: Option<&str>) -> Happened {
        let is_long = |result: &&str| result.len() > KEPT;
        Happened::Advanced {
            from,
            to,
            result: result.filter(|result| !is_long(result)).map(str::to_owned),
            result_bytes: result.filter(is_long).map(str::len),
        }
    }
}

/// Of a text of any length so many bytes are kept.
const KEPT: usize = 2048;

/// One attempt, from the lease to what became of the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    /// Its number. An unspent one is counted again.
    pub attempt: u32,
    /// Its lease, which no other attempt has.
    pub fence: Fence,
    /// When it was given out.
    #[serde(flatten, with = "StartedAt::<Option<Millis>>")]
    pub started_at: Option<Millis>,
    /// The supervisor that it was given to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<Instance>,
    /// For which life of which slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerName>,
    /// How often its lease was extended, and when last.
    #[serde(default)]
    pub renewals: u32,
    /// When its lease was last extended.
    #[serde(flatten, with = "RenewedAt::<Option<Millis>>")]
    pub renewed_at: Option<Millis>,
    /// The state of the job after it.
    pub state: JobState,
    /// When it is tried again, if it waits for that.
    #[serde(flatten, with = "DueAt::<Option<Millis>>")]
    pub due_at: Option<Millis>,
    /// Whether its worker died under it.
    #[serde(default)]
    pub crashed: bool,
    /// What the attempt was counted as, if it was not spent.
    #[serde(default, rename = "unspent", skip_serializing_if = "Option::is_none")]
    pub counts: Option<Count>,
    /// Why it did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// What was left to see; of an earlier attempt the last lines only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forensics: Option<Forensics>,
}

impl Attempt {
    /// Without what is long: the first words of its failure and the last lines of its output and of its trace stay.
    #[must_use]
    pub fn shortened(mut self) -> Attempt {
        self.failure = self.failure.map(Failure::shortened);
        self.forensics = self.forensics.map(Forensics::shortened);
        self
    }
}

impl Failure {
    /// Its first words, and the last lines of its trace.
    #[must_use]
    pub fn shortened(mut self) -> Failure {
        self.message.truncate(self.message.floor_char_boundary(KEPT));
        self.trace = self.trace.as_deref().map(|trace| last_lines(trace).to_owned());
        self
    }
}

impl Forensics {
    /// With the last lines of its output alone.
    #[must_use]
    pub fn shortened(mut self) -> Forensics {
        self.stderr_tail = last_lines(&self.stderr_tail).to_owned();
        self
    }
}

/// The end of a text, at the start of a line if one starts there.
fn last_lines(text: &str) -> &str {
    let Some(cut) = (text.len().saturating_sub(KEPT)..text.len()).find(|&at| text.is_char_boundary(at))
    else {
        return text;
    };
    let end = &text[cut..];
    match end.trim_end().find('\n') {
        Some(line) if cut > 0 => &end[line + 1..],
        Some(_) | None => end,
    }
}

#[cfg(test)]
mod tests {
    use super::{Happened, last_lines};

    #[test]
    fn of_a_long_text_the_last_whole_lines_are_kept() {
        assert_eq!(last_lines(""), "");
        assert_eq!(last_lines("a\nb\n"), "a\nb\n");
        let long = "0123456789\n".repeat(1000);
        let kept = last_lines(&long);
        assert!(kept.len() <= 2048 && kept.starts_with('0') && kept.len() > 2000, "{}", kept.len());
        let one = "é".repeat(5000);
        assert!(last_lines(&one).len() <= 2048 && one.ends_with(last_lines(&one)));
    }

    #[test]
    fn of_a_long_result_its_length_is_kept() {
        let kept = |length: usize| {
            let happened = Happened::advanced("a".into(), "b".into(), Some(&"1".repeat(length)));
            let Happened::Advanced { result, result_bytes, .. } = happened else { panic!("{happened:?}") };
            (result.map(|kept| kept.len()), result_bytes)
        };
        assert_eq!(kept(2048), (Some(2048), None));
        assert_eq!(kept(16 << 20), (None, Some(16 << 20)));
    }
}
