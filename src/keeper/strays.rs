//! Children that belong to dead leaders, and to which leader each may belong.
//!
//! Leaders are numbered in the order in which they are reaped. A stray belongs to a leader that was dead when the stray
//! was first seen. That leader may not have been reaped at that moment. So a stray gets its number only when all
//! leaders that were dead have been reaped; until then it may belong to any of them.

use std::collections::HashMap;

/// Number of a stray that no life has left behind: ends are counted from 1.
const OF_NO_LIFE: u64 = 0;

/// A stray without a number may belong to any life, even one that is reaped later.
const OF_ANY_LIFE: u64 = u64::MAX;

/// The strays, each with the number of the last leader that it can belong to.
#[derive(Debug, Default)]
pub(super) struct Strays(HashMap<i32, u64>);

impl Strays {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn contains(&self, pid: i32) -> bool {
        self.0.contains_key(&pid)
    }

    /// Notes a stray, perhaps for the first time.
    pub(crate) fn seen(&mut self, pid: i32) {
        self.0.entry(pid).or_insert(OF_ANY_LIFE);
    }

    /// Notes a stray that no life has left behind.
    pub(crate) fn seen_of_no_life(&mut self, pid: i32) {
        self.0.entry(pid).or_insert(OF_NO_LIFE);
    }

    /// Whether there are strays without a number.
    pub(crate) fn have_unnumbered(&self) -> bool {
        self.0.values().any(|number| *number == OF_ANY_LIFE)
    }

    /// All leaders that were dead have been reaped; `last` is the number of the last one.
    pub(crate) fn all_reaped(&mut self, last: u64) {
        self.0.values_mut().filter(|number| **number == OF_ANY_LIFE).for_each(|number| *number = last);
    }

    /// Removes a stray that is reaped, even one never seen. Returns the number of the last leader, up to `last`, to
    /// which it can belong.
    pub(crate) fn reaped(&mut self, pid: i32, last: u64) -> u64 {
        self.0.remove(&pid).unwrap_or(last).min(last)
    }

    /// The number of the last leader to which any stray can belong.
    pub(crate) fn last_left(&self) -> u64 {
        self.0.values().max().copied().unwrap_or(OF_NO_LIFE)
    }

    /// Strays that may belong to the leader of this number.
    pub(crate) fn of(&self, leader: u64) -> impl Iterator<Item = i32> {
        self.0.iter().filter(move |(_, number)| **number >= leader).map(|(pid, _)| *pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(strays: &Strays, leader: u64) -> Vec<i32> {
        strays.of(leader).collect()
    }

    #[test]
    fn stray_of_an_unreaped_leader_is_not_assigned_to_an_older_one() {
        let mut strays = Strays::default();
        strays.seen(100);
        // Its leader, number 2, is reaped after the stray is seen.
        assert_eq!(of(&strays, 2), [100]);
        strays.all_reaped(2);
        assert_eq!(of(&strays, 2), [100]);
        assert_eq!(
            of(&strays, 3),
            Vec::<i32>::new(),
            "whoever is reaped from here on was alive when it was seen"
        );
        strays.seen(100);
        assert_eq!(of(&strays, 3), Vec::<i32>::new(), "its number stays");
    }

    #[test]
    fn stray_of_no_life_blocks_no_proof() {
        let mut strays = Strays::default();
        strays.seen_of_no_life(100);
        strays.all_reaped(5);
        assert_eq!(of(&strays, 1), Vec::<i32>::new());
        assert!(strays.contains(100) && !strays.is_empty());
        assert_eq!(strays.reaped(100, 5), 0);
        assert!(strays.is_empty());
    }

    #[test]
    fn ended_stray_counts_for_the_last_possible_leader() {
        let mut strays = Strays::default();
        strays.seen(100);
        strays.all_reaped(1);
        strays.seen(200);
        assert_eq!(strays.reaped(100, 3), 1);
        assert_eq!(strays.reaped(200, 3), 3);
        assert_eq!(strays.reaped(300, 3), 3, "never seen alive");
    }
}
