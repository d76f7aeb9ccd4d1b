//! The thread that waits for the disk, so that the store's thread need not.

use std::fs::File;
use std::sync::mpsc::{Receiver, Sender};

use super::call::Done;
use super::options::World;
use super::thread::Message;
use crate::broker::Error;
use crate::failpoint::failpoint;

pub(super) enum Order {
    /// These are committed: answer them once they are on disk.
    Sync { waiting: Vec<Done>, urgent: bool },
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
}

#[derive(Default)]
struct Load {
    waiting: Vec<Done>,
    urgent: bool,
}

impl Syncer {
    /// Until the store's thread ends.
    pub(super) fn run(mut self) {
        while let Ok(order) = self.orders.recv() {
            let mut load = Load::default();
            self.take(order, &mut load);
            while let Ok(order) = self.orders.try_recv() {
                self.take(order, &mut load);
            }
            self.finish(load);
        }
    }

    fn take(&mut self, order: Order, load: &mut Load) {
        match order {
            Order::Sync { waiting, urgent } => {
                load.waiting.extend(waiting);
                load.urgent |= urgent;
            }
            Order::Mended(wal) => {
                // Those before it were committed before the checkpoint; the next sync is a good one for them too.
                self.wal = wal;
                self.broken = None;
            }
        }
    }

    fn finish(&mut self, load: Load) {
        if load.waiting.is_empty() {
            return;
        }
        let outcome = self.sync();
        if !load.urgent {
            failpoint("store-12-synced");
        }
        for done in load.waiting {
            done(outcome.clone());
        }
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
