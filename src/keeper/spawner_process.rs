//! What the keeper knows of the spawner beside it.

use super::spawner::Board;
use model::{Instant, SlotId, WorkerId};

/// A slot that no pool has: the spawners are its lives among the templates.
pub(super) const SLOT: SlotId = SlotId { pool: 0x3fff, index: 0 };

/// The spawner, if there is one.
#[derive(Default)]
pub(super) struct Spawner {
    pub process: Option<Process>,
    pub board: Option<Board>,
    /// Number of spawners so far.
    pub count: u32,
    /// What it was at when it was last looked at, and since when.
    pub suspect: Option<(u64, Instant)>,
    /// Number of starts when the last one died, and how many have died since then without another start.
    pub deaths: (u64, u32),
    /// Whether the system refuses the calls that it makes: then parked children wait, as without it.
    pub is_refused: bool,
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
    pub fn pid(&self) -> Option<i32> {
        self.process.as_ref().map(|process| process.pid)
    }

    /// Whether that template is a spawner, also one that is dead.
    pub fn is(template: WorkerId) -> bool {
        template.slot == SLOT
    }
}
