//! How soon to try again.

use std::collections::VecDeque;
use std::time::Duration;

use crate::model::Instant;

/// A life this long was worth its start, whatever it did.
pub(super) const GOOD_LIFE: Duration = Duration::from_secs(10);

/// So many deaths before ready …
const BOOT_DEATHS: usize = 5;
/// … in so short a time leave a pool one slot to try with.
const BOOT_PERIOD: Duration = Duration::from_secs(30);

/// So many at most are on their way at a time while none of their pool takes jobs: what kills the first of them would kill
/// them all.
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
    /// Whether a worker was ever ready.
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

    /// A worker became ready.
    pub(super) fn succeeded(&mut self) {
        *self = Boots { proven: self.proven, ..Boots::default() };
    }
}

/// Jitter that can be replayed: splitmix64.
#[derive(Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// A number below `count`.
    pub(super) fn below(&mut self, count: usize) -> usize {
        (self.next() % count.max(1) as u64) as usize
    }

    /// `wait` and up to `percent` more, so that what failed together does not come back together.
    pub(super) fn jitter(&mut self, wait: Duration, percent: u32) -> Duration {
        let share = (self.next() % 1001) as u32;
        wait.saturating_add(wait / 100_000 * percent * share)
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

    #[test]
    fn jitter_only_adds_and_stays_below_its_share() {
        let (mut random, second) = (Random(7), Duration::from_secs(1));
        for _ in 0..1000 {
            let wait = random.jitter(second, 20);
            assert!((second..=second * 6 / 5).contains(&wait), "{wait:?}");
        }
    }
}
