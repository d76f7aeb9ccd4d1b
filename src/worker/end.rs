//! How a handler ends when it does not complete.

use std::any::type_name;
use std::error::Error;
use std::time::Duration;

use crate::wire::worker::{Failure, Outcome};

/// An end other than success. Every error becomes [`End::Failed`] by `?`.
#[derive(Clone, Debug)]
pub enum End {
    /// It failed: tried again while tries remain.
    Failed {
        /// A short name to count by.
        group: String,
        /// A line for people.
        message: String,
    },
    /// It failed and is not tried again.
    FailedForGood(String),
    /// Tried again after this long, the attempt is spent.
    Retry(Duration, String),
    /// Not yet: back after this long, the attempt is not spent.
    Snooze(Duration),
}

impl End {
    /// Not to be tried again.
    pub fn fail(message: impl Into<String>) -> End {
        End::FailedForGood(message.into())
    }

    /// To be tried again after `wait`.
    pub fn retry_after(wait: Duration, message: impl Into<String>) -> End {
        End::Retry(wait, message.into())
    }

    /// Nothing wrong, but not yet.
    pub fn snooze(wait: Duration) -> End {
        End::Snooze(wait)
    }

    /// What panicked.
    pub(super) fn of_panic(panic: &(dyn std::any::Any + Send)) -> End {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let message = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        End::Failed { group: "panic".into(), message }
    }

    /// As the protocol has it: outcome, why, when.
    pub(super) fn told(self) -> (Outcome, Option<Failure>, Option<f64>) {
        let failure = |group: &str, message| Some(Failure { group: group.into(), message, trace: None });
        match self {
            End::Failed { group, message } => (Outcome::Failed, failure(&group, message), None),
            End::FailedForGood(message) => (Outcome::FailedForGood, failure("failed", message), None),
            End::Retry(wait, message) => {
                (Outcome::Retry, failure("retry", message), Some(wait.as_secs_f64()))
            }
            End::Snooze(wait) => (Outcome::Snooze, None, Some(wait.as_secs_f64())),
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
        // `std::io::error::Error` and the like: the last two words say which.
        let name = type_name::<E>();
        let start = name.rmatch_indices("::").nth(1).map_or(0, |(at, _)| at + 2);
        End::Failed { group: name[start..].to_owned(), message }
    }
}
