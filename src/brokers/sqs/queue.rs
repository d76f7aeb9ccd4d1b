//! A queue in SQS with its batches: sends, deletes and visibility changes go ten at a time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::client::{Client, Hide, Now, Outgoing};
use super::coalesce::{Coalescer, Outcome};
use super::fault::Fault;
use super::redrive::Redrive;
use broker::Error;
use common::lock;
use model::Instant;
use select::terms::COUNTED;

/// The longest delay of a new message in SQS.
pub(super) const DELAY_MAX: Duration = Duration::from_secs(900);

/// For how long a failure is reported that neither comes again nor is over: as long as nothing of the kind is requested.
const REPORTED: Duration = Duration::from_secs(180);

/// The request that reads the attributes of a queue.
const READ: &str = "read the attributes (sqs:GetQueueAttributes) of";

/// A queue, by its name in SQS.
pub(super) struct Queue {
    pub name: String,
    client: Arc<Client>,
    deletes: Arc<Coalescer<String>>,
    hides: Arc<Coalescer<Hide>>,
    sends: Arc<Coalescer<Outgoing>>,
    /// The kinds of requests that failed last, each with its failure and until when that is reported.
    failing: Mutex<BTreeMap<&'static str, (String, Instant)>>,
    /// What it lets AWS do with messages that are received too often, and when that was read.
    pub redrive: tokio::sync::Mutex<Option<(Option<Redrive>, Instant)>>,
    now: Now,
}

impl Queue {
    pub(super) fn new(name: String, client: &Arc<Client>) -> Queue {
        Queue {
            deletes: batches(client, &name, Client::delete),
            hides: batches(client, &name, Client::hide),
            sends: batches(client, &name, Client::send),
            failing: Mutex::default(),
            redrive: tokio::sync::Mutex::default(),
            client: client.clone(),
            now: client.now.clone(),
            name,
        }
    }

    /// The error for a request named `what` on it.
    pub(super) fn error(&self, what: &str, fault: &Fault) -> Error {
        self.client.error(what, &self.name, fault)
    }

    /// Whether it keeps the order of each message group. In another queue a group names a tenant, and orders nothing.
    pub(super) fn is_fifo(&self) -> bool {
        self.name.ends_with(".fifo")
    }

    /// A message for this queue. `once` identifies it: a FIFO queue drops a second one with the same text. Such a queue
    /// cannot delay a single message, and a message without a group goes into a common one, so that all keep their order.
    pub(super) fn message(
        &self,
        body: String,
        group: Option<String>,
        delay: Duration,
        once: &str,
    ) -> Outgoing {
        let notes = Vec::new();
        if !self.is_fifo() {
            return Outgoing { body, group, delay: delay.min(DELAY_MAX), once: None, notes };
        }
        // SQS takes 128 characters there, and not all of them.
        let once = once.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(128).collect();
        let group = group.or_else(|| Some("taskvisor".into()));
        Outgoing { body, group, delay: Duration::ZERO, once: Some(once), notes }
    }

    pub(super) async fn delete(&self, handle: &str) -> Outcome {
        let deleted = self.deletes.send(handle.to_owned(), handle.len()).await;
        self.note("delete a message of", &deleted, self.reported());
        deleted
    }

    /// Makes a message invisible for this time from now, 0 = visible at once, unless the delivery of its handle has
    /// ended: that is so at `until`.
    pub(super) async fn hide(&self, handle: &str, time: Duration, until: Instant) -> Outcome {
        let hide = Hide { handle: handle.to_owned(), time, until };
        let hidden = self.hides.send(hide, handle.len()).await;
        const WHAT: &str = "change the visibility of a message of";
        match (self.now)() < until {
            // Once the message is visible again, nothing is left to be changed.
            true => self.note(WHAT, &hidden, until.min(self.reported())),
            // Nothing was sent, which says nothing of the service. But nothing is left to be changed, either; where others
            // are, they fail again within seconds.
            false => drop(lock(&self.failing).remove(WHAT)),
        }
        hidden
    }

    /// What could be read of its attributes. The health tells a refusal.
    pub(super) fn attributes<T>(&self, read: Result<T, Fault>) -> Option<T> {
        self.note(READ, &read, self.reported());
        read.ok()
    }

    /// Whether to read them again, as that was refused and not tried since for a while. What has not been asked for stays
    /// refused. Each try is one answer `true`.
    pub(super) fn is_to_be_read(&self) -> bool {
        let now = (self.now)();
        let is_old = |until: Instant| until <= now + (REPORTED - COUNTED);
        let mut failing = lock(&self.failing);
        let Some((_, until)) = failing.get_mut(READ).filter(|(_, until)| is_old(*until)) else {
            return false;
        };
        *until = now + REPORTED;
        true
    }

    fn reported(&self) -> Instant {
        (self.now)() + REPORTED
    }

    /// Notes how a request about it ended; a failure is reported until then. What only asks for patience or was lost says
    /// nothing.
    fn note<T>(&self, what: &'static str, outcome: &Result<T, Fault>, until: Instant) {
        match outcome {
            Err(fault @ Fault::Other(_)) => {
                let failure = self.error(what, fault).to_string();
                let mut failing = lock(&self.failing);
                // That of another message may last longer.
                let until = failing.get(what).map_or(until, |(_, other)| until.max(*other));
                failing.insert(what, (failure, until));
            }
            // These answers, too, show that the service allows such a request.
            Ok(_) | Err(Fault::NotOurs | Fault::Visible | Fault::NoQueue) => {
                drop(lock(&self.failing).remove(what))
            }
            Err(Fault::Throttled | Fault::Unanswered(_) | Fault::Refused(_)) => {}
        }
    }

    /// What the service refuses at the moment, in its words: a policy may allow only some requests.
    pub(super) fn failing(&self) -> Option<String> {
        let now = (self.now)();
        let failing = lock(&self.failing);
        failing.values().find(|(_, until)| now < *until).map(|(failure, _)| failure.clone())
    }

    /// Sends a message and gives its id.
    pub(super) async fn send(&self, message: &Outgoing) -> Outcome {
        let notes: usize = message.notes.iter().map(|(name, text)| name.len() + text.len() + 16).sum();
        let bytes = message.body.len() + notes;
        self.sends.send(message.clone(), bytes).await
    }
}

/// Requests of one kind to a queue, in batches.
fn batches<E, F>(
    client: &Arc<Client>,
    queue: &str,
    send: fn(Arc<Client>, String, Vec<E>) -> F,
) -> Arc<Coalescer<E>>
where
    E: Clone + Send + 'static,
    F: Future<Output = Vec<Outcome>> + Send + 'static,
{
    let (client, queue) = (client.clone(), queue.to_owned());
    Coalescer::new(move |all| Box::pin(send(client.clone(), queue.clone(), all)))
}
