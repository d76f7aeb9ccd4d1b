//! New jobs, as they are put.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::{Class, JobId, Object, Payload, QueueName, Retry};

/// A job as it is put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJob {
    /// The id; the broker makes one if it is absent.
    pub id: Option<JobId>,
    /// The action if the id exists already.
    pub exists: Exists,
    /// A word that is this put's alone, up to 64 bytes, for a put with an id whose answer may get lost: the same put sent
    /// again, with the same token, is answered as the first time. A put of the same id with another token is another put.
    pub token: Option<String>,
    /// The queue it is put into.
    pub queue: QueueName,
    /// The class of the job, which names the code that runs it.
    pub class: Class,
    /// The program to run, or the data for a worker.
    pub payload: Payload,
    /// Higher priorities run first; equal ones in the order of insertion.
    pub priority: i32,
    /// The job does not run before this time has passed since the put.
    pub delay: Duration,
    /// The job is dropped unless it begins within this time after the put; None = it waits for as long as it takes.
    pub expires: Option<Duration>,
    /// Ids of the jobs that must be complete before it runs.
    pub depends: Vec<JobId>,
    /// Free words to find it by.
    pub tags: Vec<String>,
    /// The retry policy; None = that of the pool.
    pub retry: Option<Retry>,
    /// Time limit of one attempt; None = that of the pool.
    pub time_limit: Option<Duration>,
    /// The person or program that puts it, e.g. `uid 1000`. The supervisor or store that takes the job sets this; it is never read from the
    /// request.
    pub by: Option<String>,
}

/// The action of a put for a job whose id exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Exists {
    /// Refuses the new job.
    #[default]
    Refuse,
    /// Leaves the one that exists as it is, whatever its state, and gives its id.
    Skip,
}

impl std::str::FromStr for Exists {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "refuse" => Ok(Exists::Refuse),
            "skip" => Ok(Exists::Skip),
            _ => Err(format!("'{text}' is neither refuse nor skip")),
        }
    }
}

impl NewJob {
    /// The longest delay: a hundred years.
    pub const DELAY_MAX: Duration = Duration::from_secs(36_525 * 24 * 3600);
    /// The longest name: of a job, a queue, a class, a tag.
    pub const NAME_MAX: usize = 256;
    /// The longest token of a put.
    pub const TOKEN_MAX: usize = 64;
    /// Limit of the data of a job with a class, in bytes: always fits into one frame to a worker, however it is encoded.
    pub const DATA_MAX: usize = (12 << 20) - (64 << 10);
    /// Limit of the jobs of one put: a transaction of more would block others for long.
    pub const BATCH_MAX: usize = 50_000;
    /// Limit of the tags of a job.
    pub const TAGS_MAX: usize = 100;
    /// Limit of the jobs that a new job needs.
    pub const DEPENDS_MAX: usize = 1000;

    /// A job with data and defaults for everything else.
    pub fn new(queue: QueueName, class: Class, payload: Payload) -> NewJob {
        NewJob {
            id: None,
            exists: Exists::default(),
            token: None,
            queue,
            class,
            payload,
            priority: 0,
            delay: Duration::ZERO,
            expires: None,
            depends: Vec::new(),
            tags: Vec::new(),
            retry: None,
            time_limit: None,
            by: None,
        }
    }

    /// Why no store could take the job, in words; `None` if it is fine.
    pub fn fault(&self) -> Option<String> {
        let id = self.id.as_ref().and_then(|id| name_fault("a job's id", id.as_str()));
        let delay = (self.delay > NewJob::DELAY_MAX)
            .then(|| "a delay of more than 36525 days (a hundred years) is too long".to_owned());
        let limit = (self.time_limit == Some(Duration::ZERO)).then(|| {
            "a time limit of 0 would end the job at once: without one it may run as long as its pool lets it"
                .to_owned()
        });
        let expires = self.expires.and_then(|expires| expiry_fault(expires, self.delay));
        let depends = (self.depends.len() > NewJob::DEPENDS_MAX).then(|| {
            let (many, most) = (self.depends.len(), NewJob::DEPENDS_MAX);
            format!(
                "a job cannot depend on {many} others, {most} are the most: have one that depends on them"
            )
        });
        id.or_else(|| self.token.as_deref().and_then(token_fault))
            .or_else(|| name_fault("a queue's name", self.queue.as_str()))
            .or_else(|| name_fault("a class", self.class.as_str()))
            .or_else(|| self.payload.fault())
            .or_else(|| data_fault(&self.payload))
            .or(delay)
            .or(limit)
            .or(expires)
            .or(depends)
            .or_else(|| tags_fault(&self.tags))
    }
}

/// Why a job cannot be dropped unless it begins within this time.
fn expiry_fault(expires: Duration, delay: Duration) -> Option<String> {
    if expires > NewJob::DELAY_MAX {
        return Some(
            "a job that expires after more than 36525 days (a hundred years) need not expire".into(),
        );
    }
    (expires <= delay).then(|| {
        let (expires, delay) = (expires.as_secs_f64(), delay.as_secs_f64());
        format!(
            "a job that expires {expires} s after its put, and is delayed for {delay} s, could never begin: the time counts from the \
             put"
        )
    })
}

/// Why one put cannot take these jobs.
pub fn batch_fault(jobs: &[NewJob]) -> Option<String> {
    let most = NewJob::BATCH_MAX;
    (jobs.len() > most)
        .then(|| format!("too many jobs for one put: {most} are the most; put them in several"))
}

/// For `deserialize_with`: the jobs of one put. Stops at the first one too many: the millions that fit into a body would
/// take gigabytes before they could be counted.
pub fn batch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<NewJob>, D::Error> {
    struct Jobs;
    impl<'de> Visitor<'de> for Jobs {
        type Value = Vec<NewJob>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of jobs")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut jobs = Vec::new();
            // `Object` refuses a list in place of an object, which serde would read field by field.
            while let Some(Object(job)) = list.next_element()? {
                jobs.push(job);
                batch_fault(&jobs).map_or(Ok(()), |fault| Err(A::Error::custom(fault)))?;
            }
            Ok(jobs)
        }
    }
    deserializer.deserialize_seq(Jobs)
}

/// The error in the data. A program gets its input as a file; other data must fit into a frame to a worker.
fn data_fault(payload: &Payload) -> Option<String> {
    let Payload::Data(data) = payload else { return None };
    let (long, most) = (data.0.len(), NewJob::DATA_MAX);
    (long > most).then(|| {
        format!(
            "data of {long} bytes cannot be sent to a worker: {most} are the most; put it in a file, and its path in the job"
        )
    })
}

fn token_fault(token: &str) -> Option<String> {
    let long = token.len();
    match long {
        0 => Some("a token of a put cannot be empty".into()),
        _ if long > NewJob::TOKEN_MAX => {
            Some(format!("a token of {long} bytes is too long: {} are the most", NewJob::TOKEN_MAX))
        }
        _ => None,
    }
}

/// The error in a job's tags.
pub fn tags_fault(tags: &[String]) -> Option<String> {
    if tags.len() > NewJob::TAGS_MAX {
        return Some(format!("a job cannot have {} tags: {} are the most", tags.len(), NewJob::TAGS_MAX));
    }
    tags.iter().find_map(|tag| name_fault("a tag", tag))
}

/// The error in a name. Names are printed one a line, and typed.
pub fn name_fault(what: &str, name: &str) -> Option<String> {
    if name.is_empty() {
        Some(format!("{what} cannot be empty"))
    } else if name.len() > NewJob::NAME_MAX {
        // Only its beginning: a name of megabytes would be sent back whole.
        let start: String = name.chars().take(32).collect();
        let (long, most) = (name.len(), NewJob::NAME_MAX);
        Some(format!("{what} of {long} bytes is too long ('{start}…'): {most} are the most"))
    } else if name.contains(char::is_control) {
        Some(format!("{what} cannot have control characters in it: {name:?}"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bytes, Exec};

    fn job() -> NewJob {
        NewJob::new("q".into(), "c".into(), Payload::Data("1".into()))
    }

    #[test]
    fn job_that_no_store_can_keep_is_refused() {
        let said = |job: NewJob| job.fault().unwrap_or_default();
        let long = "é".repeat(129);
        assert_eq!(said(NewJob { id: Some("a b ☺".into()), tags: vec!["x y".into(); 100], ..job() }), "");
        assert_eq!(said(NewJob { id: Some("".into()), ..job() }), "a job's id cannot be empty");
        assert!(
            said(NewJob { id: Some(long.as_str().into()), ..job() }).contains("of 258 bytes is too long")
        );
        assert!(said(NewJob { id: Some("a\nb".into()), ..job() }).ends_with("\"a\\nb\""));
        let data = |long: usize| Payload::Data(Bytes(vec![b'1'; long]));
        assert_eq!(said(NewJob { payload: data(NewJob::DATA_MAX), ..job() }), "");
        assert!(
            said(NewJob { payload: data(NewJob::DATA_MAX + 1), ..job() }).contains("12517376 are the most")
        );
        assert!(said(NewJob { token: Some("t".repeat(65)), ..job() }).contains("a token of 65 bytes"));
        assert_eq!(said(NewJob { queue: "".into(), ..job() }), "a queue's name cannot be empty");
        assert_eq!(said(NewJob { class: "".into(), ..job() }), "a class cannot be empty");
        assert_eq!(said(NewJob { tags: vec!["".into()], ..job() }), "a tag cannot be empty");
        assert!(said(NewJob { tags: vec!["x".into(); 101], ..job() }).contains("101 tags"));
        assert!(said(NewJob { delay: NewJob::DELAY_MAX, ..job() }).is_empty());
        assert!(said(NewJob { delay: Duration::MAX, ..job() }).contains("a hundred years"));
        assert!(said(NewJob { time_limit: Some(Duration::from_millis(1)), ..job() }).is_empty());
        assert!(said(NewJob { time_limit: Some(Duration::ZERO), ..job() }).contains("a time limit of 0"));
        let program = Exec { argv: vec!["true".into()], ..Exec::default() };
        let exec = |umask| Payload::Exec(Exec { umask, ..program.clone() });
        assert_eq!(said(NewJob { payload: exec(0o777), ..job() }), "");
        for argv in [vec![], vec!["".into(), "x".into()]] {
            let payload = Payload::Exec(Exec { argv, ..Exec::default() });
            assert_eq!(
                said(NewJob { payload, ..job() }),
                "the command is empty: its first word is the program to run"
            );
        }
        for (arg, cwd) in [("a\0b", "/"), ("a", "/\0")] {
            let argv = vec!["true".into(), arg.into()];
            let payload = Payload::Exec(Exec { argv, cwd: cwd.into(), ..Exec::default() });
            assert!(said(NewJob { payload, ..job() }).contains("holds a zero byte"));
        }
        assert_eq!(
            said(NewJob { payload: exec(u32::MAX), ..job() }),
            "4294967295 is no umask: it is a number from 0 to 511, octal 777"
        );
        assert!(said(NewJob { depends: vec!["a".into(); 1001], ..job() }).contains("1001 others"));
    }
}
