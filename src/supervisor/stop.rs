//! How the supervisor stops.

use std::time::Duration;

use model::{Instant, Signal, Stop};

/// After the last KILL the supervisor waits this long, and leaves the rest to the next start.
const PATIENCE: Duration = Duration::from_secs(5);

/// An order to stop.
#[derive(Debug)]
pub(super) struct Stopping {
    /// The stage of the stop. It never goes back.
    pub(super) stage: Stop,
    /// When the last KILL is sent.
    pub(super) deadline: Instant,
    /// When to exit without the missing answers; None when that moment has passed.
    pub(super) patience: Option<Instant>,
    /// Whether the last command was given.
    pub(super) over: bool,
}

impl Stopping {
    pub(super) fn new(stage: Stop, deadline: Instant) -> Self {
        Stopping { stage, deadline, patience: Some(deadline + PATIENCE), over: false }
    }

    /// This process did not run for a while. A job that stood still as well has its grace left, and what came meanwhile
    /// is heard before the end.
    pub(super) fn bear(&mut self, stopped: Duration) {
        self.deadline = self.deadline + stopped;
        self.patience = self.patience.map(|patience| patience + stopped);
    }

    /// The signal that the stop requires for a worker now, if any.
    pub(super) fn signal(&self, now: Instant, has_jobs: bool, grace: Duration) -> Option<Signal> {
        match self.stage {
            Stop::Drain if !has_jobs || now >= self.term_at(grace) => Some(Signal::Term),
            Stop::Drain => None,
            Stop::Terminate => Some(Signal::Term),
            Stop::Kill => Some(Signal::Kill),
        }
    }

    /// When the stop sends TERM to a worker that still runs jobs.
    pub(super) fn term_at(&self, grace: Duration) -> Instant {
        self.deadline - grace
    }
}
