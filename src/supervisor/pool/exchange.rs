//! Which workers of a pool are worn out, and how many of them may leave at a time.

use super::Pool;
use super::index::Kind;
use crate::wear::Wear;
use model::{Instant, Recycle};

impl Pool {
    /// Has worn out workers leave, as long as no more than a quarter of the pool is away. The oldest goes first:
    /// otherwise it might never leave where the others wear out again before its turn.
    pub(crate) fn exchange_worn(&mut self, now: Instant) {
        for _ in 0..self.exchangeable() {
            let Some(at) = self.first_worn(now) else { return };
            self.slots.edit(at, &self.settings).let_go_if_worn(now);
        }
    }

    /// Why the only worker of the pool is worn out, if it is and an heir is to come before it leaves. A worker that is to
    /// have one job only has no second one while its heir starts.
    pub(crate) fn worn_alone(&self, now: Instant) -> Option<Wear> {
        let is_alone = self.is_alone() && !self.outdated && self.settings.recycle.jobs != Some(1);
        let at = self.first_worn(now).filter(|_| is_alone && self.exchangeable() > 0)?;
        self.slots[at].wear(now)
    }

    fn first_worn(&self, now: Instant) -> Option<usize> {
        let index = self.slots.index();
        let worn = index.all(Kind::Worn).chain(index.ages.between(Instant(0), now));
        worn.min_by_key(|at| (self.slots[*at].born(), *at))
    }

    /// Whether no other worker takes jobs while one is replaced.
    fn is_alone(&self) -> bool {
        self.wanted() == 1
    }

    /// When the next worker is worn out; None while a quarter of them is away.
    pub(crate) fn worn_at(&self) -> Option<Instant> {
        if self.settings.recycle == Recycle::default() || self.exchangeable() == 0 {
            return None;
        }
        self.slots.index().ages.first().map(|(at, _)| at)
    }

    /// How many more workers may leave: a quarter of all, minus those that are away. None of a pool that is relieved by
    /// an heir, or that is an heir whose predecessor still has jobs.
    fn exchangeable(&self) -> usize {
        if self.worn.is_some() || self.is_alone() && self.rolling {
            return 0;
        }
        let all = self.wanted();
        // Workers that boot are away as well, whatever their predecessors ended for.
        let away = all - self.slots.index().count(Kind::Working);
        // At least one, or a pool of three would never exchange any.
        (all / 4).max(1).saturating_sub(away)
    }
}
