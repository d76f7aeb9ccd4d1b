//! Gaps: times in which this process did not run, because the machine was paused or it was stopped itself.
//!
//! The supervisor knows when it wanted to be woken. If that is past, it could neither renew a lease nor hear of an end.
//! What a gap means for a job only the broker knows: so renewals come first, and no job is given up before there was
//! time for the answer. The keeper, if it ran meanwhile, has ended in time what had to be. And a gap counts towards no
//! limit: where the machine stood still, so did the job.

use std::time::Duration;

use super::Supervisor;
use super::jobs::{MARGIN, Running};
use super::pool::Pool;
use super::worker::{Slot, State};
use model::Instant;

/// A supervisor that is woken later than this asks first.
const LATE: Duration = Duration::from_millis(250);
/// One that is woken later than this has been stopped, and is not only slow.
const STOPPED: Duration = Duration::from_secs(3);
/// How long the broker has for the answer to the renewals after a gap.
const PATIENCE: Duration = Duration::from_secs(3);

/// Time for which the supervisor did not run.
#[derive(Clone, Copy, Debug)]
struct Gap {
    /// Delay of what was due.
    late: Duration,
    /// The time since it last did anything.
    since_last: Duration,
}

impl Gap {
    /// The time that counts towards nothing. The gap may have begun at any moment since the supervisor last did
    /// anything; the jobs get the benefit of the doubt, but not more of it than is sure: on a host that a job makes slow,
    /// its limit would never come.
    fn stopped(self) -> Option<Duration> {
        (self.late >= STOPPED).then_some(self.since_last.min(self.late * 2))
    }
}

impl Supervisor {
    fn gap(&self, now: Instant) -> Option<Gap> {
        let since_last = now.since(self.seen);
        if since_last < LATE {
            return None;
        }
        let late = now.since(self.poll_timeout()?);
        (late >= LATE).then_some(Gap { late, since_last })
    }

    /// How long this process was stopped until now, if it was: for the log.
    pub fn stopped_for(&self, now: Instant) -> Option<Duration> {
        self.gap(now)?.stopped()
    }

    /// Comes before all decisions of a turn.
    pub(super) fn notice_gap(&mut self, now: Instant) {
        let gap = self.gap(now);
        self.seen = now;
        let Some(gap) = gap else { return };
        for Pool { slots, settings, .. } in &mut self.pools {
            slots.edit_all(settings, |slot| slot.bear(now, gap));
        }
    }
}

impl Slot {
    fn bear(&mut self, now: Instant, gap: Gap) {
        let stopped = gap.stopped();
        if self.life.armed.is_some_and(|armed| armed <= now) {
            self.life.fell_by = Some(now + PATIENCE);
        }
        self.leased_mut().for_each(|running| running.spare(now, stopped.is_some()));
        let Some(stopped) = stopped else { return };
        if let State::Starting | State::Stopping(_) = self.state {
            self.deadline = self.deadline.map(|deadline| deadline + stopped);
        }
        for job in &mut self.jobs {
            job.stopped += stopped;
            job.deadline = job.deadline.map(|deadline| deadline + stopped);
        }
    }
}

impl Running {
    /// Gives the broker time to say whose the job is, once for each lease. The keeper's fence moves only if it has not
    /// fallen, though it was due: then the keeper has stood still as well.
    fn spare(&mut self, now: Instant, was_stopped: bool) {
        let is_due = self.lease.expires_at - MARGIN <= now;
        if self.spared_for == Some(self.lease.expires_at) || !(is_due || was_stopped) {
            return;
        }
        self.spared_for = Some(self.lease.expires_at);
        self.spared = now + PATIENCE;
        if is_due {
            self.reprieved = self.spared + MARGIN;
        }
    }

    /// Whether the lease lasts, as far as this supervisor knows. A job whose lease may be another's does not begin.
    pub(super) fn is_sure(&self, now: Instant) -> bool {
        now < self.lease.expires_at - MARGIN
    }

    /// When the job must be given up if its lease is not renewed.
    pub(super) fn fence_at(&self, grace: Duration) -> Instant {
        super::jobs::fence_at(&self.lease, grace).max(self.spared)
    }

    /// When the job must be dead if its lease is not renewed.
    pub(super) fn dead_by(&self) -> Instant {
        (self.lease.expires_at - MARGIN).max(self.reprieved)
    }
}
