//! The messages of running jobs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::address::LONGEST;
use super::client::Message;
use super::source_queue::SourceQueue;
use common::lock;
use ledger::Handle;
use model::{Fence, Instant, JobId};

/// The message of a running job.
#[derive(Clone)]
pub(super) struct Held {
    /// The message; None if an earlier supervisor took it.
    pub message: Option<Arc<Message>>,
    /// The handle of its latest delivery.
    pub handle: String,
    pub fence: Fence,
    pub source: Arc<SourceQueue>,
    /// The body for the next attempt, if the job's data was changed while it ran.
    pub next_body: Option<Arc<str>>,
    /// Whether its end is being written: if the message comes again now, that is another delivery.
    pub is_ending: bool,
    /// Whether the copy to send before the delete was sent.
    pub is_copied: bool,
    /// Whether the ledger has recorded its end.
    pub is_noted: bool,
    pub attempt: u32,
    pub received_at: Instant,
    /// When its latest delivery ends by itself, as far as SQS has answered.
    pub hidden_until: Instant,
    /// The same if all renewals without an answer were carried out.
    pub maybe_until: Instant,
}

impl Held {
    /// A message that this supervisor has received.
    pub(super) fn received(
        message: Message,
        source: Arc<SourceQueue>,
        fence: Fence,
        received_at: Instant,
        lease: Duration,
    ) -> Held {
        let handle = message.handle.clone();
        Held {
            message: Some(Arc::new(message)),
            handle,
            fence,
            source,
            next_body: None,
            is_ending: false,
            is_copied: false,
            is_noted: false,
            attempt: 1,
            received_at,
            hidden_until: received_at + lease,
            maybe_until: received_at + lease,
        }
    }

    /// A message that an earlier supervisor has received.
    pub(super) fn left_behind(left: &Handle, source: Arc<SourceQueue>, now: Instant) -> Held {
        let message = Message { handle: left.handle.clone(), ..Message::default() };
        let held = Held::received(message, source, left.fence, now, left.lasts);
        Held { message: None, ..held }
    }

    /// SQS has said that its latest delivery ends then.
    pub(super) fn is_hidden_until(&mut self, until: Instant) {
        (self.hidden_until, self.maybe_until) = (until, until);
    }

    /// Time for which it can still be hidden.
    pub(super) fn room(&self, now: Instant) -> Duration {
        LONGEST.saturating_sub(now.since(self.received_at))
    }
}

/// The messages of all running jobs.
#[derive(Default)]
pub(super) struct Running(Mutex<HashMap<JobId, Held>>);

impl Running {
    pub(super) fn insert(&self, job: JobId, held: Held) {
        lock(&self.0).insert(job, held);
    }

    /// Reads or changes the message of a job, if it runs under this fence.
    pub(super) fn with<R>(&self, job: &JobId, fence: Fence, act: impl FnOnce(&mut Held) -> R) -> Option<R> {
        lock(&self.0).get_mut(job).filter(|held| held.fence == fence).map(act)
    }

    /// Takes the message of a job, if it runs under this fence.
    pub(super) fn remove(&self, job: &JobId, fence: Fence) -> Option<Held> {
        let mut all = lock(&self.0);
        let is_this = all.get(job).is_some_and(|held| held.fence == fence);
        is_this.then(|| all.remove(job)).flatten()
    }

    pub(super) fn contains(&self, job: &JobId) -> bool {
        lock(&self.0).contains_key(job)
    }

    /// Whether this is a second delivery of a running job's message, hidden until then; if so, the newest handle counts.
    pub(super) fn is_double(&self, message: &Message, until: Instant) -> bool {
        let mut all = lock(&self.0);
        // A message that an earlier supervisor has taken is known by its job alone.
        let same = |held: &&mut Held| held.message.as_ref().is_none_or(|own| own.id == message.id);
        let held = all.get_mut(&message.job.as_str().into()).filter(|held| !held.is_ending).filter(same);
        let renew = |held: &mut Held| {
            held.handle.clone_from(&message.handle);
            held.is_hidden_until(until);
        };
        held.map(renew).is_some()
    }
}
