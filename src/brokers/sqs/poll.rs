//! One receive per queue at a time, which never ends before its answer: a message that SQS has already given to it would
//! be invisible for others until its time is over. None begins unless a worker waits for a job.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant as Moment, sleep, timeout, timeout_at};

use super::body::Unread;
use super::buffer::{Buffered, for_a_busy_pool, for_any_pool};
use super::client::Message;
use super::fault::Fault;
use super::open_note;
use super::shared::Shared;
use super::source_queue::SourceQueue;
use broker::Notice;
use common::lock;
use model::{Instant, QueueSet};
use select::Receive;

/// Number of waiting messages at which no poll begins: nearly all of them are for a busy pool then.
const BUFFERED: usize = 100;
/// How long a message is hidden that no key opens, while none of its queue was opened.
const UNOPENED: Duration = Duration::from_secs(30);
/// The waits after failed polls, doubled from the first to the last.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// Polls a queue for as long as the broker lives.
pub(super) async fn poll(shared: Arc<Shared>, source: Arc<SourceQueue>) {
    let mut pause = PAUSES.0;
    open_note::said_left_open(&shared, &source).await;
    // Whether the latest receive has its answer, and still counts as open.
    let mut counts = false;
    loop {
        let receive = worth(&shared, &source, counts).await;
        let began = shared.now();
        let rest = match answer(&shared, &source, &receive).await {
            Ok(messages) => {
                *lock(&source.trouble) = None;
                if messages.is_empty() && receive.is_long {
                    let (shared, source) = (shared.clone(), source.clone());
                    tokio::spawn(async move { shared.bury(&source, began, receive.lease).await });
                }
                open_note::forgives(&shared, &source, &messages).await;
                let early = lock(&source.early).answered(&receive, messages.len(), shared.now().since(began));
                if let Some(back) = took(&shared, &source, messages, &receive) {
                    back.await.ok();
                }
                if lock(&source.unopened).is_some() {
                    Some(doubled(&mut pause))
                } else {
                    pause = PAUSES.0;
                    early
                }
            }
            Err(fault) => {
                *lock(&source.trouble) = Some(source.queue.error("read", &fault).to_string());
                if matches!(fault, Fault::Unanswered(_)) {
                    open_note::stays(&shared, &source, receive.lease);
                }
                let rest = doubled(&mut pause);
                // Throttled once, it is to be asked more gently, and not to be given up.
                if fault == Fault::NoQueue {
                    pause = PAUSES.1.min(Duration::from_secs(10));
                }
                Some(rest)
            }
        };
        counts = rest.is_none();
        if let Some(rest) = rest {
            // Else the queues behind it would wait.
            lock(&shared.plan).failed(&source.name);
            decided(&shared, &receive);
            rests(&shared, &source).await;
            sleep(jittered(rest)).await;
        }
    }
}

/// The pause, which is twice as long the next time.
fn doubled(pause: &mut Duration) -> Duration {
    std::mem::replace(pause, (*pause * 2).min(PAUSES.1))
}

/// Waits until a receive is worthwhile and begins it. With `counts` the previous one still counts as open for a moment:
/// usually the next follows at once, and the ledger's note covers both.
async fn worth(shared: &Arc<Shared>, source: &Arc<SourceQueue>, mut counts: bool) -> Receive {
    let patience = Moment::now() + open_note::LINGERS;
    loop {
        let wanting = source.wants.notified();
        if let Some(receive) = next(shared, source) {
            if counts {
                shared.open.fetch_sub(1, Ordering::SeqCst);
            }
            return receive;
        }
        if !counts {
            wanting.await;
        } else if shared.stopping.load(Ordering::SeqCst) || timeout_at(patience, wanting).await.is_err() {
            rests(shared, source).await;
            counts = false;
        }
    }
}

/// No receive from the queue is open any more, and the ledger knows.
async fn rests(shared: &Shared, source: &SourceQueue) {
    open_note::ends(shared, source).await;
    shared.open.fetch_sub(1, Ordering::SeqCst);
}

fn next(shared: &Shared, source: &SourceQueue) -> Option<Receive> {
    let total = lock(&source.buffer).total();
    let mut plan = lock(&shared.plan);
    // Under the lock of the plan, as `stopping` sets it: after that no receive begins.
    if total >= BUFFERED || shared.stopping.load(Ordering::SeqCst) {
        return None;
    }
    let now = shared.now();
    let receive = plan.next(&source.name, now, |queue| shared.here(queue))?;
    let receive = Receive { lease: receive.lease.max(source.lease), ..receive };
    plan.began(&source.name, &receive, now);
    shared.open.fetch_add(1, Ordering::SeqCst);
    Some(receive)
}

/// The answer to a receive. The queues behind it wait for it, but not for long. Then they go on, and it becomes a bell.
async fn answer(
    shared: &Arc<Shared>,
    source: &Arc<SourceQueue>,
    receive: &Receive,
) -> Result<Vec<Message>, Fault> {
    let mut asked = pin!(asked(shared, source, receive));
    let patience = lock(&shared.plan).patience(receive);
    if let Some(patience) = patience {
        if let Ok(answer) = timeout(patience, &mut asked).await {
            return answer;
        }
        lock(&shared.plan).is_late(&source.name);
        decided(shared, receive);
    }
    asked.await
}

/// Receives. The ledger knows of a long receive before it begins.
async fn asked(shared: &Shared, source: &SourceQueue, receive: &Receive) -> Result<Vec<Message>, Fault> {
    if receive.is_long {
        open_note::begins(shared, source, receive.lease).await;
    }
    shared.client.receive(&source.queue.name, receive.most, receive.lease, receive.wait()).await
}

/// After a receive: looks for the queue of the next one, and wakes the fetches that waited for this one.
fn decided(shared: &Shared, receive: &Receive) {
    shared.look_again();
    if receive.is_awaited {
        shared.ledger.say(Notice::Wake(QueueSet::All));
    }
}

/// Reads the messages of a receive. Poison goes unchanged to the dead letters. A message whose job this host already
/// runs is no second job. A message with which a running job goes on may come before that job has ended, and waits.
///
/// If the supervisor stops, the messages go back: the handle is that of their way.
fn took(
    shared: &Arc<Shared>,
    source: &Arc<SourceQueue>,
    messages: Vec<Message>,
    receive: &Receive,
) -> Option<JoinHandle<()>> {
    let (since, lease, count) = (shared.now(), receive.lease, messages.len());
    *lock(&source.visible) = messages.is_empty().then_some((0, since + receive.trusted()));
    read(shared, source, messages, lease);
    lock(&shared.plan).answered(&source.name, count, since);
    shared.look_again();
    if receive.is_awaited || count > 0 {
        shared.ledger.say(Notice::Wake(QueueSet::All));
    }
    if count == 0 {
        return None;
    }
    if shared.stopping.load(Ordering::Relaxed) {
        let all = lock(&source.buffer).drain();
        return Some(shared.give_back(source, all));
    }
    give_back_in_time(shared, source, lease);
    None
}

/// Keeps messages that came beside one that was asked for.
pub(super) fn keep(shared: &Arc<Shared>, source: &Arc<SourceQueue>, messages: Vec<Message>, lease: Duration) {
    read(shared, source, messages, lease);
    shared.ledger.say(Notice::Wake(QueueSet::All));
    give_back_in_time(shared, source, lease);
}

/// What no worker has taken goes back in time.
fn give_back_in_time(shared: &Arc<Shared>, source: &Arc<SourceQueue>, lease: Duration) {
    let (shared, source) = (shared.clone(), source.clone());
    tokio::spawn(async move {
        for wait in [for_any_pool(lease), for_a_busy_pool(lease) - for_any_pool(lease)] {
            sleep(wait).await;
            shared.give_back_late(&source);
            source.wants.notify_one();
            if lock(&source.buffer).total() == 0 {
                return;
            }
        }
    });
}

/// Reads messages into the buffer.
fn read(shared: &Arc<Shared>, source: &Arc<SourceQueue>, messages: Vec<Message>, lease: Duration) {
    let (since, mut oldest) = (shared.now(), None);
    let until = since + lease;
    for message in messages {
        if shared.held.is_double(&message, until) {
            let shared = shared.clone();
            // This delivery is no attempt.
            tokio::spawn(async move { shared.ledger.gave_back(vec![message.delivery()]).await });
            continue;
        }
        match shared.bodies.read(&source.name, &message) {
            Ok((job, put_at)) => {
                if shared.bodies.opens(&message) {
                    source.is_opened.store(true, Ordering::Relaxed);
                    *lock(&source.unopened) = None;
                }
                oldest = oldest.into_iter().chain(put_at).min();
                let is_unwanted = false;
                lock(&source.buffer).add(Buffered { message, job, put_at, since, lease, is_unwanted });
            }
            Err(Unread { why, may_be_sealed: true }) if !source.is_opened.load(Ordering::Relaxed) => {
                is_unopened(source, &why);
                tokio::spawn(leave(shared.clone(), source.clone(), message, until));
            }
            Err(Unread { why, .. }) => {
                tokio::spawn(discard(shared.clone(), source.clone(), Arc::new(message), why));
            }
        }
    }
    *lock(&source.waits_since) = oldest;
}

/// Leaves a message where it is: as long as the key has opened none of its queue, the key may be wrong, and not the
/// message. It comes again in a while, and counts no attempt.
async fn leave(shared: Arc<Shared>, source: Arc<SourceQueue>, message: Message, until: Instant) {
    shared.ledger.gave_back(vec![message.delivery()]).await;
    source.queue.hide(&message.handle, UNOPENED, until).await.ok();
}

/// Says that a queue has messages that no key opens, and none that the key opens.
fn is_unopened(source: &SourceQueue, why: &str) {
    let queue = &source.queue.name;
    let trouble = format!(
        "no message of the SQS queue '{queue}' can be read so far, and none is moved: {why}; does the broker's key_file \
         have the UTIL_CRYPT_CIPHER of those who publish?"
    );
    if lock(&source.unopened).replace(trouble.clone()).is_none() {
        tracing::error!(queue, "{trouble}");
    }
}

/// Deletes a message that does not run only once it is in the dead-letter queue. Until then it comes again.
pub(super) async fn discard(
    shared: Arc<Shared>,
    source: Arc<SourceQueue>,
    message: Arc<Message>,
    why: String,
) {
    if shared.ledger.has_ended(message.id.clone()).await {
        // Its dead letter was sent, and its deletion failed.
        source.queue.delete(&message.handle).await.ok();
        return;
    }
    let dead = shared.dead_letter(&source.name, &message, &why, message.received);
    let sent = match &dead {
        Some(dead) => shared.send(&source, dead).await,
        None => Ok(()),
    };
    let (queue, id) = (&source.queue.name, &message.id);
    let logged = source.poison.allows(shared.now());
    match sent {
        Ok(()) => {
            if let Some(left_out) = logged {
                tracing::warn!(
                    queue,
                    left_out,
                    "message {id} does not run and went to the dead letters: {why}"
                );
            }
            // Before the deletion: if that fails, the message comes again and is not sent a second time.
            shared.ledger.discarded(message.id.clone(), message.job.as_str().into()).await;
            source.queue.delete(&message.handle).await.ok();
        }
        Err(fault) => {
            let error = source.queue.error("send a dead letter of", &fault);
            if let Some(left_out) = logged {
                tracing::warn!(queue, left_out, %error, "message {id} does not run, and comes again: {why}");
            }
        }
    }
}

/// A random share of the pause, so that hosts do not try again at the same moment.
fn jittered(pause: Duration) -> Duration {
    // The last digits of the clock are random enough.
    let part = u32::try_from(clock::now().as_millis() % 512).unwrap_or(0);
    pause / 2 + pause * part / 1024
}
