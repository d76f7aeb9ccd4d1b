//! When a pool asks for one more worker.

use std::time::Duration;

use crate::model::Instant;

/// All are at work for so long before one more is started.
const PRESSURE: Duration = Duration::from_secs(1);

/// What decides over one more worker.
#[derive(Debug)]
pub(super) struct Size {
    /// When all have been at work for long enough; None while one has nothing to do, or there is no place.
    at: Option<Instant>,
    asked: bool,
    /// Whether asking is worth it: cleared by asking, set by a wake-up and by a fetch that brought all it asked for.
    maybe_waiting: bool,
}

/// What follows from the answer to whether jobs wait.
pub(super) enum Answer {
    /// One more worker, if there is a place for it.
    Grow,
    /// As many workers as before.
    Stay,
    /// No job waits.
    Empty,
}

impl Size {
    pub(super) fn new() -> Self {
        Size { at: None, asked: false, maybe_waiting: true }
    }

    /// Jobs may wait.
    pub(super) fn woken(&mut self) {
        self.maybe_waiting = true;
    }

    /// A worker has nothing to do, or there is no place for another one.
    pub(super) fn spare(&mut self) {
        self.at = None;
    }

    /// All are at work. Gives whether to ask now if jobs wait.
    pub(super) fn pressed(&mut self, now: Instant) -> bool {
        let at = *self.at.get_or_insert(now + PRESSURE);
        let asks = at <= now && self.maybe_waiting && !self.asked;
        if asks {
            (self.asked, self.maybe_waiting) = (true, false);
        }
        asks
    }

    /// When to ask.
    pub(super) fn due(&self) -> Option<Instant> {
        self.at.filter(|_| self.maybe_waiting && !self.asked)
    }

    /// Whether the answer is under way.
    pub(super) fn is_asking(&self) -> bool {
        self.asked
    }

    /// The answer. After one more worker the next one comes no sooner than that had time to help.
    pub(super) fn answered(&mut self, now: Instant, waiting: bool) -> Answer {
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
            // A wake-up since then says otherwise.
            (false, _) if self.maybe_waiting => Answer::Stay,
            (false, _) => Answer::Empty,
        }
    }
}
