//! What happened in each pool, in numbers.

use std::collections::BTreeMap;

use model::Tally;

/// Counts by pool name, also of pools that are gone.
#[derive(Debug, Default)]
pub(super) struct Tallies(BTreeMap<String, Tally>);

impl Tallies {
    /// The broker has confirmed a verdict, which this word names.
    pub(super) fn count_verdict(&mut self, pool: &str, word: &'static str) {
        self.of(pool).settled(word);
    }

    /// A life has ended unexpectedly.
    pub(super) fn count_restart(&mut self, pool: &str) {
        self.of(pool).restarts += 1;
    }

    fn of(&mut self, pool: &str) -> &mut Tally {
        self.0.entry(pool.to_owned()).or_default()
    }

    /// The counts of each pool, by its name.
    pub(super) fn by_pool(&self) -> &BTreeMap<String, Tally> {
        &self.0
    }

    /// Jobs settled in all pools, by verdict.
    pub(super) fn by_verdict(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for (verdict, count) in self.0.values().flat_map(|tally| &tally.settled) {
            *all.entry((*verdict).to_owned()).or_default() += count;
        }
        all
    }

    /// Number of attempts that have ended, without those that do not count.
    pub(super) fn attempts(&self) -> u64 {
        let ends = self.0.values().flat_map(|tally| &tally.settled);
        ends.filter(|(verdict, _)| **verdict != "released").map(|(_, count)| count).sum()
    }
}
