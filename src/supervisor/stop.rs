//! How to end.

use std::time::Duration;

use crate::model::{Instant, Signal, Stop};

/// What is not over so long after the last KILL is left to the next start.
const PATIENCE: Duration = Duration::from_secs(5);

/// An order to stop.
#[derive(Debug)]
pub(super) struct Stopping {
    /// How far it has come. It only goes up.
    pub(super) stage: Stop,
    /// The last KILL.
    pub(super) deadline: Instant,
    /// When to go without an answer; None when that moment has passed.
    pub(super) patience: Option<Instant>,
    /// The last command was given.
    pub(super) over: bool,
}

impl Stopping {
    pub(super) fn new(stage: Stop, deadline: Instant) -> Self {
        Stopping { stage, deadline, patience: Some(deadline + PATIENCE), over: false }
    }

    /// What a worker should be sent on account of the stop.
    pub(super) fn signal(&self, now: Instant, has_jobs: bool, grace: Duration) -> Option<Signal> {
        match self.stage {
            Stop::Drain if !has_jobs || now >= self.term_at(grace) => Some(Signal::Term),
            Stop::Drain => None,
            Stop::Terminate => Some(Signal::Term),
            Stop::Kill => Some(Signal::Kill),
        }
    }

    /// When a worker that still runs jobs is sent TERM on account of the stop.
    pub(super) fn term_at(&self, grace: Duration) -> Instant {
        self.deadline - grace
    }
}
