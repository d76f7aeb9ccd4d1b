//! An error in a setting, before its position is known.

use std::borrow::Cow;
use std::fmt;

use super::{Error, Fault};

/// A setting, and the error in it.
#[derive(Debug)]
pub(super) struct Wrong {
    /// The setting's full name in the file, such as `limits.time`; of a pool's setting its name in the pool.
    pub key: Cow<'static, str>,
    error: Error,
}

impl Wrong {
    /// An error of the settings.
    pub(crate) fn new(key: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Wrong { key: key.into(), error: Error::new(Fault::Config, message) }
    }

    /// An error that is not about settings alone, and has no position.
    pub(crate) fn at(key: impl Into<Cow<'static, str>>, error: Error) -> Self {
        Wrong { key: key.into(), error }
    }

    /// The same with a hint.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.error.hint = Some(hint.into());
        self
    }

    /// The same, if somebody else must act.
    #[must_use]
    pub(crate) fn fault(mut self, fault: Fault) -> Self {
        self.error.fault = fault;
        self
    }

    /// The error of the whole supervisor, set at this position.
    pub(crate) fn placed(self, place: Option<String>) -> Error {
        Error { place, ..self.error }
    }

    /// The error for a pool of this name that was set at this position.
    pub(crate) fn of(self, pool: &str, place: Option<String>) -> Error {
        Error { place, message: format!("pool '{pool}': {}", self.error.message), ..self.error }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}
