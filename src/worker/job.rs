//! A job in its handler.

use std::cell::RefCell;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::end::End;
use super::pipe::Pipe;
use crate::wire::worker::{self, Progress, Said};

/// What a job is, apart from its handler's means to speak.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) id: String,
    pub(super) fence: u64,
    pub(super) class: String,
    pub(super) queue: String,
    pub(super) data: Vec<u8>,
    pub(super) attempt: u32,
    pub(super) tags: Vec<String>,
    pub(super) time_limit: Option<Duration>,
    pub(super) soft_time_limit: Option<Duration>,
    pub(super) cwd: Option<String>,
}

impl Facts {
    pub(super) fn new(job: worker::Job<'_>) -> Result<Facts, String> {
        use base64::Engine;
        let data = match (job.data, job.body_b64) {
            (Some(json), _) => json.get().as_bytes().to_vec(),
            (None, Some(text)) => base64::engine::general_purpose::STANDARD
                .decode(text)
                .map_err(|error| format!("the body of job {} is no base64: {error}", job.id))?,
            (None, None) => b"null".to_vec(),
        };
        let seconds = |limit: Option<f64>| limit.and_then(|limit| Duration::try_from_secs_f64(limit).ok());
        Ok(Facts {
            id: job.id.into(),
            fence: job.fence,
            class: job.class.into(),
            queue: job.queue.into(),
            data,
            attempt: job.attempt,
            tags: job.tags,
            time_limit: seconds(job.time_limit),
            soft_time_limit: seconds(job.soft_time_limit),
            cwd: job.cwd,
        })
    }
}

macro_rules! facts {
    ($type:ident $(<$life:lifetime>)?) => {
        impl $type $(<$life>)? {
            /// Its id.
            pub fn id(&self) -> &str {
                &self.facts.id
            }

            /// What it is.
            pub fn class(&self) -> &str {
                &self.facts.class
            }

            /// Where it waited.
            pub fn queue(&self) -> &str {
                &self.facts.queue
            }

            /// Which attempt this is, from 1.
            pub fn attempt(&self) -> u32 {
                self.facts.attempt
            }

            /// Free words.
            pub fn tags(&self) -> &[String] {
                &self.facts.tags
            }

            /// How long this attempt may take, counted from its start.
            pub fn time_limit(&self) -> Option<std::time::Duration> {
                self.facts.time_limit
            }

            /// When it should wrap up, counted from its start: nobody but its handler sees to that.
            pub fn soft_time_limit(&self) -> Option<std::time::Duration> {
                self.facts.soft_time_limit
            }

            /// Its data, exactly as it was put.
            pub fn raw(&self) -> &[u8] {
                &self.facts.data
            }

            /// Its data, read as JSON. Data that does not fit the type never will: the job has failed for good.
            pub fn data<T: serde::de::DeserializeOwned>(&self) -> Result<T, $crate::worker::End> {
                let wrong = |error| $crate::worker::End::fail(format!("the data does not fit: {error}"));
                serde_json::from_slice(&self.facts.data).map_err(wrong)
            }
        }
    };
}
pub(super) use facts;

/// A job in a blocking handler.
pub struct Job<'a> {
    pub(super) facts: Facts,
    pub(super) pipe: &'a RefCell<Pipe>,
}

facts!(Job<'_>);

impl Job<'_> {
    /// Says how far it has come: a share from 0 to 1, a line for people.
    pub fn progress(&self, fraction: Option<f64>, message: &str) {
        let message = (!message.is_empty()).then(|| message.to_owned());
        self.pipe.borrow_mut().say(&Said::Progress(Progress { job: self.id().into(), fraction, message }));
    }

    /// Queues a job, and gives its id once it cannot be lost.
    pub fn put(&self, job: &Put) -> Result<String, End> {
        let args = serde_json::json!({ "jobs": [job] }).to_string();
        ids(&self.pipe.borrow_mut().call("put", &args)?)
    }
}

pub(super) fn ids<T: DeserializeOwned + Default>(answer: &RawValue) -> Result<T, End> {
    #[derive(serde::Deserialize)]
    struct Ids<T> {
        ids: Vec<T>,
    }
    let Ids { ids } = serde_json::from_str(answer.get())?;
    Ok(ids.into_iter().next().unwrap_or_default())
}

/// A job to be queued; times in seconds.
///
/// ```
/// use taskvisor::worker::Put;
/// let job = Put { priority: 5, ..Put::new("mail", "mail.Send", &"a@b.c").unwrap() };
/// assert_eq!(job.data.get(), "\"a@b.c\"");
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct Put {
    /// Where it waits.
    pub queue: String,
    /// What it is.
    pub class: String,
    /// JSON text.
    pub data: Box<RawValue>,
    /// Higher runs first.
    pub priority: i32,
    /// Not before this long from now.
    pub delay: f64,
    /// Free words.
    pub tags: Vec<String>,
    /// Tries after the first one; None = as its class or pool says.
    pub retries: Option<u32>,
    /// Longest run of an attempt.
    pub time_limit: Option<f64>,
    /// Its id; None = a new one.
    pub id: Option<String>,
    /// If that id exists: `refuse`, or `skip`: put nothing, and give that id.
    pub exists: &'static str,
    /// Not before these jobs are complete.
    pub depends: Vec<String>,
}

impl Put {
    /// A job with data, and nothing else said.
    pub fn new(queue: &str, class: &str, data: &impl Serialize) -> Result<Put, serde_json::Error> {
        Ok(Put {
            queue: queue.into(),
            class: class.into(),
            data: serde_json::value::to_raw_value(data)?,
            priority: 0,
            delay: 0.0,
            tags: Vec::new(),
            retries: None,
            time_limit: None,
            id: None,
            exists: "refuse",
            depends: Vec::new(),
        })
    }
}
