//! Changes settings while jobs run. A pool whose workers must be replaced gets an heir: a second pool of its name,
//! whose workers start beside the old ones. An old worker leaves when one of the heir is ready, so that there is always
//! a worker for a job. All old workers stay if the heir cannot boot.

use crate::pool::Pool;
use crate::{Command, Supervisor};
use model::{Change, Instant, PoolNow, PoolSettings, Settings};

/// What becomes of a pool when the settings change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The pool goes on as it is.
    Keep,
    /// It goes on with the same workers.
    Adapt,
    /// It gets new workers, which start beside the old ones.
    Replace,
    /// The pool is new.
    Found,
    /// The pool ends its jobs and goes.
    End,
}

impl Step {
    /// The step in words, for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Step::Keep => "unchanged",
            Step::Adapt => "changed, with the same workers",
            Step::Replace => "gets new workers",
            Step::Found => "new",
            Step::End => "taken out",
        }
    }
}

impl Supervisor {
    /// The step that each pool would take under other settings, by name.
    pub fn preview(&self, settings: &Settings) -> Vec<(String, Step)> {
        let steps = settings.pools.iter().map(|fresh| (fresh.name.clone(), self.step(fresh).0));
        let current = self.pool_names().map(str::to_owned);
        let ended = current.filter(|name| !settings.has(name)).map(|name| (name, Step::End));
        steps.chain(ended).collect()
    }

    fn step(&self, fresh: &PoolSettings) -> (Step, usize) {
        let Some(number) = self.pools.current(&fresh.name) else { return (Step::Found, 0) };
        let configured = self.pools[number].configured();
        let step = match fresh.is_made_like(configured) {
            true if fresh == configured => Step::Keep,
            true => Step::Adapt,
            false => Step::Replace,
        };
        (step, number)
    }

    pub(super) fn on_reload(&mut self, now: Instant, settings: Settings) {
        (self.lease, self.stop_deadline) = (settings.lease, settings.stop_deadline);
        let removed = self.pools.iter_mut().filter(|pool| !settings.has(pool.name()));
        removed.for_each(Pool::retire);
        let names: Vec<String> = settings.pools.iter().map(|pool| pool.name.clone()).collect();
        for fresh in settings.pools {
            match self.step(&fresh) {
                (Step::Keep | Step::End, _) => {}
                (Step::Adapt, number) => self.adapt(now, number, fresh),
                (Step::Replace, number) => self.replace(now, number, fresh),
                (Step::Found, _) => _ = self.found(now, fresh),
            }
        }
        for pool in self.pools.iter_mut() {
            // A pool that was removed comes last.
            let rank = names.iter().position(|name| name == pool.name());
            pool.stand_at(rank.unwrap_or(names.len()));
        }
    }

    fn adapt(&mut self, now: Instant, number: usize, fresh: PoolSettings) {
        let pool = &mut self.pools[number];
        self.orders.push_back(Command::Equip(pool.number(), Box::new(fresh.clone())));
        pool.adapt(now, fresh);
    }

    /// A person asks for a change of a pool, or of all pools.
    pub(super) fn on_change(&mut self, now: Instant, name: Option<&str>, change: Change) {
        let is_of = |pool: &Pool| name.is_none_or(|name| pool.name() == name);
        match change {
            Change::Recycle => {
                for number in self.pools.named(name) {
                    let fresh = self.pools[number].configured().clone();
                    self.replace(now, number, fresh);
                }
            }
            Change::Scale(_) => {
                self.pools.named(name).into_iter().for_each(|number| self.pools[number].change(change));
            }
            // Also for old workers that take jobs until those of the heir are ready.
            Change::Pause | Change::Resume => {
                self.burst.changed(name);
                self.pools.iter_mut().filter(|pool| is_of(pool)).for_each(|pool| pool.change(change));
            }
        }
    }

    /// A size rule gives the pool another size: it replaces a size that a person has asked for.
    pub(super) fn on_resized(&mut self, name: &str, workers: u16) {
        for number in self.pools.named(Some(name)) {
            self.pools[number].size_to(workers);
        }
    }

    /// The changes since the settings were read, by pool. With them the settings give what is in force now.
    pub fn changes(&self) -> Vec<(String, Change)> {
        let named = |pool: &Pool| pool.changes().map(|change| (pool.name().to_owned(), change)).collect();
        self.pools.lasting().flat_map(|pool| -> Vec<_> { named(pool) }).collect()
    }

    /// What holds for the pool of this name, or for all pools that stay.
    pub fn pools_now(&self, name: Option<&str>) -> Vec<PoolNow> {
        let now = |pool: &Pool| PoolNow {
            pool: pool.name().to_owned(),
            workers_before: pool.settings().workers,
            workers: pool.settings().workers,
            paused: pool.is_paused(),
        };
        self.pools.named(name).into_iter().map(|number| now(&self.pools[number])).collect()
    }

    /// Makes an heir. It begins with as many workers as there are now, and keeps the changes made to the pool since its
    /// start.
    pub(super) fn replace(&mut self, now: Instant, number: usize, fresh: PoolSettings) {
        let old = &mut self.pools[number];
        old.retire();
        let estate = old.estate(&fresh);
        if let Some(heir) = self.found(now, fresh) {
            heir.take_over(now, estate);
        }
    }

    /// Makes a new pool, and gives it.
    fn found(&mut self, now: Instant, settings: PoolSettings) -> Option<&mut Pool> {
        // `on_settled` counts by the number of the pool: an unconfirmed verdict would go to the wrong one.
        let is_in_use = |number| self.unsettled.has_of(number);
        let pool = self.pools.found(now, settings, is_in_use)?;
        self.orders.push_back(Command::Equip(pool.number(), Box::new(pool.configured().clone())));
        Some(pool)
    }

    /// Has as many old workers leave as their heirs have replaced.
    pub(super) fn roll(&mut self, now: Instant) {
        // One that is gone may hold its number for long: it is replaced no more.
        let is_left = |pool: &Pool| pool.is_outdated() && !pool.is_gone();
        let mut outdated: Vec<usize> =
            (0..self.pools.len()).filter(|&number| is_left(&self.pools[number])).collect();
        // The latest pool first: its workers stay longest.
        outdated.sort_by_key(|&number| std::cmp::Reverse(self.pools[number].age()));
        let names: Vec<String> =
            outdated.iter().map(|&number| self.pools[number].name().to_owned()).collect();
        self.pools.iter_mut().for_each(|pool| pool.roll(&names));
        let mut missing: std::collections::BTreeMap<&str, usize> = std::collections::BTreeMap::new();
        for (number, name) in outdated.into_iter().zip(&names) {
            let heir = self.pools.current(name).map(|heir| self.pools[heir].to_come());
            let left = missing.entry(name).or_insert(heir.unwrap_or(0));
            // The workers that stay stand in for the heir's; a still older pool keeps only the rest.
            *left -= self.pools[number].make_way(now, *left);
        }
    }
}
