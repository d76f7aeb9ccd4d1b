//! A new job in public JSON: over HTTP, in a worker's `put`, in a recurring job.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::format::{DEEPEST, JsonText, MaybeSeconds, Seconds, bytes, json, json_depth};
use crate::object::maybe_object;
use crate::{Bytes, Class, Exec, Exists, JobId, NewJob, Payload, QueueName, Retry};

/// A job to be put. It carries `data`, `raw` or `exec`; without any of them its data is null.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewJob")]
pub(crate) struct NewJobJson {
    /// Its id, up to 256 bytes without control characters; made by the supervisor when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<JobId>,
    /// The action when a job with its id exists.
    #[serde(default, skip_serializing_if = "is_usual")]
    exists: Exists,
    /// A word that is this put's alone, up to 64 bytes, for a put with an id whose answer may get lost: the same put sent
    /// again, with the same token, is answered as the first time. A put of the same id with another token is another put.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// The queue it is put into.
    queue: QueueName,
    /// The name of the code that runs it; `exec`, and only that, for programs.
    class: Class,
    /// Any JSON: its worker gets it with every digit.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "Option<JsonText>")]
    data: Option<Box<RawValue>>,
    /// Text that is not JSON, or other bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    raw: Option<Bytes>,
    /// A program to run.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "maybe_object")]
    exec: Option<Exec>,
    /// Higher runs first; equal in the order of their puts.
    #[serde(default)]
    priority: i32,
    /// Delay after the put, in seconds.
    #[serde(default, skip_serializing_if = "Duration::is_zero", with = "Seconds")]
    delay: Duration,
    /// It is dropped unless it begins within this time after the put, in seconds: then it has failed, in the group `expired`.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "MaybeSeconds")]
    expires: Option<Duration>,
    /// Ids of the jobs that must be complete before it runs: 1000 at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    depends: Vec<JobId>,
    /// Free words to find it by: 100 at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    /// Tries after the first one. When this and the next two are left out its class or pool says; else what is left out is
    /// 5, 1 s and 900 s, for a program 0 tries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retries: Option<u32>,
    /// Wait before the first retry, in seconds; doubled for each later one.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "MaybeSeconds")]
    retry_delay: Option<Duration>,
    /// The longest wait before a retry, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "MaybeSeconds")]
    retry_cap: Option<Duration>,
    /// Longest run of one attempt, in seconds, more than 0. Left out = as its class or pool says.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "MaybeSeconds")]
    time_limit: Option<Duration>,
}

fn is_usual(exists: &Exists) -> bool {
    *exists == Exists::default()
}

/// A null that is present counts as data.
pub(super) fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

/// The payload of a job, by its form.
pub(super) struct Carried {
    pub(super) data: Option<Box<RawValue>>,
    pub(super) raw: Option<Bytes>,
    pub(super) exec: Option<Exec>,
}

impl Carried {
    pub(super) fn shown(payload: Option<Payload>) -> Carried {
        let none = Carried { data: None, raw: None, exec: None };
        match payload {
            None => none,
            Some(Payload::Exec(exec)) => Carried { exec: Some(exec), ..none },
            // For data with deeper nesting most JSON parsers would refuse the whole job.
            Some(Payload::Data(bytes)) => match json(&bytes.0).filter(|_| json_depth(&bytes.0) <= DEEPEST) {
                Some(data) => Carried { data: Some(data), ..none },
                None => Carried { raw: Some(bytes), ..none },
            },
        }
    }

    pub(super) fn payload(self) -> Option<Payload> {
        let data = self.data.map(bytes).or(self.raw).map(Payload::Data);
        self.exec.map(Payload::Exec).or(data)
    }

    fn forms(&self) -> usize {
        [self.data.is_some(), self.raw.is_some(), self.exec.is_some()].into_iter().filter(|is| *is).count()
    }
}

impl From<NewJob> for NewJobJson {
    fn from(job: NewJob) -> NewJobJson {
        let Carried { data, raw, exec } = Carried::shown(Some(job.payload));
        NewJobJson {
            id: job.id,
            exists: job.exists,
            token: job.token,
            queue: job.queue,
            class: job.class,
            data,
            raw,
            exec,
            priority: job.priority,
            delay: job.delay,
            expires: job.expires,
            depends: job.depends,
            tags: job.tags,
            retries: job.retry.map(|retry| retry.retries),
            retry_delay: job.retry.map(|retry| retry.delay),
            retry_cap: job.retry.map(|retry| retry.cap),
            time_limit: job.time_limit,
        }
    }
}

impl TryFrom<NewJobJson> for NewJob {
    type Error = String;

    fn try_from(job: NewJobJson) -> Result<NewJob, String> {
        let carried = Carried { data: job.data, raw: job.raw, exec: job.exec };
        if carried.forms() > 1 {
            return Err("a job carries one of data, raw and exec".into());
        }
        let payload = carried.payload().unwrap_or(Payload::Data("null".into()));
        let usual = if matches!(payload, Payload::Exec(_)) { Retry::NONE } else { Retry::CLASS };
        // Without any of the three the policy is left to the class or the pool.
        let says = job.retries.is_some() || job.retry_delay.is_some() || job.retry_cap.is_some();
        let retry = Retry {
            retries: job.retries.unwrap_or(usual.retries),
            delay: job.retry_delay.unwrap_or(usual.delay),
            cap: job.retry_cap.unwrap_or(usual.cap),
        };
        Ok(NewJob {
            id: job.id,
            exists: job.exists,
            token: job.token,
            queue: job.queue,
            class: job.class,
            payload,
            priority: job.priority,
            delay: job.delay,
            expires: job.expires,
            depends: job.depends,
            tags: job.tags,
            retry: says.then_some(retry),
            time_limit: job.time_limit,
            by: None,
        })
    }
}
