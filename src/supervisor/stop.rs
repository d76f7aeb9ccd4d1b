//! How the supervisor stops.

use std::time::Duration;

use model::{Instant, Signal, Stop};

/// After the last KILL the supervisor waits this long, and leaves the rest to the next start.
const PATIENCE: Duration = Duration::from_secs(5);

/// What came while this process did not run is heard within this time.
const HEARD: Duration = Duration::from_secs(1);

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
    /// is heard before the end: a process that could not die may have died.
    pub(super) fn bear(&mut self, now: Instant, stopped: Duration) {
        self.deadline = self.deadline + stopped;
        self.patience = self.patience.map(|patience| (patience + stopped).max(now + HEARD));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_while_this_process_stood_still_is_heard_before_the_end() {
        let at = Instant::from_millis;
        let mut stop = Stopping::new(Stop::Kill, at(10_000));
        // It last did something at the very moment to which its patience lasted.
        stop.bear(at(45_000), Duration::from_secs(30));
        assert_eq!((stop.deadline, stop.patience), (at(40_000), Some(at(46_000))));
        stop.bear(at(46_500), Duration::ZERO);
        assert_eq!(stop.patience, Some(at(47_500)), "also after a gap that counts towards limits");
    }
}
