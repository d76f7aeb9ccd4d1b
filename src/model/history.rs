//! A job's history: kept with the job for the person who asks at 3 a.m.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::format::{DueAt, RenewedAt, StartedAt};
use super::{Count, Failure, Fence, Forensics, Instance, JobState, Millis, QueueName, WorkerName};

/// Something that happened to a job and is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When it happened.
    pub at: Millis,
    /// The event that happened.
    pub what: Happened,
}

impl Entry {
    /// About the bytes of its texts.
    pub fn bytes(&self) -> usize {
        match &self.what {
            Happened::Attempt(attempt) => {
                let failure = attempt.failure.as_ref().map_or(0, Failure::bytes);
                failure + attempt.forensics.as_ref().map_or(0, Forensics::bytes)
            }
            Happened::Advanced { result, .. } => result.as_ref().map_or(0, String::len),
            Happened::Canceled { reason, .. } => reason.as_ref().map_or(0, String::len),
            Happened::Edited { what, .. } | Happened::Noted { what } => what.len(),
            Happened::Retried { .. } => 0,
        }
    }
}

/// An event in a job's history. An attempt that completed the job is not in it: the job itself describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happened {
    /// An attempt came to an end.
    Attempt(Box<Attempt>),
    /// A person canceled the job.
    Canceled {
        /// The person or program that canceled it, e.g. `uid 1000`.
        by: String,
        /// The reason that they gave.
        reason: Option<String>,
    },
    /// A person put it back to waiting.
    Retried {
        /// The person or program that ordered it, e.g. `uid 1000`.
        by: String,
        /// Its state before.
        from: JobState,
    },
    /// A person changed the job.
    Edited {
        /// The person or program that ordered it, e.g. `uid 1000`.
        by: String,
        /// The change, described in words.
        what: String,
    },
    /// It was complete and went on in another queue, as its worker asked.
    Advanced {
        /// The queue that it left.
        from: QueueName,
        /// The queue it went on to.
        to: QueueName,
        /// The worker's result as JSON text, if it is no longer than 2048 bytes.
        result: Option<String>,
        /// Otherwise the length of the result in bytes.
        result_bytes: Option<usize>,
    },
    /// An event that only qless has noted, in its words: mostly what another program did. Its time is in whole seconds.
    Noted {
        /// The event, e.g. `popped by host-1`.
        what: String,
    },
}

impl Happened {
    /// The job goes on in another queue. A long result is left out, as a cut one would be no JSON.
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

/// Number of bytes to keep of a long text.
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
    /// The attempt without long texts: keeps the first words of its failure, and the last lines of its output and of
    /// its trace.
    #[must_use]
    pub fn shortened(mut self) -> Attempt {
        self.failure = self.failure.map(Failure::shortened);
        self.forensics = self.forensics.map(Forensics::shortened);
        self
    }
}

impl Failure {
    /// The first words of the failure, and the last lines of its trace.
    #[must_use]
    pub fn shortened(mut self) -> Failure {
        self.message.truncate(self.message.floor_char_boundary(KEPT));
        self.trace = self.trace.as_deref().map(|trace| last_lines(trace).to_owned());
        self
    }
}

impl Forensics {
    /// The same with only the last lines of its output.
    #[must_use]
    pub fn shortened(mut self) -> Forensics {
        self.stderr_tail = last_lines(&self.stderr_tail).to_owned();
        self
    }
}

/// The end of a text, from the start of a line if possible.
fn last_lines(text: &str) -> &str {
    let Some(cut) = (text.len().saturating_sub(KEPT)..text.len()).find(|&at| text.is_char_boundary(at))
    else {
        return text;
    };
    let end = &text[cut..];
    // Without the last line end, because behind that there is nothing to keep.
    match end.trim_end().find('\n') {
        // Where nothing was cut off, the text begins with a whole line.
        Some(line) if cut > 0 => &end[line + 1..],
        Some(_) | None => end,
    }
}

#[cfg(test)]
mod tests {
    use super::{Happened, last_lines};

    #[test]
    fn last_whole_lines_of_a_long_text_are_kept() {
        assert_eq!(last_lines(""), "");
        assert_eq!(last_lines("a\nb\n"), "a\nb\n");
        let long = "0123456789\n".repeat(1000);
        let kept = last_lines(&long);
        assert!(kept.len() <= 2048 && kept.starts_with('0') && kept.len() > 2000, "{}", kept.len());
        let one = "é".repeat(5000);
        assert!(last_lines(&one).len() <= 2048 && one.ends_with(last_lines(&one)));
    }

    #[test]
    fn only_the_length_of_a_long_result_is_kept() {
        let kept = |length: usize| {
            let happened = Happened::advanced("a".into(), "b".into(), Some(&"1".repeat(length)));
            let Happened::Advanced { result, result_bytes, .. } = happened else { panic!("{happened:?}") };
            (result.map(|kept| kept.len()), result_bytes)
        };
        assert_eq!(kept(2048), (Some(2048), None));
        assert_eq!(kept(16 << 20), (None, Some(16 << 20)));
    }
}
