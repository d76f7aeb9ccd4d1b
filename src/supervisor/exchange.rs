//! Exchanges worn out workers for new ones, a few at a time.

use super::pool::Pool;
use super::why::Why;
use crate::model::{Instant, Recycle};

impl Pool {
    /// Has worn out workers leave, as long as no more than a quarter of the pool is away. The oldest goes first:
    /// otherwise it might never leave where the others wear out again before its turn.
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

    /// When the next worker is worn out; None while a quarter of them is away.
    pub(super) fn worn_at(&self) -> Option<Instant> {
        if self.settings.recycle == Recycle::default() || self.exchangeable() == 0 {
            return None;
        }
        let slots = self.slots.iter().filter(|slot| slot.works_on());
        slots.filter_map(|slot| slot.life.worn_at(slot.leased().next().is_none())).map(|(at, _)| at).min()
    }

    /// How many more workers may leave: a quarter of all, minus those that are away.
    fn exchangeable(&self) -> usize {
        let wanted = self.slots.iter().filter(|slot| !slot.is_template() && slot.is_wanted());
        let (all, away) = wanted
            .fold((0_usize, 0_usize), |(all, away), slot| (all + 1, away + usize::from(!slot.works_on())));
        (all / 4).max(1).saturating_sub(away)
    }
}
