//! Why a page cannot be shown, in words for the reader.

use std::error::Error as _;

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The HTTP status of the page that says so.
    pub code: u16,
    /// What failed and why.
    pub message: String,
    /// What the reader can do about it.
    pub hint: Option<String>,
}

impl Trouble {
    /// A trouble without a hint.
    pub fn new(code: u16, message: impl Into<String>) -> Trouble {
        Trouble { code, message: message.into(), hint: None }
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Trouble {
        self.hint = Some(hint.into());
        self
    }

    /// No supervisor is there to answer.
    pub fn no_supervisor() -> Trouble {
        Trouble::new(503, "no supervisor runs here: only its jobs can be looked at, by the broker itself")
            .hint("taskvisor start")
    }
}

impl From<api::Error> for Trouble {
    fn from(error: api::Error) -> Trouble {
        let mut message = error.to_string();
        let mut cause = error.source();
        // The innermost cause says most: `connection refused`.
        while let Some(why) = cause {
            message += &format!(": {why}");
            cause = why.source();
        }
        match error {
            api::Error::Problem(problem) => Trouble { code: problem.code, message, hint: problem.hint },
            api::Error::NotRunning(_) => Trouble::new(503, message)
                .hint("start it with taskvisor start; this page looks again by itself"),
            api::Error::Silent(..) => {
                Trouble::new(504, message).hint("it is stopped, hangs, or is very busy: taskvisor status")
            }
            api::Error::Connect(..)
            | api::Error::Stranger(..)
            | api::Error::Lost(..)
            | api::Error::Odd(..) => Trouble::new(502, message),
        }
    }
}

impl From<broker::Error> for Trouble {
    fn from(error: broker::Error) -> Trouble {
        let is_unknown = matches!(
            error,
            broker::Error::NoJob(_) | broker::Error::NoQueue(_) | broker::Error::NoRecurring(_)
        );
        let is_conflict = matches!(
            error,
            broker::Error::WrongState { .. } | broker::Error::Needed { .. } | broker::Error::InUse(..)
        );
        let code = match (is_unknown, is_conflict) {
            (true, _) => 404,
            (_, true) => 409,
            _ if matches!(error, broker::Error::Unsupported { .. }) => 501,
            // To its reader the page is a gateway to the broker (RFC 9110, section 15.6.3).
            _ => 502,
        };
        Trouble::new(code, error.to_string())
    }
}
