//! When to walk over ended jobs for those that were kept long enough, and how far the walk is.

pub(super) const SECOND: i64 = 1_000;
/// Time from the open to the first walk. Commands that only put or show something end before it.
const FIRST: i64 = 5 * SECOND;
/// Time from the end of a walk to the next one, if anything happens in the store.
const BETWEEN: i64 = 60 * SECOND;
/// The same if nothing happens there: what is kept for days may be removed an hour later.
const IDLE: i64 = 3_600 * SECOND;
/// Number of jobs after whose ends a walk does not wait for that time, so that the store does not grow by all that end
/// in a minute.
const MANY: usize = 5_000;

/// How far the walks are.
#[derive(Clone, Copy)]
pub(super) struct Expiry {
    /// When to go on, in store time; None until something happens, or an hour has passed.
    pub(super) due: Option<i64>,
    pub(super) looked: i64,
    pub(super) all_again: i64,
    /// The last row passed by the walk over all jobs, and by that over the failed ones.
    pub(super) places: [i64; 2],
    /// Number of jobs that have ended since this last made a walk due.
    pub(super) ended: usize,
}

impl Expiry {
    pub(super) fn new(now: i64) -> Self {
        let due = Some(now.saturating_add(FIRST));
        Expiry { due, looked: now, all_again: i64::MIN, places: [i64::MIN; 2], ended: 0 }
    }

    /// When to go on, whatever happens.
    pub(super) fn next(&self) -> i64 {
        self.due.unwrap_or(self.looked.saturating_add(IDLE))
    }

    /// Whether to go on now. If that fails, the next try is later.
    pub(super) fn begin(&mut self, now: i64) -> bool {
        let is_due = self.next() <= now;
        if is_due {
            self.due = Some(now.saturating_add(BETWEEN));
        }
        is_due
    }

    /// Something was written: starts the wait for the next walk.
    pub(super) fn stir(&mut self, now: i64) {
        self.due.get_or_insert(now.max(self.looked.saturating_add(BETWEEN)));
    }

    /// Jobs have ended: after many, the next walk is due.
    pub(super) fn count_ended(&mut self, jobs: usize, now: i64) {
        self.ended += jobs;
        if self.ended >= MANY {
            (self.ended, self.due) = (0, Some(self.due.map_or(now, |due| due.min(now))));
        }
    }
}
