//! How soon to try again.

use std::collections::VecDeque;
use std::time::Duration;

use model::Instant;
pub(super) use model::Random;

/// A life this long is a good one, whatever ends it.
pub(super) const GOOD_LIFE: Duration = Duration::from_secs(10);

/// Number of deaths before ready …
const BOOT_DEATHS: usize = 5;
/// … within this period after which a pool tries with one slot only.
const BOOT_PERIOD: Duration = Duration::from_secs(30);

/// Limit of a pool's workers that boot at a time while none of it takes jobs: the cause that kills the first may kill them
/// all.
pub(super) const BOOTS: usize = 64;

/// A wait that doubles with every failure in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff {
    first: Duration,
    cap: Duration,
    next: Duration,
}

impl Backoff {
    /// Between lives of a slot.
    pub(super) const RESTART: Backoff = Backoff::new(100, 30_000);
    /// Between calls to a broker that does not answer.
    pub(super) const BROKER: Backoff = Backoff::new(100, 5_000);

    const fn new(first_ms: u64, cap_ms: u64) -> Self {
        let first = Duration::from_millis(first_ms);
        Backoff { first, cap: Duration::from_millis(cap_ms), next: first }
    }

    /// The wait after one more failure.
    pub(super) fn failed(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(self.cap);
        wait
    }

    /// The first success forgets all failures.
    pub(super) fn succeeded(&mut self) {
        self.next = self.first;
    }
}

/// Deaths before ready, of one pool.
#[derive(Debug, Default)]
pub(super) struct Boots {
    deaths: VecDeque<Instant>,
    /// Why the pool tries with one slot only.
    pub(super) probing: Option<String>,
    /// Whether a worker that takes jobs was ever ready.
    pub(super) proven: bool,
}

impl Boots {
    /// A worker died before it was ready.
    pub(super) fn died(&mut self, now: Instant) {
        self.deaths.push_back(now);
        while self.deaths.len() > BOOT_DEATHS {
            self.deaths.pop_front();
        }
        let oldest = self.deaths.front().copied().unwrap_or(now);
        if self.deaths.len() == BOOT_DEATHS && now.since(oldest) <= BOOT_PERIOD {
            let within = BOOT_PERIOD.as_secs();
            let why = format!("{BOOT_DEATHS} workers died within {within} s before they were ready");
            self.probing.get_or_insert(why);
        }
    }

    /// A worker became ready. `proves`: it takes jobs.
    pub(super) fn succeeded(&mut self, proves: bool) {
        *self = Boots { proven: self.proven || proves, ..Boots::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_doubles_up_to_its_cap_and_the_first_success_resets_it() {
        let mut backoff = Backoff::RESTART;
        let waits: Vec<u128> = (0..10).map(|_| backoff.failed().as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000]);
        backoff.succeeded();
        assert_eq!(backoff.failed().as_millis(), 100);
    }
}
