//! The purpose of reading settings: it decides which programs and users must exist.

use super::Surroundings;

/// The purpose of reading settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// To find a supervisor or its store: what its pools need may be missing here.
    #[default]
    Find,
    /// To start a supervisor: programs and users must exist, so that nothing runs without them.
    Start,
    /// To be a supervisor, perhaps again: a missing program is reported when a worker is made. For a missing user or file
    /// of a secret the keeper waits.
    Serve,
}

/// Why settings are read, and what their meaning depends on.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    pub purpose: Purpose,
    pub around: &'a Surroundings,
}
