//! Takes a snapshot of a worker's processes before the first signal that ends it for a limit.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tracing::warn;

use model::{Instant, SlotId, Snapshot, WorkerId};
use wire::keeper::Order;

/// How long a signal waits for the snapshot of its worker.
const PATIENCE: Duration = Duration::from_millis(20);

/// Limit of the snapshots in progress. One of a process that the kernel has locked may never finish.
const LOOKS: usize = 8;

/// Takes a snapshot of a process and those below it. May block.
type Look = fn(i32) -> Option<Snapshot>;

/// A finished snapshot; None if it failed.
pub(super) type Seen = (WorkerId, Option<Snapshot>);

/// Snapshots in progress, and those taken.
pub(super) struct Snapshots {
    look: Look,
    seen: UnboundedSender<Seen>,
    arrived: UnboundedReceiver<Seen>,
    /// Each snapshot in progress holds a reference.
    under_way: Arc<()>,
    /// Workers that wait for a snapshot in progress to finish.
    queued: VecDeque<(WorkerId, i32)>,
    /// Orders that wait for a snapshot of their worker, and until when.
    held: HashMap<WorkerId, (Instant, Vec<Order>)>,
    /// Snapshots of living workers.
    kept: HashMap<WorkerId, Snapshot>,
    /// The latest snapshot of a dead worker, by slot.
    last: HashMap<SlotId, Snapshot>,
}

/// Whether a signal with this reason ends a worker for a limit.
pub(super) fn is_limit(why: &str) -> bool {
    why == "boot timeout" || why.ends_with(" limit")
}

impl Snapshots {
    pub(super) fn new(look: Look) -> Snapshots {
        let (seen, arrived) = unbounded_channel();
        let (queued, held, kept, last) = Default::default();
        Snapshots { look, seen, arrived, under_way: Arc::default(), queued, held, kept, last }
    }

    /// Handles a signal that ends a worker for a limit: gives the order back if it may go out at once. Else it waits
    /// for the snapshot.
    pub(super) fn before(&mut self, worker: WorkerId, pid: i32, order: Order, now: Instant) -> Option<Order> {
        // One snapshot a life will do: that of before TERM is there when KILL follows.
        let is_known = self.held.contains_key(&worker) || self.kept.contains_key(&worker);
        if is_known || !(self.look_at(worker, pid) || self.queue(worker, pid)) {
            return self.behind(worker, order);
        }
        self.held.insert(worker, (now + PATIENCE, vec![order]));
        None
    }

    /// Handles any other order to a worker: gives it back unless an earlier one still waits.
    pub(super) fn behind(&mut self, worker: WorkerId, order: Order) -> Option<Order> {
        match self.held.get_mut(&worker) {
            Some((_, orders)) => {
                orders.push(order);
                None
            }
            None => Some(order),
        }
    }

    /// Has a worker wait for its turn, unless all snapshots in progress have taken too long.
    fn queue(&mut self, worker: WorkerId, pid: i32) -> bool {
        // Some order waits for a look under way. If there is none, all looks have taken too long, and the queue would
        // not move.
        let moves = self.held.len() > self.queued.len();
        if moves {
            self.queued.push_back((worker, pid));
        }
        moves
    }

    /// Starts a snapshot of a worker. False if that is not possible now.
    pub(super) fn look_at(&mut self, worker: WorkerId, pid: i32) -> bool {
        // One of the references is our own.
        if Arc::strong_count(&self.under_way) > LOOKS {
            return false;
        }
        let (look, seen, under_way) = (self.look, self.seen.clone(), self.under_way.clone());
        // Small, as a thread may hang for ever: the look walks the tree with a list and not by recursion.
        let thread = thread::Builder::new().name("look".into()).stack_size(128 << 10);
        let started = thread.spawn(move || {
            let snapshot = look(pid);
            // Before the send: whoever gets the snapshot may begin the next one at once.
            drop(under_way);
            seen.send((worker, snapshot)).ok();
        });
        started.inspect_err(|error| warn!(pid, %error, "failed to look at a worker before its end")).is_ok()
    }

    /// Waits for the next snapshot to finish. Cancel-safe.
    pub(super) async fn next(&mut self) -> Seen {
        match self.arrived.recv().await {
            Some(seen) => seen,
            None => std::future::pending().await,
        }
    }

    /// A snapshot has finished: gives the orders that waited for it.
    pub(super) fn take_in(&mut self, (worker, snapshot): Seen, lives: bool) -> Vec<Order> {
        // `life_ended` removes it, and does not come again for a life that has ended meanwhile.
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
        // Their orders are out: a look now would show a worker that is being ended.
        self.queued.retain(|(worker, _)| self.held.contains_key(worker));
        overdue
    }

    /// When the first order will have waited long enough.
    pub(super) fn due(&self) -> Option<Instant> {
        self.held.values().map(|(until, _)| *until).min()
    }

    /// The snapshot of a living worker.
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

    /// The latest snapshot of a dead worker of this slot.
    pub(super) fn latest(&self, slot: SlotId) -> Option<&Snapshot> {
        let living = self.kept.iter().find(|(worker, _)| worker.slot == slot).map(|(_, snapshot)| snapshot);
        living.or_else(|| self.last.get(&slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Caught;

    const NOW: Instant = Instant::from_millis(1000);

    fn worker(index: u16) -> WorkerId {
        WorkerId { slot: SlotId { pool: 0, index }, generation: 1 }
    }

    fn seen(pid: i32) -> Option<Snapshot> {
        Some(Snapshot { processes: vec![Caught { pid, ..Caught::default() }], left_out: 0 })
    }

    /// A look that never returns.
    fn blocked(_: i32) -> Option<Snapshot> {
        loop {
            thread::park();
        }
    }

    #[tokio::test]
    async fn signal_waits_for_its_snapshot_and_later_signals_wait_for_it() {
        let mut snapshots = Snapshots::new(seen);
        assert_eq!(snapshots.before(worker(1), 17, Order::Terminate(worker(1)), NOW), None);
        assert_eq!(snapshots.behind(worker(1), Order::KillTree(worker(1))), None);
        let free = Order::KillTree(worker(2));
        assert_eq!(snapshots.behind(worker(2), free.clone()), Some(free));
        let arrived = snapshots.next().await;
        let both = [Order::Terminate(worker(1)), Order::KillTree(worker(1))];
        assert_eq!(snapshots.take_in(arrived, true), both);
        assert_eq!((snapshots.of(worker(1)), snapshots.due()), (seen(17).as_ref(), None));
        // A later signal needs no second look.
        let kill = Order::KillTree(worker(1));
        assert_eq!(snapshots.before(worker(1), 17, kill.clone(), NOW), Some(kill));
        snapshots.life_ended(worker(1));
        assert_eq!((snapshots.of(worker(1)), snapshots.latest(worker(1).slot)), (None, seen(17).as_ref()));
    }

    #[tokio::test]
    async fn many_concurrent_snapshots_each_get_their_turn() {
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
    fn hanging_snapshot_delays_signals_only_briefly() {
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
    fn snapshot_after_the_end_of_a_life_is_dropped() {
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
