//! Exchanges worn out workers for new ones, a few at a time. The only worker of a pool stays until its heir is ready.

use super::Supervisor;
use super::pool::Pool;
use super::wear::Wear;
use super::why::Why;
use model::{Instant, Recycle};

impl Supervisor {
    /// Has worn out workers leave: at once where others are at work, else when the worker of an heir is ready.
    pub(super) fn exchange_worn(&mut self, now: Instant) {
        for number in 0..self.pools.len() {
            match self.pools[number].worn_alone(now) {
                Some(wear) => {
                    let fresh = self.pools[number].configured.clone();
                    self.replace(now, number, fresh);
                    self.pools[number].worn = Some(wear);
                }
                None => self.pools[number].exchange_worn(now),
            }
        }
        self.leave_room();
    }

    /// A worn out worker may still have jobs when its heir is ready. The heir leaves them their places, so that a pool
    /// of one never runs two jobs at a time because of its rules.
    fn leave_room(&mut self) {
        let leased = |pool: &Pool| pool.slots.iter().map(|slot| slot.leased().count()).sum();
        let worn = self.pools.iter().filter(|pool| pool.worn.is_some());
        let left: Vec<(String, usize)> =
            worn.map(|pool| (pool.settings.name.clone(), leased(pool))).collect();
        for pool in &mut self.pools {
            let of_it = left.iter().filter(|(name, _)| !pool.outdated && *name == pool.settings.name);
            pool.intake.beside = of_it.map(|(_, leased)| leased).sum();
        }
    }
}

impl Pool {
    /// Has worn out workers leave, as long as no more than a quarter of the pool is away. The oldest goes first:
    /// otherwise it might never leave where the others wear out again before its turn.
    fn exchange_worn(&mut self, now: Instant) {
        for _ in 0..self.exchangeable() {
            let Some(at) = self.first_worn(now) else { return };
            let mut slot = self.slots.edit(at, &self.settings);
            let is_idle = slot.leased().next().is_none();
            slot.life.leaving = slot.life.wear(now, is_idle).map(Why::Worn);
        }
    }

    /// Why the only worker of the pool is worn out, if it is and an heir is to come before it leaves. A worker that is to
    /// have one job only has no second one while its heir starts.
    fn worn_alone(&self, now: Instant) -> Option<Wear> {
        let is_alone = self.is_alone() && !self.outdated && self.settings.recycle.jobs != Some(1);
        let at = self.first_worn(now).filter(|_| is_alone && self.exchangeable() > 0)?;
        let slot = &self.slots[at];
        slot.life.wear(now, slot.leased().next().is_none())
    }

    fn first_worn(&self, now: Instant) -> Option<usize> {
        let index = self.slots.index();
        let worn = index.worn.positions().chain(index.ages.between(Instant(0), now));
        worn.min_by_key(|at| (self.slots[*at].life.born, *at))
    }

    /// Whether no other worker takes jobs while one is replaced.
    fn is_alone(&self) -> bool {
        self.slots.index().wanted.len() == 1
    }

    /// When the next worker is worn out; None while a quarter of them is away.
    pub(super) fn worn_at(&self) -> Option<Instant> {
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
        let all = self.slots.index().wanted.len();
        let away = all - self.slots.index().working.len();
        (all / 4).max(1).saturating_sub(away)
    }
}
