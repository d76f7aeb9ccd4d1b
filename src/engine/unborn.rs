//! Programs that were sent to a life without a process: the keeper is told when one takes too long to get its process.
//!
//! Nobody else would notice a spawner that stands still: the program went to the life's socket, not to the keeper.

use std::collections::HashMap;
use std::time::Duration;

use model::{Instant, WorkerId};
use process::Children;
use supervisor::Event;
use wire::keeper::Order;

/// How long a program may take to get its process. It takes a millisecond; on a busy machine, some.
pub(super) const PATIENCE: Duration = Duration::from_millis(250);

/// The lives that have a program and no process.
#[derive(Debug, Default)]
pub(super) struct Unborn(HashMap<WorkerId, Instant>);

impl Unborn {
    /// A program was sent to a life without a process.
    pub(super) fn sent(&mut self, worker: WorkerId, now: Instant) {
        self.0.insert(worker, now + PATIENCE);
    }

    /// It has a process.
    pub(super) fn born(&mut self, worker: WorkerId, pid: i32, children: &mut Children) -> Vec<Event> {
        self.settled(worker);
        children.born(worker, pid);
        Vec::new()
    }

    /// It has a process, or has ended.
    pub(super) fn settled(&mut self, worker: WorkerId) {
        self.0.remove(&worker);
    }

    /// The order to the keeper for those that take too long; the keeper goes on looking by itself.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<Order> {
        let before = self.0.len();
        self.0.retain(|_, due| *due > now);
        // One order for all: the keeper looks at the spawner and not at each life.
        if self.0.len() < before { vec![Order::Hurry] } else { Vec::new() }
    }

    /// When the next one takes too long.
    pub(super) fn due(&self) -> Option<Instant> {
        self.0.values().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::SlotId;

    #[test]
    fn program_that_gets_no_process_is_told_once() {
        let worker = WorkerId { slot: SlotId { pool: 0, index: 1 }, generation: 1 };
        let mut unborn = Unborn::default();
        unborn.sent(worker, Instant(0));
        unborn.sent(worker.next(), Instant(0));
        unborn.settled(worker.next());
        assert_eq!(unborn.overdue(Instant(1)), []);
        let due = unborn.due().unwrap();
        assert_eq!(
            (unborn.overdue(due), unborn.overdue(due), unborn.due()),
            (vec![Order::Hurry], vec![], None)
        );
    }
}
