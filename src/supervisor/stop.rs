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
    stage: Stop,
    /// When the last KILL is sent.
    deadline: Instant,
    /// When to exit without the missing answers; None when that moment has passed.
    patience: Option<Instant>,
    /// Whether the last command was given.
    over: bool,
}

impl Stopping {
    pub(super) fn new(stage: Stop, deadline: Instant) -> Self {
        Stopping { stage, deadline, patience: Some(deadline + PATIENCE), over: false }
    }

    /// The stage of the stop.
    pub(super) fn stage(&self) -> Stop {
        self.stage
    }

    /// Goes on to this stage, if it is a later one. Gives the deadline, which stays.
    pub(super) fn raise(&mut self, stage: Stop) -> Instant {
        self.stage = self.stage.max(stage);
        self.deadline
    }

    /// Until when a worker that is ended now may live: a stop ends at its deadline, whatever grace the pool gives.
    pub(super) fn kill_by(&self, kill_at: Instant) -> Instant {
        kill_at.min(self.deadline)
    }

    /// When to exit without the missing answers.
    pub(super) fn due(&self) -> Option<Instant> {
        self.patience
    }

    /// Whether the last command was given.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Whether to exit now. What `waits` delays the exit only for a limited time; a process that can still be ended in
    /// time, `is_alive`, delays it until it has ended.
    pub(super) fn is_done(&mut self, now: Instant, is_alive: bool, waits: bool) -> bool {
        self.patience = self.patience.filter(|patience| now < *patience);
        self.over = !is_alive && (self.patience.is_none() || !waits);
        self.over
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
