//! Exchanges worn out workers for new ones, a few at a time. The only worker of a pool stays until its heir is ready.

use crate::Supervisor;
use model::Instant;

impl Supervisor {
    /// Has worn out workers leave: at once where others are at work, else when the worker of an heir is ready.
    pub(super) fn exchange_worn(&mut self, now: Instant) {
        for number in 0..self.pools.len() {
            match self.pools[number].worn_alone(now) {
                Some(wear) => {
                    let fresh = self.pools[number].configured().clone();
                    self.pools[number].be_relieved(wear);
                    self.replace(now, number, fresh);
                }
                None => self.pools[number].exchange_worn(now),
            }
        }
        self.leave_room();
    }

    /// A worn out worker may still have jobs when its heir is ready. The heir leaves them their places, so that a pool
    /// of one never runs two jobs at a time because of its rules.
    fn leave_room(&mut self) {
        let relieved = self.pools.iter().filter(|pool| pool.is_relieved());
        let left: Vec<(String, usize)> =
            relieved.map(|pool| (pool.name().to_owned(), pool.leased())).collect();
        for pool in self.pools.iter_mut() {
            let of_it = left.iter().filter(|(name, _)| !pool.is_outdated() && name == pool.name());
            let leased = of_it.map(|(_, leased)| leased).sum();
            pool.leave_room(leased);
        }
    }
}
