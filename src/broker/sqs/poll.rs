//! One long poll per queue, which never ends before its answer: a message that SQS has already given to it would be
//! invisible for others until its time is over. No poll begins unless a worker waits for a job.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::sleep;

use super::buffer::{Buffered, HOLD};
use super::client::Message;
use super::fault::Fault;
use super::shared::{EMPTY, Shared};
use super::source_queue::SourceQueue;
use crate::broker::Notice;
use crate::broker::lock::lock;
use crate::clock;
use crate::model::QueueSet;

/// No poll begins while so many messages wait here: nearly all of them are for a busy pool then.
const BUFFERED: usize = 100;
/// The waits after failed polls, doubled from the first to the last.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// Polls a queue for as long as the broker lives.
pub(super) async fn poll(shared: Arc<Shared>, source: Arc<SourceQueue>) {
    let mut pause = PAUSES.0;
    loop {
        let (most, lease) = worth(&shared, &source).await;
        match shared.client.receive(&source.queue.name, most, lease).await {
            Ok(messages) => {
                pause = PAUSES.0;
                *lock(&source.trouble) = None;
                took(&shared, &source, messages, lease);
            }
            Err(fault) => {
                *lock(&source.trouble) = Some(fault.error("read", &source.queue.name).to_string());
                sleep(jittered(pause)).await;
                pause = (pause * 2).min(PAUSES.1);
                // Throttled once, it is to be asked more gently, and not to be given up.
                if fault == Fault::NoQueue {
                    pause = PAUSES.1.min(Duration::from_secs(10));
                }
            }
        }
    }
}

/// Waits until a poll is worthwhile. Gives how many messages it may bring, and for how long they are invisible.
async fn worth(shared: &Arc<Shared>, source: &Arc<SourceQueue>) -> (usize, Duration) {
    loop {
        let wanting = source.wants.notified();
        let now = shared.now();
        let (waiting, total) = {
            let buffer = lock(&source.buffer);
            (buffer.len(), buffer.total())
        };
        let wanted = lock(&source.wanted).clone();
        if total < BUFFERED
            && wanted.is_worth_a_poll(waiting, now)
            && !shared.stopping.load(Ordering::Relaxed)
        {
            return (wanted.most(), wanted.lease);
        }
        wanting.await;
    }
}

/// Reads the messages of a poll. Poison goes unchanged to the dead letters. A message whose job this host already runs
/// is no second job. A message with which a running job goes on may come before that job has ended, and waits.
fn took(shared: &Arc<Shared>, source: &Arc<SourceQueue>, messages: Vec<Message>, lease: Duration) {
    let since = shared.now();
    *lock(&source.visible) = messages.is_empty().then_some((0, since + EMPTY));
    if messages.is_empty() {
        return;
    }
    for message in messages {
        if shared.held.is_double(&message) {
            let shared = shared.clone();
            tokio::spawn(async move { shared.ledger.gave_back(vec![message.job.as_str().into()]).await });
            continue;
        }
        match shared.bodies.read(&source.name, &message) {
            Ok(job) => lock(&source.buffer).add(Buffered { message, job, since, lease, is_unwanted: false }),
            Err(why) => {
                tokio::spawn(discard(shared.clone(), source.clone(), Arc::new(message), why));
            }
        }
    }
    if shared.stopping.load(Ordering::Relaxed) {
        let all = lock(&source.buffer).drain();
        shared.give_back(source, all);
        return;
    }
    shared.ledger.say(Notice::Wake(QueueSet::All));
    let (shared, source) = (shared.clone(), source.clone());
    tokio::spawn(async move {
        for wait in [HOLD, (lease / 2).saturating_sub(HOLD)] {
            sleep(wait).await;
            shared.give_back_late(&source);
            source.wants.notify_one();
        }
    });
}

/// Deletes a message that does not run only once it is in the dead-letter queue. Until then it comes again.
pub(super) async fn discard(
    shared: Arc<Shared>,
    source: Arc<SourceQueue>,
    message: Arc<Message>,
    why: String,
) {
    let dead = shared.dead_letter(&source.name, &message, &why, message.received);
    let sent = match &dead {
        Some(dead) => shared.send(&source, dead).await,
        None => Ok(()),
    };
    let (queue, id) = (&source.queue.name, &message.id);
    match sent {
        Ok(()) => {
            tracing::warn!(queue, "message {id} does not run and went to the dead letters: {why}");
            source.queue.delete(&message.handle).await.ok();
        }
        Err(fault) => {
            let error = fault.error("send a dead letter of", queue);
            tracing::warn!(queue, %error, "message {id} does not run, and comes again: {why}");
        }
    }
}

/// A random share of the pause, so that hosts do not try again at the same moment.
fn jittered(pause: Duration) -> Duration {
    let part = u32::try_from(clock::now().as_millis() % 512).unwrap_or(0);
    pause / 2 + pause * part / 1024
}
