//! Notices that a server has forgotten what it held: it was emptied, or another one has taken its place. A mark in its
//! data tells that from a server which only restarts: a script that finds none writes the time, and it stays.

use std::sync::{Mutex, PoisonError};

use broker::{Complaints, FORGOTTEN};
use model::Instant;

/// The mark of the data that this process has seen last.
#[derive(Default)]
pub(crate) struct Memory(Mutex<Option<String>>);

impl Memory {
    /// Takes in the mark that was found, empty if none can be kept. Gives whether the data is other data than before.
    /// The health says so as long as this process lives: what was lost is put again by people alone.
    pub(super) fn found(&self, mark: &str, name: &str, complaints: &Complaints, now: Instant) -> bool {
        if mark.is_empty() {
            return false;
        }
        let before = self.0.lock().unwrap_or_else(PoisonError::into_inner).replace(mark.into());
        let has_forgotten = before.is_some_and(|before| before != mark);
        if has_forgotten {
            let why = format!(
                "{name} was emptied, or another server has taken its place: jobs that waited or ran there are gone from it, \
                 and those that are still wanted must be put again; a restart of this supervisor ends this notice"
            );
            complaints.stands(FORGOTTEN, &why, now);
        }
        has_forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_data_is_told_from_the_same_and_from_data_that_keeps_no_mark() {
        let (memory, complaints, at) = (Memory::default(), Complaints::default(), Instant(1));
        let found = ["a", "a", "", "a"].map(|mark| memory.found(mark, "R", &complaints, at));
        assert_eq!((found, complaints.told(at)), ([false; 4], Vec::new()));
        assert!(memory.found("b", "R", &complaints, at));
        assert!(!memory.found("b", "R", &complaints, at));
        assert_eq!(complaints.told(Instant(u64::MAX)).len(), 1, "it stands");
    }
}
