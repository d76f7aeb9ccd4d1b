//! The pools of a supervisor, each at its number, with those that are outdated.

use std::ops::{Deref, DerefMut};

use crate::pool::Pool;
use model::{Instant, PoolSettings, QueueName, WorkerId};

/// The pools, each at its number.
#[derive(Debug)]
pub(super) struct Pools {
    pools: Vec<Pool>,
    /// Number of pools so far, also those that are gone: it numbers the next one.
    founded: u64,
    first_generation: u32,
}

impl Deref for Pools {
    type Target = [Pool];

    fn deref(&self) -> &[Pool] {
        &self.pools
    }
}

impl DerefMut for Pools {
    fn deref_mut(&mut self) -> &mut [Pool] {
        &mut self.pools
    }
}

impl Pools {
    /// The pools of a supervisor that starts; their first lives have this generation.
    pub(super) fn new(settings: Vec<PoolSettings>, first_generation: u32, now: Instant) -> Self {
        let pools = settings.into_iter().zip(0..);
        let pools = pools.map(|(settings, number)| Pool::new(number, 0, settings, first_generation, now));
        Pools { pools: pools.collect(), founded: 0, first_generation }
    }

    /// The pools that are to stay.
    pub(super) fn lasting(&self) -> impl Iterator<Item = &Pool> {
        self.pools.iter().filter(|pool| !pool.is_outdated())
    }

    /// Those of them that take jobs from a queue.
    pub(super) fn of_queue(&self, queue: &QueueName) -> impl Iterator<Item = &Pool> {
        self.lasting().filter(move |pool| pool.settings().queues.contains(queue))
    }

    /// The pools in the order of the settings; an outdated one comes before its heir.
    pub(super) fn in_order(&self) -> impl Iterator<Item = &Pool> {
        let mut pools: Vec<&Pool> = self.pools.iter().filter(|pool| !pool.is_gone()).collect();
        pools.sort_by_key(|pool| pool.standing());
        pools.into_iter()
    }

    /// The numbers of the pools of this name, or of all, that are to stay.
    pub(super) fn named(&self, name: Option<&str>) -> Vec<usize> {
        let current = self.pools.iter().enumerate().filter(|(_, pool)| !pool.is_outdated());
        let named = current.filter(|(_, pool)| name.is_none_or(|name| pool.name() == name));
        named.map(|(number, _)| number).collect()
    }

    /// The number of the pool of this name that is to stay.
    pub(super) fn current(&self, name: &str) -> Option<usize> {
        self.named(Some(name)).first().copied()
    }

    /// The index of the pool and of the slot of a life. The pool is the one of its number, except for some lives of an
    /// earlier supervisor.
    pub(super) fn place_of(&self, worker: WorkerId) -> Option<(usize, usize)> {
        let place_in = |at: usize| {
            let slot = self.pools.get(at)?.find(worker)?;
            Some((at, slot))
        };
        place_in(usize::from(worker.slot.pool)).or_else(|| (0..self.pools.len()).find_map(place_in))
    }

    /// Makes a new pool, at the number of one that is gone, or behind all others, and gives it. `is_in_use`: something
    /// is still counted by this number.
    pub(super) fn found(
        &mut self,
        now: Instant,
        settings: PoolSettings,
        is_in_use: impl Fn(u16) -> bool,
    ) -> Option<&mut Pool> {
        let is_free = |pool: &Pool| pool.is_gone() && !is_in_use(pool.number());
        let free = self.pools.iter().position(is_free);
        let at = free.unwrap_or(self.pools.len());
        let number = u16::try_from(at).ok()?;
        // No two lives have the same id: so count on from the lives of the pool that had this number, and of those of
        // this name.
        let earlier = self.pools.iter().enumerate();
        let earlier = earlier.filter(|(number, pool)| Some(*number) == free || pool.name() == settings.name);
        let generation = earlier.flat_map(|(_, pool)| pool.generations()).max();
        let generation = generation.map_or(self.first_generation, |used| used + 1);
        self.founded += 1;
        let pool = Pool::new(number, self.founded, settings, generation, now);
        match free {
            Some(at) => self.pools[at] = pool,
            None => self.pools.push(pool),
        }
        self.pools.get_mut(at)
    }
}
