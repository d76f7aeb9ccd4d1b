//! A job to put.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

/// A job to be queued.
///
/// ```
/// use std::time::Duration;
/// use taskvisor_worker::Put;
/// let expires = Some(Duration::from_secs(600)); // a reminder that comes later helps nobody
/// let job = Put { priority: 5, expires, ..Put::new("mail", "mail.Remind", &"a@b.c").unwrap() };
/// assert_eq!(job.data.get(), "\"a@b.c\"");
/// assert!(serde_json::to_string(&job).unwrap().contains("\"expires\":600.0"));
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct Put {
    /// The queue for the job.
    pub queue: String,
    /// The job's class.
    pub class: String,
    /// The data of the job, as JSON text.
    pub data: Box<RawValue>,
    /// Higher priorities run first.
    pub priority: i32,
    /// Not before this long from now.
    #[serde(serialize_with = "as_seconds")]
    pub delay: Duration,
    /// The job fails as `expired` unless it begins within this time after its put, its delay included; None = it waits for
    /// ever. Longer than `delay`, 36,525 days at most. The embedded store and qless can do it; elsewhere the put is refused.
    #[serde(serialize_with = "as_some_seconds", skip_serializing_if = "Option::is_none")]
    pub expires: Option<Duration>,
    /// Tags of the job: free words.
    pub tags: Vec<String>,
    /// Retries after the first attempt; None = as its class or pool says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// Time limit of an attempt; None = as its class or pool says.
    #[serde(serialize_with = "as_some_seconds", skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<Duration>,
    /// Its id; None = a new one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What to do if that id exists: `refuse`, or `skip` (put nothing, and return that id).
    pub exists: &'static str,
    /// Ids of jobs that must be complete before it runs.
    pub depends: Vec<String>,
}

impl Put {
    /// A job with data and defaults for everything else.
    ///
    /// # Errors
    ///
    /// If the data cannot be written as JSON.
    pub fn new(queue: &str, class: &str, data: &impl Serialize) -> Result<Put, serde_json::Error> {
        Ok(Put {
            queue: queue.into(),
            class: class.into(),
            data: serde_json::value::to_raw_value(data)?,
            priority: 0,
            delay: Duration::ZERO,
            expires: None,
            tags: Vec::new(),
            retries: None,
            time_limit: None,
            id: None,
            exists: "refuse",
            depends: Vec::new(),
        })
    }
}

fn as_seconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

fn as_some_seconds<S: serde::Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.unwrap_or_default().as_secs_f64().serialize(serializer)
}
