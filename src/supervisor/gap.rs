//! Notices gaps: times in which this process did not run, because the machine was paused or it was stopped itself.
//!
//! The supervisor knows when it wanted to be woken. If that is past, it could neither renew a lease nor hear of an end.
//! What a gap means for a job only the broker knows: so renewals come first, and no job is given up before there was
//! time for the answer. The keeper, if it ran meanwhile, has ended in time what had to be. And a gap counts towards no
//! limit: where the machine stood still, so did the job.

use std::time::Duration;

use crate::Supervisor;
use crate::slot::Gap;
use model::Instant;

/// A supervisor that is woken later than this asks first.
const LATE: Duration = Duration::from_millis(250);

impl Supervisor {
    fn gap(&self, now: Instant) -> Option<Gap> {
        let since_last = now.since(self.seen);
        // The cheap question first: `poll_timeout` looks at all pools.
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
        if let Some(stop) = &mut self.stop {
            stop.bear(now, gap.stopped().unwrap_or_default());
        }
        self.pools.iter_mut().for_each(|pool| pool.bear(now, gap));
    }
}
