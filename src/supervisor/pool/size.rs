//! When a pool asks for one more worker.

use std::time::Duration;

use model::Instant;

/// All workers must be busy for this time before the pool asks for one more.
const PRESSURE: Duration = Duration::from_secs(1);

/// State of the decision over one more worker.
#[derive(Debug)]
pub(crate) struct Size {
    /// When all workers will have been busy for long enough; None while one is idle, or no slot is free.
    at: Option<Instant>,
    asked: bool,
    /// Whether jobs may be waiting: cleared by asking, set by a wake-up and by a fetch that brought all it asked for.
    maybe_waiting: bool,
}

/// What follows from the broker's answer whether jobs wait.
pub(crate) enum Answer {
    /// Start one more worker, if there is a slot for it.
    Grow,
    /// Keep the number of workers.
    Stay,
    /// No job waits.
    Empty,
}

impl Size {
    pub(crate) fn new() -> Self {
        Size { at: None, asked: false, maybe_waiting: true }
    }

    /// Jobs may wait.
    pub(crate) fn woken(&mut self) {
        self.maybe_waiting = true;
    }

    /// A worker is idle, or no slot is free for another one.
    pub(crate) fn spare(&mut self) {
        self.at = None;
    }

    /// All workers are busy. Gives whether to ask now if jobs wait.
    pub(crate) fn pressed(&mut self, now: Instant) -> bool {
        let at = *self.at.get_or_insert(now + PRESSURE);
        let asks = at <= now && self.maybe_waiting && !self.asked;
        if asks {
            (self.asked, self.maybe_waiting) = (true, false);
        }
        asks
    }

    /// When to ask.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.at.filter(|_| self.maybe_waiting && !self.asked)
    }

    /// Whether an answer is outstanding.
    pub(crate) fn is_asking(&self) -> bool {
        self.asked
    }

    /// Handles the answer. After one more worker, the next one waits until that had time to help.
    pub(crate) fn answered(&mut self, now: Instant, waiting: bool) -> Answer {
        if !std::mem::take(&mut self.asked) {
            return Answer::Stay;
        }
        match (waiting, self.at) {
            (true, Some(_)) => {
                (self.maybe_waiting, self.at) = (true, Some(now + PRESSURE));
                Answer::Grow
            }
            (true, None) => {
                self.maybe_waiting = true;
                Answer::Stay
            }
            // A wake-up came since the question, so jobs may wait after all.
            (false, _) if self.maybe_waiting => Answer::Stay,
            (false, _) => Answer::Empty,
        }
    }
}
