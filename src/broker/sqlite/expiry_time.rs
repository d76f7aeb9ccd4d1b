//! When ended jobs are looked through for those that have been kept for long enough, and how far that has come.

pub(super) const SECOND: i64 = 1_000;
/// From the open to the first look, which commands that only put or show something do not live to see.
const FIRST: i64 = 5 * SECOND;
/// From the end of a look to the next one, if anything happens in the store.
const BETWEEN: i64 = 60 * SECOND;

/// How far the walks have come.
#[derive(Clone, Copy)]
pub(super) struct Expiry {
    /// When to look, in store time; none until something happens.
    pub(super) due: Option<i64>,
    pub(super) looked: i64,
    pub(super) all_again: i64,
    /// The last row passed on the way through all jobs, and through the failed ones.
    pub(super) places: [i64; 2],
}

impl Expiry {
    pub(super) fn new(now: i64) -> Self {
        let due = Some(now.saturating_add(FIRST));
        Expiry { due, looked: now, all_again: i64::MIN, places: [i64::MIN; 2] }
    }

    /// Whether to look now. Should that fail, the next look is later.
    pub(super) fn begin(&mut self, now: i64) -> bool {
        let is_due = self.due.is_some_and(|due| due <= now);
        if is_due {
            self.due = Some(now.saturating_add(BETWEEN));
        }
        is_due
    }

    /// Something is written.
    pub(super) fn stir(&mut self, now: i64) {
        self.due.get_or_insert(now.max(self.looked.saturating_add(BETWEEN)));
    }
}
