//! A queue in SQS with its batches: sends, deletes and visibility changes go ten at a time.

use std::sync::Arc;
use std::time::Duration;

use super::client::{Client, Outgoing};
use super::coalesce::{Coalescer, Outcome};
use super::fault::Fault;

/// A queue, by its name in SQS.
pub(super) struct Queue {
    pub name: String,
    deletes: Arc<Coalescer<String>>,
    hides: Arc<Coalescer<(String, Duration)>>,
    sends: Arc<Coalescer<Outgoing>>,
}

impl Queue {
    pub(super) fn new(name: String, client: &Arc<Client>) -> Queue {
        let of = || (client.clone(), name.clone());
        let (client, queue) = of();
        let deletes = Coalescer::new(move |handles| {
            let (client, queue) = (client.clone(), queue.clone());
            Box::pin(async move { client.delete(&queue, handles).await })
        });
        let (client, queue) = of();
        let hides = Coalescer::new(move |all| {
            let (client, queue) = (client.clone(), queue.clone());
            Box::pin(async move { client.hide(&queue, all).await })
        });
        let (client, queue) = of();
        let sends = Coalescer::new(move |all| {
            let (client, queue) = (client.clone(), queue.clone());
            Box::pin(async move { client.send(&queue, all).await })
        });
        Queue { name, deletes, hides, sends }
    }

    /// Whether it keeps the order of each message group. In another queue a group names a tenant, and orders nothing.
    pub(super) fn is_fifo(&self) -> bool {
        self.name.ends_with(".fifo")
    }

    pub(super) async fn delete(&self, handle: &str) -> Outcome {
        self.deletes.send(handle.to_owned(), handle.len()).await
    }

    /// Makes a message invisible for this time from now; 0 = visible at once.
    pub(super) async fn hide(&self, handle: &str, time: Duration) -> Outcome {
        self.hides.send((handle.to_owned(), time), handle.len()).await
    }

    /// Sends a message and gives its id.
    pub(super) async fn send(&self, message: &Outgoing) -> Outcome {
        let notes: usize = message.notes.iter().map(|(name, text)| name.len() + text.len() + 16).sum();
        let bytes = message.body.len() + notes;
        match self.sends.send(message.clone(), bytes).await {
            // A new message has no handle that could be invalid.
            Err(Fault::NotOurs) => Err(Fault::Other("the service refuses the message as invalid".into())),
            outcome => outcome,
        }
    }
}
