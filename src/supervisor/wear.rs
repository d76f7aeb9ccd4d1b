//! Workers that have run for long enough are exchanged for new ones, a few at a time.

use std::time::Duration;

use super::pool::Pool;
use super::restart::Random;
use super::worker::{Life, Slot, State, Why};
use crate::model::{Instant, Recycle};

/// What began together does not end together: up to so many percent more for each life.
const JITTER: u32 = 10;

/// What a life is worn out by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wear {
    /// So many jobs.
    Jobs,
    /// It has lived for long enough.
    Age,
    /// Nothing to do for long.
    Idle,
    /// It has grown too large.
    Memory,
}

impl Wear {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Wear::Jobs => "recycled: jobs",
            Wear::Age => "recycled: age",
            Wear::Idle => "recycled: idle",
            Wear::Memory => "recycled: memory",
        }
    }
}

/// The rules of a pool, as they count for one life.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wears(Recycle);

impl Wears {
    /// Drawn for one life.
    pub(super) fn draw(rules: Recycle, random: &mut Random) -> Wears {
        let mut later = |wait: Duration| random.jitter(wait, JITTER);
        let (age, idle) = (rules.age.map(&mut later), rules.idle.map(&mut later));
        let jobs = rules.jobs.map(|jobs| {
            let more =
                usize::try_from(jobs.saturating_mul(u64::from(JITTER)) / 100).unwrap_or(usize::MAX - 1);
            jobs.saturating_add(random.below(more + 1) as u64)
        });
        Wears(Recycle { jobs, age, idle, ..rules })
    }
}

impl Life {
    /// How many more jobs wear it out, if it is not worn out and has yet to be exchanged.
    pub(super) fn until_worn(&self) -> Option<u64> {
        self.wears.0.jobs.map(|most| most.saturating_sub(self.taken)).filter(|left| *left > 0)
    }

    /// Why it is worn out, if it is.
    fn wear(&self, now: Instant, idle: bool) -> Option<Wear> {
        let Wears(rules) = self.wears;
        let age = self.worn_at(idle).filter(|(at, _)| *at <= now).map(|(_, wear)| wear);
        let jobs = rules.jobs.filter(|most| self.taken >= *most).map(|_| Wear::Jobs);
        self.outgrown.then_some(Wear::Memory).or(jobs).or(age)
    }

    /// When it will be worn out if nothing happens.
    fn worn_at(&self, idle: bool) -> Option<(Instant, Wear)> {
        let Wears(rules) = self.wears;
        let age = rules.age.map(|age| (self.born + age, Wear::Age));
        let idle = rules.idle.filter(|_| idle).map(|idle| (self.idle_since + idle, Wear::Idle));
        age.into_iter().chain(idle).min_by_key(|(at, _)| *at)
    }
}

impl Pool {
    /// Has workers that are worn out leave, as long as no more than a quarter of the pool is away. The oldest goes first:
    /// else it would never go where the others are worn out again before its turn.
    pub(super) fn exchange_worn(&mut self, now: Instant) {
        for _ in 0..self.exchangeable() {
            let works = self.slots.iter_mut().filter(|slot| slot.works_on());
            let worn = works.filter_map(|slot| {
                let wear = slot.life.wear(now, slot.leased().next().is_none())?;
                Some((slot, wear))
            });
            let Some((slot, wear)) = worn.min_by_key(|(slot, _)| slot.life.born) else { return };
            slot.life.leaving = Some(Why::Worn(wear));
        }
    }

    /// When the next one is worn out; None while enough of them are away.
    pub(super) fn worn_at(&self) -> Option<Instant> {
        if self.settings.recycle == Recycle::default() || self.exchangeable() == 0 {
            return None;
        }
        let slots = self.slots.iter().filter(|slot| slot.works_on());
        slots.filter_map(|slot| slot.life.worn_at(slot.leased().next().is_none())).map(|(at, _)| at).min()
    }

    /// How many more may leave: a quarter of all, without those that are away.
    fn exchangeable(&self) -> usize {
        let wanted = self.slots.iter().filter(|slot| !slot.is_template() && slot.is_wanted());
        let (all, away) = wanted
            .fold((0_usize, 0_usize), |(all, away), slot| (all + 1, away + usize::from(!slot.works_on())));
        (all / 4).max(1).saturating_sub(away)
    }
}

impl Slot {
    /// Whether it takes jobs, and is to go on with it.
    pub(super) fn works_on(&self) -> bool {
        let works = matches!(self.state, State::Ready | State::Busy) && !self.is_template();
        works && self.life.leaving.is_none()
    }
}
