//! A gap: this process did not run, because the machine was paused or it was stopped itself. Where the machine stood
//! still, so did the job: a gap counts towards no limit.

use std::time::Duration;

use super::running::MARGIN;
use super::{Running, Slot};
use model::Instant;

/// A supervisor that is woken later than this has been stopped, and is not only slow.
const STOPPED: Duration = Duration::from_secs(3);
/// One that is woken later than this before the broker has answered was stopped again.
const AGAIN: Duration = Duration::from_secs(1);
/// How long the broker has for the answer to the renewals after a gap.
const PATIENCE: Duration = Duration::from_secs(3);
/// Limit of how often one lease is spared. A host that a job starves wakes us late each time: there the job must end.
const MOST: u8 = 8;

/// Time for which the supervisor did not run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gap {
    /// Delay of what was due.
    pub(crate) late: Duration,
    /// The time since it last did anything.
    pub(crate) since_last: Duration,
}

impl Gap {
    /// The time that counts towards nothing. The gap may have begun at any moment since the supervisor last did
    /// anything; the jobs get the benefit of the doubt, but not more of it than is sure: on a host that a job makes slow,
    /// its limit would never come.
    pub(crate) fn stopped(self) -> Option<Duration> {
        (self.late >= STOPPED).then_some(self.since_last.min(self.late * 2))
    }
}

impl Slot {
    /// Takes the gap out of all times that run.
    pub(crate) fn bear(&mut self, now: Instant, gap: Gap) {
        let stopped = gap.stopped();
        if self.life.armed.is_some_and(|armed| armed <= now) {
            self.life.fell_by = Some(now + PATIENCE);
        }
        self.leased_mut().for_each(|running| running.spare(now, gap.late, stopped.is_some()));
        let Some(stopped) = stopped else { return };
        if let Some(kill_at) = self.state.kill_at() {
            *kill_at = *kill_at + stopped;
        }
        for job in &mut self.jobs {
            job.gap = Some((now, stopped));
            job.stopped += stopped;
            job.deadline = job.deadline.map(|deadline| deadline + stopped);
        }
    }

    /// Whether the keeper's self-fence of this life has fallen, or may have while this process stood still.
    pub(crate) fn has_fallen(&self, now: Instant) -> bool {
        self.life.armed.is_some_and(|armed| armed <= now)
            || self.life.fell_by.is_some_and(|fell_by| now <= fell_by)
    }
}

impl Running {
    /// Gives the broker time to say whose the job is: all of it once for each lease, then as much as the next stops have
    /// surely taken from it, up to [`MOST`] times. The keeper does the same with its fence, if it has stood still as
    /// well: beyond the end of the lease only if that was past, as one that is a moment late may be busy.
    fn spare(&mut self, now: Instant, late: Duration, was_stopped: bool) {
        let is_due = self.lease.expires_at - MARGIN <= now;
        let times = self
            .spared_for
            .filter(|(lease, _)| *lease == self.lease.expires_at)
            .map_or(0, |(_, times)| times);
        let begins = was_stopped || is_due && (times == 0 || late >= AGAIN);
        if times >= MOST || !begins {
            return;
        }
        let patience = if times == 0 { PATIENCE } else { late.min(PATIENCE) };
        self.spared_for = Some((self.lease.expires_at, times + 1));
        self.spared = self.spared.max(now + patience);
        if is_due {
            let is_over = self.lease.expires_at <= now;
            self.reprieved = if is_over { self.spared + MARGIN } else { self.lease.expires_at - MARGIN / 2 };
        }
    }
}
