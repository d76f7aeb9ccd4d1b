//! What is wrong with a setting of a pool, before it is known where it was set.

use std::fmt;

use super::{Error, Fault};

/// The setting, and what is wrong with it.
#[derive(Debug)]
pub(super) struct Wrong {
    /// The setting's name in the file.
    pub key: &'static str,
    error: Error,
}

impl Wrong {
    /// The settings cannot be used.
    pub fn new(key: &'static str, message: impl Into<String>) -> Self {
        Wrong { key, error: Error::new(Fault::Config, message) }
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.error.hint = Some(hint.into());
        self
    }

    /// The same, and somebody else must act.
    #[must_use]
    pub fn fault(mut self, fault: Fault) -> Self {
        self.error.fault = fault;
        self
    }

    /// The same, told of a pool of this name that was set there.
    pub fn of(self, pool: &str, place: Option<String>) -> Error {
        Error { place, message: format!("pool '{pool}': {}", self.error.message), ..self.error }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}
