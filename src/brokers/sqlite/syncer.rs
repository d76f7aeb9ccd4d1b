//! The thread that waits for the disk, so that the store's thread need not.

use std::fs::File;
use std::sync::mpsc::{Receiver, Sender};

use super::call::Done;
use super::count::{CountFile, Reached};
use super::message::Message;
use super::options::World;
use super::place::Place;
use super::store::Waiter;
use broker::Error;
use failpoint::failpoint;
use model::JobState;

pub(super) enum Order {
    /// Make this durable.
    Sync(Load),
    /// Everything committed is on disk; this is the WAL file from here on.
    Mended(File),
}

pub(super) struct Syncer {
    pub(super) wal: File,
    pub(super) name: String,
    pub(super) world: World,
    pub(super) orders: Receiver<Order>,
    pub(super) store: Sender<Message>,
    pub(super) broken: Option<String>,
    pub(super) place: Place,
    pub(super) count: CountFile,
    pub(super) load: Load,
}

/// Callers that wait until what is committed is on disk.
#[derive(Default)]
pub(super) struct Load {
    /// Callers of requests: they also get an error if the disk fails.
    pub(super) asked: Vec<Done>,
    /// Callers that wait for the end of a job: they are notified when it is on disk, however long that takes.
    pub(super) ended: Vec<(Waiter, JobState)>,
    pub(super) urgent: bool,
    /// What the latest of these commits has reached.
    pub(super) reached: Option<Reached>,
}

impl Load {
    pub(super) fn is_empty(&self) -> bool {
        self.asked.is_empty() && self.ended.is_empty()
    }

    pub(super) fn append(&mut self, other: Load) {
        self.asked.extend(other.asked);
        self.ended.extend(other.ended);
        self.urgent |= other.urgent;
        self.reached = other.reached.or(self.reached.take());
    }

    /// Notifies the callers that the sync succeeded or failed.
    pub(super) fn finish(&mut self, outcome: &Result<(), Error>) {
        self.urgent = false;
        self.asked.drain(..).for_each(|done| done(outcome.clone()));
        match outcome {
            Ok(()) => self.ended.drain(..).for_each(|(waiter, state)| waiter.tell(Ok(state))),
            // Not an error for these: how the job ends is known once the disk works again.
            Err(_) => self.ended.retain(|(waiter, _)| !waiter.told.is_closed()),
        }
    }
}

impl Syncer {
    /// Runs until the store's thread ends.
    pub(super) fn run(mut self) {
        while let Ok(order) = self.orders.recv() {
            self.take(order);
            // One sync serves all that wait by now.
            while let Ok(order) = self.orders.try_recv() {
                self.take(order);
            }
            self.finish();
        }
    }

    fn take(&mut self, order: Order) {
        match order {
            Order::Sync(load) => self.load.append(load),
            Order::Mended(wal) => {
                // Earlier requests were committed before the checkpoint; the next sync covers them too.
                self.wal = wal;
                self.broken = None;
            }
        }
    }

    fn finish(&mut self) {
        if self.load.is_empty() {
            return;
        }
        let outcome = self.sync();
        if outcome.is_ok()
            && let Some(reached) = self.load.reached.take()
        {
            self.count.raise(&reached);
        }
        if !self.load.urgent {
            failpoint("store-12-synced");
        }
        self.load.finish(&outcome);
    }

    /// Why what was committed is not durable, or would not be found. It may be there once the cause is mended.
    fn failure(&self) -> Option<String> {
        let why = match (self.world.sync)(&self.wal) {
            Ok(()) => self.place.lost()?,
            Err(error) => {
                format!("cannot make {} durable: {error}: the disk does not write; see `dmesg`", self.name)
            }
        };
        Some(format!("{why}. What was asked may or may not be done"))
    }

    /// After a failed sync the kernel counts the lost pages as clean, and the next sync would wrongly succeed: so there
    /// is no sync until the store is repaired.
    fn sync(&mut self) -> Result<(), Error> {
        if self.broken.is_none()
            && let Some(reason) = self.failure()
        {
            self.broken = Some(reason.clone());
            // It fails if the store's thread has ended, which needs no report.
            let _ = self.store.send(Message::Broken(reason));
        }
        self.broken.clone().map_or(Ok(()), |reason| Err(Error::Failed(reason)))
    }
}
