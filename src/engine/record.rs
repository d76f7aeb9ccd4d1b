//! Records of the loop for its status: orders by signals, the settings, the verdict.

use std::sync::Arc;

use super::watch::Watch;
use model::Instant;
use outbox::Outbox;
use supervisor::Event;

/// The record of one supervisor.
pub(super) struct Record {
    /// Orders that came by signals and are yet to be carried out, with the names of the signals.
    pub(super) by_signal: Vec<(Event, &'static str)>,
    /// The error in the settings that were read last.
    pub(super) settings_trouble: Option<String>,
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
    pub(super) fn new(held_degrades: bool) -> Record {
        let now = clock::now();
        Record {
            by_signal: Vec::new(),
            settings_trouble: None,
            held_degrades,
            watch: Watch::new(now),
            started: now,
            outbox: None,
        }
    }
}
