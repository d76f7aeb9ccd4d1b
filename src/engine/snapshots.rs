//! Evidence before the end: what a worker's processes do is looked at before the first signal for a limit goes out.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tracing::warn;

use crate::model::{Instant, SlotId, Snapshot, WorkerId};
use crate::wire::keeper::Order;

/// So long a signal waits for the look at those it is for.
const PATIENCE: Duration = Duration::from_millis(20);

/// Looks under way at a time. One at a process that the kernel has locked may never come back.
const LOOKS: usize = 8;

/// How a look is taken. May block.
type Look = fn(i32) -> Option<Snapshot>;

/// What a look brought.
pub(super) type Seen = (WorkerId, Option<Snapshot>);

/// Looks under way, and what they brought.
pub(super) struct Snapshots {
    look: Look,
    seen: UnboundedSender<Seen>,
    arrived: UnboundedReceiver<Seen>,
    /// Held by each look under way.
    under_way: Arc<()>,
    /// Those that are to be looked at when a look has come back.
    queued: VecDeque<(WorkerId, i32)>,
    /// Orders that wait for a look at their worker, and until when.
    held: HashMap<WorkerId, (Instant, Vec<Order>)>,
    /// Of the living.
    kept: HashMap<WorkerId, Snapshot>,
    /// The latest of the dead, by place.
    last: HashMap<SlotId, Snapshot>,
}

/// Whether a signal for this reason ends what went over a limit.
pub(super) fn is_limit(why: &str) -> bool {
    why == "boot timeout" || why.ends_with(" limit")
}

impl Snapshots {
    pub(super) fn new(look: Look) -> Snapshots {
        let (seen, arrived) = unbounded_channel();
        let (queued, held, kept, last) = Default::default();
        Snapshots { look, seen, arrived, under_way: Arc::default(), queued, held, kept, last }
    }

    /// A worker is to be signaled for a limit: gives the order back if it may go out at once. Else it follows the look.
    pub(super) fn before(&mut self, worker: WorkerId, pid: i32, order: Order, now: Instant) -> Option<Order> {
        let is_known = self.held.contains_key(&worker) || self.kept.contains_key(&worker);
        if is_known || !(self.look_at(worker, pid) || self.queue(worker, pid)) {
            return self.behind(worker, order);
        }
        self.held.insert(worker, (now + PATIENCE, vec![order]));
        None
    }

    /// Any other order to a worker: gives it back unless one before it is held.
    pub(super) fn behind(&mut self, worker: WorkerId, order: Order) -> Option<Order> {
        match self.held.get_mut(&worker) {
            Some((_, orders)) => {
                orders.push(order);
                None
            }
            None => Some(order),
        }
    }

    /// Has a worker wait for its turn to be looked at, unless all looks under way have been so for too long.
    fn queue(&mut self, worker: WorkerId, pid: i32) -> bool {
        let moves = self.held.len() > self.queued.len();
        if moves {
            self.queued.push_back((worker, pid));
        }
        moves
    }

    /// Has a worker looked at, and says whether that could be.
    pub(super) fn look_at(&mut self, worker: WorkerId, pid: i32) -> bool {
        if Arc::strong_count(&self.under_way) > LOOKS {
            return false;
        }
        let (look, seen, under_way) = (self.look, self.seen.clone(), self.under_way.clone());
        let thread = thread::Builder::new().name("look".into()).stack_size(128 << 10);
        let started = thread.spawn(move || {
            let snapshot = look(pid);
            drop(under_way);
            seen.send((worker, snapshot)).ok();
        });
        started.inspect_err(|error| warn!(pid, %error, "failed to look at a worker before its end")).is_ok()
    }

    /// Waits for the next look to come back. Cancel-safe.
    pub(super) async fn next(&mut self) -> Seen {
        match self.arrived.recv().await {
            Some(seen) => seen,
            None => std::future::pending().await,
        }
    }

    /// A look has come back: gives the orders that waited for it.
    pub(super) fn take_in(&mut self, (worker, snapshot): Seen, lives: bool) -> Vec<Order> {
        if let Some(snapshot) = snapshot.filter(|_| lives) {
            self.kept.insert(worker, snapshot);
        }
        while let Some(&(worker, pid)) = self.queued.front()
            && self.look_at(worker, pid)
        {
            self.queued.pop_front();
        }
        self.held.remove(&worker).map(|(_, orders)| orders).unwrap_or_default()
    }

    /// Gives the orders that have waited long enough.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<Order> {
        let overdue = self.held.extract_if(|_, (until, _)| *until <= now);
        let overdue = overdue.flat_map(|(_, (_, orders))| orders).collect();
        self.queued.retain(|(worker, _)| self.held.contains_key(worker));
        overdue
    }

    /// When the first of them will have.
    pub(super) fn due(&self) -> Option<Instant> {
        self.held.values().map(|(until, _)| *until).min()
    }

    /// What was seen of a worker that lives.
    pub(super) fn of(&self, worker: WorkerId) -> Option<&Snapshot> {
        self.kept.get(&worker)
    }

    /// A life is over.
    pub(super) fn life_ended(&mut self, worker: WorkerId) {
        self.held.remove(&worker);
        self.queued.retain(|(queued, _)| *queued != worker);
        if let Some(snapshot) = self.kept.remove(&worker) {
            self.last.insert(worker.slot, snapshot);
        }
    }

    /// What was seen last at a place.
    pub(super) fn latest(&self, slot: SlotId) -> Option<&Snapshot> {
        let living = self.kept.iter().find(|(worker, _)| worker.slot == slot).map(|(_, snapshot)| snapshot);
        living.or_else(|| self.last.get(&slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Caught;

    const NOW: Instant = Instant::from_millis(1000);

    fn worker(index: u16) -> WorkerId {
        WorkerId { slot: SlotId { pool: 0, index }, generation: 1 }
    }

    fn seen(pid: i32) -> Option<Snapshot> {
        Some(Snapshot { processes: vec![Caught { pid, ..Caught::default() }], left_out: 0 })
    }

    /// A process in the kernel's hands.
    fn blocked(_: i32) -> Option<Snapshot> {
        loop {
            thread::park();
        }
    }

    #[tokio::test]
    async fn a_signal_follows_the_look_and_the_next_one_follows_it() {
        let mut snapshots = Snapshots::new(seen);
        assert_eq!(snapshots.before(worker(1), 17, Order::Terminate(worker(1)), NOW), None);
        assert_eq!(snapshots.behind(worker(1), Order::KillTree(worker(1))), None);
        let free = Order::KillTree(worker(2));
        assert_eq!(snapshots.behind(worker(2), free.clone()), Some(free));
        let arrived = snapshots.next().await;
        let both = [Order::Terminate(worker(1)), Order::KillTree(worker(1))];
        assert_eq!(snapshots.take_in(arrived, true), both);
        assert_eq!((snapshots.of(worker(1)), snapshots.due()), (seen(17).as_ref(), None));
        // One look is enough.
        let kill = Order::KillTree(worker(1));
        assert_eq!(snapshots.before(worker(1), 17, kill.clone(), NOW), Some(kill));
        snapshots.life_ended(worker(1));
        assert_eq!((snapshots.of(worker(1)), snapshots.latest(worker(1).slot)), (None, seen(17).as_ref()));
    }

    #[tokio::test]
    async fn of_many_at_once_each_has_its_turn() {
        let mut snapshots = Snapshots::new(seen);
        let most = LOOKS as u16 * 5;
        for index in 1..=most {
            let order = Order::KillTree(worker(index));
            assert_eq!(snapshots.before(worker(index), index.into(), order, NOW), None);
        }
        let mut orders = Vec::new();
        while orders.len() < usize::from(most) {
            let arrived = snapshots.next().await;
            orders.extend(snapshots.take_in(arrived, true));
        }
        assert!((1..=most).all(|index| snapshots.of(worker(index)) == seen(index.into()).as_ref()));
        assert!(snapshots.queued.is_empty() && snapshots.due().is_none());
    }

    #[test]
    fn a_look_that_never_comes_back_holds_up_nothing_for_long() {
        let mut snapshots = Snapshots::new(blocked);
        let order = |index| Order::Terminate(worker(index));
        for index in 1..=LOOKS as u16 {
            assert_eq!(snapshots.before(worker(index), 17, order(index), NOW), None);
        }
        assert_eq!(snapshots.before(worker(98), 17, order(98), NOW), None);
        snapshots.life_ended(worker(98));
        assert_eq!(snapshots.before(worker(99), 17, order(99), NOW), None);
        assert_eq!(snapshots.due(), Some(NOW + PATIENCE));
        assert_eq!(snapshots.overdue(NOW), []);
        assert_eq!(snapshots.overdue(NOW + PATIENCE).len(), LOOKS + 1);
        assert_eq!((snapshots.due(), snapshots.queued.len()), (None, 0));
        let late = NOW + PATIENCE;
        assert_eq!(snapshots.before(worker(100), 17, order(100), late), Some(order(100)), "all of them hang");
    }

    #[test]
    fn a_look_that_comes_after_the_end_is_forgotten() {
        let mut snapshots = Snapshots::new(blocked);
        snapshots.life_ended(worker(1));
        assert_eq!(snapshots.take_in((worker(1), seen(17)), false), []);
        assert!(snapshots.kept.is_empty() && snapshots.last.is_empty());
    }

    #[test]
    fn limits_differ_from_other_reasons() {
        for why in ["time limit", "memory limit", "process limit", "boot timeout"] {
            assert!(is_limit(why), "{why}");
        }
        for why in ["stop", "canceled", "spent", "fault", "idle", "neighbour", "lock_lost"] {
            assert!(!is_limit(why), "{why}");
        }
    }
}
