//! Random numbers that can be replayed: the pure rooms get a seed.

use std::time::Duration;

/// Numbers that follow from a seed (splitmix64). Not for secrets.
/// ```
/// use taskvisor_model::Random;
/// let (mut one, mut other) = (Random(7), Random(7));
/// assert_eq!(one.next(), other.next());
/// assert!(one.below(3) < 3);
/// ```
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    #[expect(clippy::should_implement_trait, reason = "it has no end, and nobody iterates over it")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// A number below `count`; 0 if `count` is 0.
    pub fn below(&mut self, count: usize) -> usize {
        (self.next() % count.max(1) as u64) as usize
    }

    /// A number from 0 (included) to 1 (excluded).
    pub fn fraction(&mut self) -> f64 {
        // A float has 53 bits: with more, rounding could give 1.
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// `wait` plus up to `percent` of it, so that calls that failed together are not repeated together.
    pub fn jitter(&mut self, wait: Duration, percent: u32) -> Duration {
        let share = (self.next() % 1001) as u32;
        // Divided before it is multiplied, so that a long wait does not overflow.
        wait.saturating_add(wait / 100_000 * percent * share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_only_adds_and_stays_below_its_share() {
        let (mut random, second) = (Random(7), Duration::from_secs(1));
        for _ in 0..1000 {
            let wait = random.jitter(second, 20);
            assert!((second..=second * 6 / 5).contains(&wait), "{wait:?}");
        }
    }

    #[test]
    fn fractions_spread_over_all_from_0_to_1() {
        let mut random = Random(7);
        let mut tenths = [0; 10];
        (0..10_000).for_each(|_| tenths[(random.fraction() * 10.0) as usize] += 1);
        assert!(tenths.iter().all(|count| (900..1100).contains(count)), "{tenths:?}");
    }
}
