//! Why settings are read: that decides which programs and users must exist.

/// Why settings are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// To find a supervisor or its store: what its pools need may be missing here.
    #[default]
    Find,
    /// To start one: what can be missing is looked for, so that nothing runs without it.
    Start,
    /// To be one, perhaps again: what is missing by now is met when a worker is made.
    Serve,
}
