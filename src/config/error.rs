//! Errors in the settings.

use std::fmt;

/// A setting that cannot be used, with the place where it was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Who must act.
    pub fault: Fault,
    /// `FILE:LINE:COLUMN`, `FILE`, or nothing.
    pub place: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

/// The cause of a refusal: it gives the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The command line.
    Usage,
    /// What the settings say.
    Config,
    /// The rights on a file or directory.
    Permission,
    /// The machine, e.g. a directory that cannot be read.
    Io,
}

impl Error {
    /// An error without a place or hint.
    pub fn new(fault: Fault, message: impl Into<String>) -> Self {
        Error { fault, place: None, message: message.into(), hint: None }
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{place}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Error {}
