//! Ends of jobs: the worker's outcome, and the forensics.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::format::{EndedAt, MaybeSeconds, Seconds};
use super::{Excess, JobId, Millis, NewJob, Payload, QueueName};

/// Why an attempt did not complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// A short name to count by: `exit 1`, `killed`, `time limit`, `ValueError`.
    pub group: String,
    /// One line for people.
    pub message: String,
    /// A backtrace or the last words on stderr, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

impl Failure {
    /// The bytes of its texts.
    pub fn bytes(&self) -> usize {
        self.group.len() + self.message.len() + self.trace.as_ref().map_or(0, String::len)
    }

    /// The longest group, in bytes: people type it, and failures are counted by it.
    pub const GROUP_MAX: usize = 200;
    /// The longest message, in bytes: it appears in lists and in the log.
    pub const MESSAGE_MAX: usize = 4 << 10;
    /// The longest trace, in bytes.
    pub const TRACE_MAX: usize = 64 << 10;

    /// The failure of a job that was to begin by a time, and has not.
    pub fn expired() -> Failure {
        let message = "it was not begun in time: it was put with `expires`".into();
        Failure { group: "expired".into(), message, trace: None }
    }

    /// The same with long parts cut; a note says how much is missing.
    #[must_use]
    pub fn cut(self) -> Failure {
        Failure {
            group: cut(self.group, Self::GROUP_MAX),
            message: cut(self.message, Self::MESSAGE_MAX),
            trace: self.trace.map(|trace| cut(trace, Self::TRACE_MAX)),
        }
    }
}

/// The beginning of a text, at most `most` bytes, with a note on how many more it had.
pub fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        // Never within a character: the rest would be no UTF-8.
        let end = text.floor_char_boundary(most);
        let more = text.len() - end;
        text.truncate(end);
        text += &format!("… ({more} bytes more)");
    }
    text
}

/// What the worker reported about a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The job is done.
    Complete {
        /// The result, as JSON text.
        result: Option<String>,
        /// Where the job goes on in another queue, if it does.
        next: Option<Next>,
    },
    /// Failed; retried while tries remain.
    Failed(Failure),
    /// Failed for good; not retried.
    FailedForGood(Failure),
    /// Retried after this time. The attempt is spent.
    RetryAfter(Duration, Failure),
    /// Not an error, but not done yet: run again after this time, unspent.
    Snoozed(Duration),
    /// Another job kept the worker from ending it in time: run again after this time, unspent.
    CutShort(Duration),
    /// The worker has no code for this class; another version of the application may.
    UnknownClass,
    /// The worker was told to end by somebody else, and has ended the job for it. The attempt is not spent, but it
    /// counts as a crash: a job that signals its own worker looks the same.
    Interrupted(Failure),
    /// The worker ended before it had read the job: it was never begun.
    NotBegun,
    /// The job could not be begun, for a reason that is the host's or the pool's: the line says which. The same would
    /// happen to the next job in that worker.
    CannotBegin(String),
}

impl Outcome {
    /// Whether the job was begun at all.
    pub fn is_of_a_begun_job(&self) -> bool {
        match self {
            Outcome::Complete { .. }
            | Outcome::Failed(_)
            | Outcome::FailedForGood(_)
            | Outcome::RetryAfter(..)
            | Outcome::Snoozed(_)
            | Outcome::CutShort(_)
            | Outcome::UnknownClass
            | Outcome::Interrupted(_) => true,
            Outcome::NotBegun | Outcome::CannotBegin(_) => false,
        }
    }
}

/// Where a job goes on that is complete in its queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// The queue in which it goes on.
    pub queue: QueueName,
    /// Delay from now.
    pub delay: Duration,
    /// Ids of the jobs that must be complete before.
    pub depends: Vec<JobId>,
}

impl Next {
    /// Why no job could be put there.
    pub fn fault(&self) -> Option<String> {
        // Only the queue, the delay and the needs are new: the rest was checked when the job was put.
        let next = NewJob {
            delay: self.delay,
            depends: self.depends.clone(),
            ..NewJob::new(self.queue.clone(), "any".into(), Payload::Data("null".into()))
        };
        next.fault()
    }

    /// The failure with which a complete job is held if it cannot go on there.
    pub fn refused(&self, why: &str) -> Failure {
        let message = format!("it is complete here, but cannot go on in queue '{}': {why}", self.queue);
        Failure { group: "advance".into(), message, trace: None }
    }
}

/// Why we lost the right to run a job. All are handled by one path; nothing is settled but a proven cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Revocation {
    /// The lease ran out and somebody else has the job.
    LockLost,
    /// A person ended it.
    Canceled,
    /// It was put into another queue while it ran.
    Moved,
    /// The broker would not renew the lease.
    RenewRefused,
    /// We could not renew in time, so we gave it up before the lease ends.
    SelfFenced,
}

impl Revocation {
    /// Whether another supervisor may run the job from now on: then a process of it that still runs here must end.
    pub fn is_anothers(self) -> bool {
        match self {
            Revocation::LockLost | Revocation::Moved | Revocation::RenewRefused => true,
            Revocation::Canceled | Revocation::SelfFenced => false,
        }
    }

    /// The word for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Revocation::LockLost => "lock_lost",
            Revocation::Canceled => "canceled",
            Revocation::Moved => "moved",
            Revocation::RenewRefused => "renew_refused",
            Revocation::SelfFenced => "self_fenced",
        }
    }
}

/// How a process ended, as `waitid` reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// It returned this code.
    Code(i32),
    /// A signal ended it.
    Signal {
        /// The signal's number.
        signal: i32,
        /// Whether a core was dumped.
        core: bool,
    },
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExitStatus::Code(code) => write!(f, "exit code {code}"),
            ExitStatus::Signal { signal, .. } => write!(f, "signal {signal}"),
        }
    }
}

/// What the processes of one life used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// CPU time in user mode.
    #[serde(with = "Seconds")]
    pub user: Duration,
    /// CPU time in the kernel.
    #[serde(with = "Seconds")]
    pub system: Duration,
    /// Largest resident set of one process, in bytes.
    pub max_rss: u64,
}

/// The proven end of a life: the leader is reaped and nothing of its tree lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exit {
    /// How the leader ended.
    pub status: ExitStatus,
    /// What it and its reaped children used.
    pub usage: Usage,
    /// How many processes it left behind, which the keeper killed.
    pub left_behind: u32,
    /// Whether the kernel's out-of-memory killer hit it (known only with a memory cgroup).
    pub oom: bool,
    /// Whether it did because the life had reached its own bound of memory, and not for want of memory elsewhere.
    #[serde(default)]
    pub oom_at_bound: bool,
    /// From the leader's end to the proof that its tree is dead.
    #[serde(with = "Seconds")]
    pub proof: Duration,
}

/// A signal we sent, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SignalSent {
    /// How long after the job was assigned.
    #[serde(with = "Seconds")]
    pub after: Duration,
    /// `TERM` or `KILL`.
    pub signal: Signal,
    /// `canceled`, `time limit`, `stop`, …
    pub why: String,
}

/// For what the supervisor ended an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedFor {
    /// It exceeded a limit.
    Limit(Excess),
    /// Its lease could not be renewed in time.
    Lease,
    /// The supervisor was to stop.
    Stop,
}

/// The signals of the kill ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Signal {
    /// Please end: to the leader's process group, followed by CONT.
    Term,
    /// The whole tree, by the keeper, with proof.
    Kill,
}

/// How an attempt ended: kept with the job for the person who asks at 3 a.m.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Forensics {
    /// In which life it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<super::WorkerName>,
    /// From assign to the end.
    #[serde(with = "Seconds")]
    pub ran: Duration,
    /// How the process ended, when it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// Whether that process was a worker, or had run other jobs: `exit` then says what it took since its start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// CPU time of this job alone, in a worker that runs one after the other, as the worker says, or as is known of one that
    /// died under its first job.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "MaybeSeconds")]
    pub cpu: Option<Duration>,
    /// The signals that taskvisor sent it, in order.
    #[serde(default)]
    pub signals: Vec<SignalSent>,
    /// For what they were sent, for metrics: it is not kept.
    #[serde(skip)]
    pub ended_for: Option<EndedFor>,
    /// Of a SIGKILL that we did not send: how many processes of this machine the kernel killed for want of memory while it
    /// ran, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<u64>,
    /// The last of its stderr (64 KB at most); what is not UTF-8 is replaced.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr_tail: String,
    /// Bytes of output that were dropped: over the cap, or not taken by the disk.
    #[serde(default)]
    pub output_dropped: u64,
    /// Processes it left behind in a worker that lives on, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
    /// What its processes did just before they were ended for a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Box<super::Snapshot>>,
    /// The worker that died under it and others before, within the same attempt; since then it ran alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub died_before: Option<Box<DeadWorker>>,
    /// When it ended, on the broker's clock; set by the broker.
    #[serde(flatten, with = "EndedAt::<Option<Millis>>")]
    pub at: Option<Millis>,
}

impl Forensics {
    /// About the bytes of its texts.
    pub fn bytes(&self) -> usize {
        const PROCESS: usize = 512;
        let left: usize = self.left.iter().map(String::len).sum();
        let caught = self.snapshot.as_ref().map_or(0, |snapshot| PROCESS * snapshot.processes.len());
        self.stderr_tail.len() + left + caught
    }

    /// The exit of a process that was there for this job alone.
    pub fn exit_alone(&self) -> Option<&Exit> {
        self.exit.as_ref().filter(|_| !self.shared)
    }

    /// CPU time of this job, if it is known: that of its own process, or what its worker reports.
    pub fn cpu(&self) -> Option<Duration> {
        self.cpu.or_else(|| self.exit_alone().map(|exit| exit.usage.user + exit.usage.system))
    }

    /// Whether a SIGKILL ended it that we did not send, and that was not for lack of memory in its own cgroup.
    pub fn is_killed_by_others(&self) -> bool {
        let killed = |exit: &Exit| matches!(exit.status, ExitStatus::Signal { signal: 9, .. }) && !exit.oom;
        // After a signal of ours the KILL is taken for ours as well.
        self.signals.is_empty() && self.exit.as_ref().is_some_and(killed)
    }
}

/// A worker that died with several jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeadWorker {
    /// Name of the worker.
    pub worker: super::WorkerName,
    /// From assign to its death.
    #[serde(with = "Seconds")]
    pub ran: Duration,
    /// How it died, for people.
    pub how: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_texts_are_truncated() {
        let long = |len| "é".repeat(len);
        let failure = Failure { group: long(200), message: long(1), trace: Some(long(40_000)) }.cut();
        assert_eq!(failure.group, format!("{}… (200 bytes more)", long(100)));
        assert_eq!(failure.message, "é");
        assert!(failure.trace.unwrap().len() < Failure::TRACE_MAX + 32);
    }
}
