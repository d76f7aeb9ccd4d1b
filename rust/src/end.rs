//! The ends of a handler other than completion.

use std::any::type_name;
use std::error::Error;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::protocol::{Failure, Next, Outcome};

/// An end other than completion. `?` turns every error into [`End::Failed`].
#[derive(Clone, Debug)]
pub enum End {
    /// It failed; it is tried again while tries remain.
    Failed {
        /// A short name to count by.
        group: String,
        /// A line for people.
        message: String,
    },
    /// It failed and is not tried again.
    FailedForGood(String),
    /// It is tried again after this time; the attempt is spent.
    Retry(Duration, String),
    /// Not done yet: back after this time; the attempt is not spent.
    Snooze(Duration),
    /// It is done here, and goes on in another queue.
    Advance(Advance),
}

/// Where a job goes on: with the same id and data, as if it had been put there.
///
/// ```
/// use taskvisor_worker::{Advance, End, Job};
/// fn film(job: &Job) -> Result<&'static str, End> {
///     match job.queue() {
///         "download" => Err(End::Advance(Advance::to("encode").with(&5)?)),
///         _ => Ok("encoded"),
///     }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Advance {
    /// Name of the queue in which it goes on.
    pub queue: String,
    /// The result of the work done here, kept in the job's history.
    pub result: Option<Box<RawValue>>,
    /// Not before this long from now.
    pub delay: Duration,
    /// Not before these jobs are complete.
    pub depends: Vec<String>,
}

impl Advance {
    /// Goes on in that queue, at once.
    pub fn to(queue: impl Into<String>) -> Advance {
        Advance { queue: queue.into(), result: None, delay: Duration::ZERO, depends: Vec::new() }
    }

    /// Adds a result of the work done here.
    pub fn with(self, result: &impl Serialize) -> Result<Advance, End> {
        Ok(Advance { result: Some(to_raw_value(result)?), ..self })
    }

    fn told(self) -> Next {
        let delay = (!self.delay.is_zero()).then_some(self.delay.as_secs_f64());
        Next { queue: self.queue, delay, depends: self.depends }
    }
}

impl End {
    /// A failure that is not tried again.
    pub fn fail(message: impl Into<String>) -> End {
        End::FailedForGood(message.into())
    }

    /// A failure that is tried again after `wait`.
    pub fn retry_after(wait: Duration, message: impl Into<String>) -> End {
        End::Retry(wait, message.into())
    }

    /// Not an error, but not done yet.
    pub fn snooze(wait: Duration) -> End {
        End::Snooze(wait)
    }

    /// The failure for a panic, with the panic's message.
    pub(crate) fn of_panic(panic: &(dyn std::any::Any + Send)) -> End {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let message = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        End::Failed { group: "panic".into(), message }
    }

    /// The result of the job, if there is one.
    pub(crate) fn result(&self) -> Option<&RawValue> {
        match self {
            End::Advance(advance) => advance.result.as_deref(),
            End::Failed { .. } | End::FailedForGood(_) | End::Retry(..) | End::Snooze(_) => None,
        }
    }

    /// The fields for the protocol: outcome, failure, delay, next queue.
    pub(crate) fn told(self) -> (Outcome, Option<Failure>, Option<f64>, Option<Next>) {
        let failure = |group: &str, message| Some(Failure { group: group.into(), message, trace: None });
        match self {
            End::Failed { group, message } => (Outcome::Failed, failure(&group, message), None, None),
            End::FailedForGood(message) => (Outcome::FailedForGood, failure("failed", message), None, None),
            End::Retry(wait, message) => {
                (Outcome::Retry, failure("retry", message), Some(wait.as_secs_f64()), None)
            }
            End::Snooze(wait) => (Outcome::Snooze, None, Some(wait.as_secs_f64()), None),
            End::Advance(advance) => (Outcome::Complete, None, None, Some(advance.told())),
        }
    }
}

impl<E: Error> From<E> for End {
    fn from(error: E) -> End {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message += &format!(": {cause}");
            source = cause.source();
        }
        // The last two parts of a name such as `std::io::error::Error` identify it.
        let name = type_name::<E>();
        let start = name.rmatch_indices("::").nth(1).map_or(0, |(at, _)| at + 2);
        End::Failed { group: name[start..].to_owned(), message }
    }
}
