//! Records of the loop for its status: orders of people, the verdict.

use std::sync::Arc;

use super::authors::Authors;
use super::fresh::Kept;
use super::watch::Watch;
use model::Instant;
use outbox::Outbox;
use supervisor::Event;

/// The record of one supervisor.
pub(super) struct Record {
    /// Orders that came by signals and are yet to be carried out, with the names of the signals.
    pub(super) by_signal: Vec<(Event, &'static str)>,
    /// Authors of the latest pauses, scalings and recyclings, by pool.
    pub(super) authors: Authors,
    /// The latest change of a pool while it is being stored.
    pub(super) keeping: Kept,
    /// Whether held jobs make the verdict degraded.
    pub(super) held_degrades: bool,
    /// Decides when to judge the health of the service.
    pub(super) watch: Watch,
    /// When the supervisor started.
    pub(super) started: Instant,
    /// Keeps new jobs that cannot be put now.
    pub(super) outbox: Option<Arc<Outbox>>,
}

impl Record {
    /// The record of a supervisor that starts now.
    pub(super) fn new(authors: Authors, held_degrades: bool) -> Record {
        let now = clock::now();
        Record {
            by_signal: Vec::new(),
            authors,
            keeping: None,
            held_degrades,
            watch: Watch::new(now),
            started: now,
            outbox: None,
        }
    }
}
