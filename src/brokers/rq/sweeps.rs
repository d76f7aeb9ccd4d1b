//! Where changes of many jobs go on. A caller gets a number for the place behind the last job that was looked at; its
//! `left` is the time when the change began, in milliseconds.

use std::collections::BTreeMap;
use std::sync::Mutex;

use common::lock;
use model::Cursor;

/// Limit of the places that are kept: the oldest ones go first.
const KEPT: usize = 1000;

/// The places, by their numbers.
#[derive(Default)]
pub(super) struct Sweeps(Mutex<BTreeMap<i64, Cursor>>);

impl Sweeps {
    /// Keeps a place and gives its number, greater than those of an earlier process.
    pub(super) fn keep(&self, place: Cursor) -> i64 {
        let mut kept = lock(&self.0);
        let number = kept.last_key_value().map_or(0, |(last, _)| last + 1).max(clock::wall().0);
        kept.insert(number, place);
        if kept.len() > KEPT {
            kept.pop_first();
        }
        number
    }

    /// The place with this number; `None` if it is not known any more. To begin again passes no job over.
    pub(super) fn get(&self, number: i64) -> Option<Cursor> {
        lock(&self.0).get(&number).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_places_are_kept() {
        let sweeps = Sweeps::default();
        let numbers: Vec<i64> =
            (0..=KEPT as i64).map(|place| sweeps.keep(Cursor { place, ..Cursor::default() })).collect();
        assert!(numbers.is_sorted_by(|one, next| one < next));
        assert_eq!(sweeps.get(numbers[0]), None);
        assert_eq!(sweeps.get(numbers[KEPT]).map(|cursor| cursor.place), Some(KEPT as i64));
    }
}
