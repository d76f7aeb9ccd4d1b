//! A list in pieces: so that a long one is nowhere held whole.

use super::JobRecord;

/// A stretch of a list of jobs, as far as a broker has looked in one go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// Those that match, newest first; perhaps none.
    pub jobs: Vec<JobRecord>,
    /// Where the next stretch begins; `None` at the end of the list.
    pub next: Option<Cursor>,
}

/// Where a list goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// What it counts is the broker's business.
    pub place: i64,
    /// How many jobs may still come.
    pub left: u64,
}
