//! The writes that the disk has refused, in their order, and those under way beside them.

use std::collections::{BTreeMap, VecDeque};

use super::change::Write;

/// Most writes that are kept, and most bytes of their texts. The oldest are given up for new ones.
const MOST: usize = 8192;
const MOST_BYTES: usize = 32 << 20;

/// What could not be written yet, in order.
#[derive(Default)]
pub(super) struct Owed {
    /// The place of the next write: each has one, by the order in which they were asked for.
    next: u64,
    /// Each with its place and its bytes.
    writes: VecDeque<(u64, usize, Write)>,
    /// Sum of their bytes.
    bytes: usize,
    /// The first of them is being written.
    in_hand: bool,
    /// Those that the store has, by their places, and whether one before them has failed meanwhile.
    under_way: BTreeMap<u64, bool>,
    /// A task tries again and again.
    pub is_tried: bool,
}

impl Owed {
    pub(crate) fn is_nothing(&self) -> bool {
        self.writes.is_empty() && !self.in_hand
    }

    pub(crate) fn next_place(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Lets a write begin; false = others come first.
    pub(crate) fn begin(&mut self, place: u64) -> bool {
        if self.is_nothing() {
            self.under_way.insert(place, false);
        }
        self.is_nothing()
    }

    /// A write has ended. Is it owed? It is if the disk refuses it (`may_pass`), and also if one before it has failed
    /// while it was under way: that one changes again what this one has changed.
    pub(crate) fn end(&mut self, place: u64, write: Write, may_pass: bool, is_made: bool) -> bool {
        let is_overtaken = self.under_way.remove(&place).unwrap_or(false);
        if may_pass {
            self.under_way.range_mut(place..).for_each(|(_, is_overtaken)| *is_overtaken = true);
        }
        let is_owed = may_pass || is_made && is_overtaken;
        if is_owed {
            self.owe(place, write);
        }
        is_owed
    }

    /// The first, to be written.
    pub(crate) fn take(&mut self) -> Option<(u64, Write)> {
        let (place, bytes, first) = self.writes.pop_front()?;
        self.bytes -= bytes;
        self.in_hand = true;
        Some((place, first))
    }

    /// What came of it: it is owed again if the disk refuses it.
    pub(crate) fn paid(&mut self, place: u64, write: Write, may_pass: bool) {
        self.in_hand = false;
        if may_pass {
            self.owe(place, write);
        }
    }

    fn owe(&mut self, place: u64, write: Write) {
        let behind = self.writes.partition_point(|(other, ..)| *other < place);
        let bytes = write.bytes();
        self.writes.insert(behind, (place, bytes, write));
        self.bytes += bytes;
        while self.writes.len() > MOST || self.bytes > MOST_BYTES {
            let Some((_, bytes, _)) = self.writes.pop_front() else { return };
            self.bytes -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{Fence, Settlement, Verdict};

    use super::*;

    /// The end of job `number` with a result of this length.
    fn end(number: u64, length: usize) -> Write {
        let verdict = Verdict::Complete { result: Some("x".repeat(length)), next: None };
        let job = number.to_string().as_str().into();
        let end = Settlement { job, fence: Fence(number), verdict, crashed: false, forensics: None };
        Write::Ends(vec![end], Vec::new())
    }

    fn places(owed: &Owed) -> Vec<u64> {
        owed.writes.iter().map(|(place, ..)| *place).collect()
    }

    #[test]
    fn write_that_overtook_one_that_failed_is_made_again_behind_it() {
        let mut owed = Owed::default();
        let [first, second, third] = [(); 3].map(|()| owed.next_place());
        assert!(owed.begin(second) && owed.begin(first));
        assert!(owed.end(first, end(1, 0), true, false), "the disk refuses it");
        assert!(!owed.begin(third), "the first one comes before it");
        assert!(owed.end(second, end(2, 0), false, true), "the first one was made after it");
        assert_eq!(places(&owed), [first, second]);
    }

    #[test]
    fn only_what_is_newer_than_a_failure_and_was_under_way_is_made_again() {
        let mut owed = Owed::default();
        let [first, second, third] = [(); 3].map(|()| owed.next_place());
        assert!(owed.begin(first) && owed.begin(second));
        assert!(owed.end(second, end(2, 0), true, false));
        assert!(!owed.end(first, end(1, 0), false, true), "it is older");
        let (place, write) = owed.take().unwrap();
        assert!(!owed.begin(third), "the one before is being written");
        owed.paid(place, write, false);
        assert!(owed.begin(third) && !owed.end(third, end(3, 0), false, true));
        assert!(owed.is_nothing());
    }

    #[test]
    fn results_that_are_owed_are_bounded_by_their_bytes() {
        let mut owed = Owed::default();
        for number in 0..100 {
            owed.owe(number, end(number, 1 << 20));
        }
        assert_eq!(places(&owed), (69..100).collect::<Vec<u64>>());
        assert!(owed.bytes <= MOST_BYTES, "{}", owed.bytes);
        while let Some((place, write)) = owed.take() {
            owed.paid(place, write, false);
        }
        assert_eq!(owed.bytes, 0);
    }
}
