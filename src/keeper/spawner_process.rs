//! What the keeper knows of the spawner beside it.

use std::time::Duration;

use super::spawner::Board;
use model::{Instant, SlotId, WorkerId};

/// A slot that no pool has: the spawners are its lives among the templates.
pub(super) const SLOT: SlotId = SlotId { pool: 0x3fff, index: 0 };

/// So many ends in a row without a start are enough, for that long.
pub(super) const MOST_DEATHS: u32 = 5;
const RESTS: Duration = Duration::from_secs(60);

/// The spawner, if there is one.
#[derive(Default)]
pub(super) struct Spawner {
    pub process: Option<Process>,
    pub board: Option<Board>,
    /// Number of spawners so far.
    pub count: u32,
    /// What it was at when it was last looked at, and since when.
    pub suspect: Option<(u64, Instant)>,
    pub deaths: Deaths,
    /// Whether the system refuses the calls that it makes: then parked children wait, as without it.
    pub is_refused: bool,
}

/// Ends of spawners that started nothing. They may die of themselves, or stand still on a host that gives them no time:
/// both may pass, so parked children wait for a while only.
#[derive(Default)]
pub(super) struct Deaths {
    /// Number of starts when the last one ended, and how many have ended since then without another start.
    since: (u64, u32),
    rests_until: Option<Instant>,
}

impl Deaths {
    /// Notes that a spawner died after `starts` starts. True: use none for a while.
    pub(crate) fn add(&mut self, starts: u64, now: Instant) -> bool {
        let deaths = if self.since.0 == starts { self.since.1 + 1 } else { 1 };
        let are_enough = deaths >= MOST_DEATHS;
        self.since = (starts, if are_enough { 0 } else { deaths });
        if are_enough {
            self.rests_until = Some(now + RESTS);
        }
        are_enough
    }

    pub(crate) fn forbid_another(&self, now: Instant) -> bool {
        self.rests_until.is_some_and(|end| now < end)
    }
}

pub(super) struct Process {
    /// Its id among the templates.
    pub id: WorkerId,
    pub pid: i32,
    /// When it was killed, if it was.
    pub killed: Option<Instant>,
}

impl Spawner {
    /// Its pid, until it is reaped.
    pub(crate) fn pid(&self) -> Option<i32> {
        self.process.as_ref().map(|process| process.pid)
    }

    /// Whether that template is a spawner, also one that is dead.
    pub(crate) fn is(template: WorkerId) -> bool {
        template.slot == SLOT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spawners_that_start_nothing_are_done_without_for_a_minute() {
        let (mut deaths, now) = (Deaths::default(), clock::now());
        for round in 0..2 {
            let at = now + RESTS * round;
            assert!(!deaths.forbid_another(at));
            assert_eq!([(); 5].map(|()| deaths.add(7, at)), [false, false, false, false, true]);
            assert!(deaths.forbid_another(at + RESTS - Duration::from_millis(1)));
        }
        let mut deaths = Deaths::default();
        assert!((0..100).all(|starts| !deaths.add(starts, now)), "each has started something");
    }
}
