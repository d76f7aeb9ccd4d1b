//! What a slot remembers of its former lives: how they ended, and so how soon the next one begins.

use std::time::Duration;

use super::life::{End, Life};
use crate::restart::Backoff;

/// What is known of the former lives of a slot.
#[derive(Debug)]
pub(super) struct Record {
    /// Whether a worker has become ready here, and none has failed to since.
    booted: bool,
    /// Whether the last worker here died before it was ready, and none has been ready since.
    failing: bool,
    /// Number of lives in a row in which a job could not be begun.
    unfit: u32,
    backoff: Backoff,
    /// Number of lives that ended unexpectedly; `why` says how the latest did.
    restarts: u32,
    why: Option<String>,
}

impl Record {
    pub(super) fn new() -> Self {
        Record { booted: false, failing: false, unfit: 0, backoff: Backoff::RESTART, restarts: 0, why: None }
    }

    /// A worker has become ready.
    pub(super) fn note_ready(&mut self) {
        (self.booted, self.failing) = (true, false);
    }

    /// This life is over; `stays_empty`: no other follows. Gives the wait before the next one.
    pub(super) fn note_end(
        &mut self,
        (life, was_of_use): (&Life, bool),
        end: End,
        stays_empty: bool,
        mut wait: impl FnMut(Duration) -> Duration,
    ) -> Duration {
        if was_of_use {
            self.backoff.succeeded();
        }
        let wait = match end {
            End::Planned | End::Good(_) => Duration::ZERO,
            End::Early(_) => wait(self.backoff.failed()),
        };
        match (&life.unfit, life.taken) {
            (Some(_), _) => self.unfit += 1,
            (None, 1..) => self.unfit = 0,
            (None, 0) => {}
        }
        match end {
            End::Planned => {}
            End::Good(why) | End::Early(why) => {
                self.failing |= !life.ready || life.unfit.is_some();
                self.restarts += 1;
                self.why = Some(why);
            }
        }
        self.booted = life.ready && !stays_empty;
        wait
    }

    /// Whether a worker has become ready, and none has failed to since.
    pub(super) fn is_booted(&self) -> bool {
        self.booted
    }

    /// Whether the last worker died before it was ready, and none has been ready since.
    pub(super) fn is_failing(&self) -> bool {
        self.failing
    }

    /// Number of lives that ended unexpectedly.
    pub(super) fn restarts(&self) -> u32 {
        self.restarts
    }

    /// How the latest of them ended.
    pub(super) fn last_words(&self) -> Option<&str> {
        self.why.as_deref()
    }

    /// The same, if no job could be begun in at least this many lives in a row.
    pub(super) fn why_unfit(&self, tries: u32) -> Option<&str> {
        self.last_words().filter(|_| self.unfit >= tries)
    }
}
