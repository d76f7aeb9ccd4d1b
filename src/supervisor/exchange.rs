//! Exchanges worn out workers for new ones, a few at a time.

use super::pool::Pool;
use super::why::Why;
use crate::model::{Instant, Recycle};

impl Pool {
    /// Has worn out workers leave, as long as no more than a quarter of the pool is away. The oldest goes first:
    /// otherwise it might never leave where the others wear out again before its turn.
    pub(super) fn exchange_worn(&mut self, now: Instant) {
        for _ in 0..self.exchangeable() {
            let index = self.slots.index();
            let worn = index.worn.positions().chain(index.ages.between(Instant(0), now));
            let Some(at) = worn.min_by_key(|at| (self.slots[*at].life.born, *at)) else { return };
            let mut slot = self.slots.edit(at, &self.settings);
            let is_idle = slot.leased().next().is_none();
            slot.life.leaving = slot.life.wear(now, is_idle).map(Why::Worn);
        }
    }

    /// When the next worker is worn out; None while a quarter of them is away.
    pub(super) fn worn_at(&self) -> Option<Instant> {
        if self.settings.recycle == Recycle::default() || self.exchangeable() == 0 {
            return None;
        }
        self.slots.index().ages.first().map(|(at, _)| at)
    }

    /// How many more workers may leave: a quarter of all, minus those that are away.
    fn exchangeable(&self) -> usize {
        let all = self.slots.index().wanted.len();
        let away = all - self.slots.index().working.len();
        (all / 4).max(1).saturating_sub(away)
    }
}
