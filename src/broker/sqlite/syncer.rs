//! The thread that waits for the disk, so that the store's thread need not.

use std::fs::File;
use std::sync::mpsc::{Receiver, Sender};

use super::call::Done;
use super::message::Message;
use super::options::World;
use super::store::Waiter;
use crate::broker::Error;
use crate::failpoint::failpoint;
use crate::model::JobState;

pub(super) enum Order {
    /// Make this durable.
    Sync(Load),
    /// All that was ever committed is on disk, and this is the file from here on.
    Mended(File),
}

pub(super) struct Syncer {
    pub(super) wal: File,
    pub(super) name: String,
    pub(super) world: World,
    pub(super) orders: Receiver<Order>,
    pub(super) store: Sender<Message>,
    pub(super) broken: Option<String>,
    pub(super) load: Load,
}

/// Who waits for the disk to have what is committed.
#[derive(Default)]
pub(super) struct Load {
    /// Those who asked for something hear of it, and at once if the disk fails.
    pub(super) asked: Vec<Done>,
    /// Those who wait for the end of a job: they hear of it when the disk has it, however long that takes.
    pub(super) ended: Vec<(Waiter, JobState)>,
    pub(super) urgent: bool,
}

impl Load {
    pub(super) fn is_empty(&self) -> bool {
        self.asked.is_empty() && self.ended.is_empty()
    }

    pub(super) fn append(&mut self, other: Load) {
        self.asked.extend(other.asked);
        self.ended.extend(other.ended);
        self.urgent |= other.urgent;
    }

    /// The disk has it all, or has failed.
    pub(super) fn finish(&mut self, outcome: &Result<(), Error>) {
        self.urgent = false;
        self.asked.drain(..).for_each(|done| done(outcome.clone()));
        match outcome {
            Ok(()) => self.ended.drain(..).for_each(|(waiter, state)| drop(waiter.send(Ok(state)))),
            Err(_) => self.ended.retain(|(waiter, _)| !waiter.is_closed()),
        }
    }
}

impl Syncer {
    /// Until the store's thread ends.
    pub(super) fn run(mut self) {
        while let Ok(order) = self.orders.recv() {
            self.take(order);
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
                // Those before it were committed before the checkpoint; the next sync is a good one for them too.
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
        if !self.load.urgent {
            failpoint("store-12-synced");
        }
        self.load.finish(&outcome);
    }

    /// After a failed sync the kernel takes the lost pages for clean and the next sync would lie: so there is none
    /// until the store is mended.
    fn sync(&mut self) -> Result<(), Error> {
        if self.broken.is_none()
            && let Err(error) = (self.world.sync)(&self.wal)
        {
            let reason = format!(
                "cannot make {} durable: {error}: the disk does not write; see `dmesg`. What was asked may or may not \
                 be done",
                self.name
            );
            self.broken = Some(reason.clone());
            // It may have ended; then nobody needs to know.
            let _ = self.store.send(Message::Broken(reason));
        }
        self.broken.clone().map_or(Ok(()), |reason| Err(Error::Failed(reason)))
    }
}
