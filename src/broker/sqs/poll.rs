//! One long poll per queue, which never ends before its answer: a message that SQS has already given to it would be
//! invisible for others until its time is over. No poll begins unless a worker waits for a job.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::sleep;

use super::buffer::{Buffered, HOLD};
use super::client::Message;
use super::fault::Fault;
use super::shared::{Dead, EMPTY, Shared, SourceQueue, Wanted, lock};
use crate::broker::Notice;
use crate::clock;
use crate::model::Instant;

/// No poll begins while so many messages wait here: nearly all of them are for a busy pool then.
const BUFFERED: usize = 100;
/// Most messages of one poll.
const MOST: usize = 10;
/// From this many jobs in a second on, a poll begins before the buffer is empty.
const FAST: usize = 50;
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
        let now = clock::now();
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

impl Wanted {
    /// Notes that some jobs were taken, and how many workers are left without one.
    pub(super) fn took(
        &mut self,
        count: usize,
        (pool, ready): (&Arc<str>, usize),
        lease: Duration,
        now: Instant,
    ) {
        let second = Duration::from_secs(1);
        match self.second {
            Some(start) if now.since(start) < second => self.taken.1 += count,
            Some(start) if now.since(start) < 2 * second => {
                (self.taken, self.second) = ((self.taken.1, count), Some(now));
            }
            Some(_) | None => (self.taken, self.second) = ((0, count), Some(now)),
        }
        self.ready.insert(pool.clone(), ready);
        self.lease = lease;
    }

    /// Number of waiting workers, of all pools.
    fn ready(&self) -> usize {
        self.ready.values().sum()
    }

    /// Whether the messages of a poll will be taken soon: a worker waits, or jobs are so short that the buffer will be
    /// empty by the poll's answer.
    fn is_worth_a_poll(&self, waiting: usize, now: Instant) -> bool {
        let is_recent = self.second.is_some_and(|start| now.since(start) < Duration::from_secs(2));
        let is_fast = is_recent && self.taken.0.max(self.taken.1) >= FAST;
        (waiting == 0 && self.ready() > 0) || (waiting < MOST && is_fast)
    }

    /// As many as workers wait, plus as many as were taken within a second: these will not wait for long.
    fn most(&self) -> usize {
        (self.ready() + self.taken.0.max(self.taken.1)).clamp(1, MOST)
    }
}

/// Reads the messages of a poll. Poison goes unchanged to the dead letters. A message whose job this host already runs
/// is no second job. A message with which a running job goes on may come before that job has ended, and waits.
fn took(shared: &Arc<Shared>, source: &Arc<SourceQueue>, messages: Vec<Message>, lease: Duration) {
    let since = clock::now();
    *lock(&source.visible) = messages.is_empty().then_some((0, since + EMPTY));
    if messages.is_empty() {
        return;
    }
    for message in messages {
        if shared.is_double(&message) {
            continue;
        }
        match shared.bodies.read(&source.name, &message) {
            Ok(job) => lock(&source.buffer).add(Buffered { message, job, since, lease, is_unwanted: false }),
            Err(why) => {
                tokio::spawn(discard(shared.clone(), source.clone(), message, why));
            }
        }
    }
    if shared.stopping.load(Ordering::Relaxed) {
        let all = lock(&source.buffer).drain();
        shared.give_back(source, all);
        return;
    }
    shared.ledger.say(Notice::Wake);
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
pub(super) async fn discard(shared: Arc<Shared>, source: Arc<SourceQueue>, message: Message, why: String) {
    let dead = Dead {
        id: &message.id,
        body: &message.body,
        group: message.group.as_deref(),
        error: &why,
        class: None,
        attempt: message.received,
    };
    let buried = shared.bury(&source.name, dead).await;
    let (queue, id) = (&source.queue.name, &message.id);
    match buried {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poll_is_sent_ahead_only_for_short_jobs() {
        let (mut wanted, lease) = (Wanted::default(), Duration::from_secs(60));
        let pool: Arc<str> = "default".into();
        let at = |millis| Instant::from_millis(millis);
        assert!(!wanted.is_worth_a_poll(0, at(0)), "nobody waits");
        wanted.took(0, (&pool, 1), lease, at(0));
        assert!(wanted.is_worth_a_poll(0, at(0)));
        assert!(!wanted.is_worth_a_poll(1, at(0)), "there is one for it");
        wanted.took(60, (&pool, 0), lease, at(500));
        assert!(wanted.is_worth_a_poll(9, at(600)), "60 were taken within a second");
        assert!(!wanted.is_worth_a_poll(10, at(600)));
        assert!(!wanted.is_worth_a_poll(9, at(5000)), "long ago");
    }

    #[test]
    fn poll_asks_for_as_many_messages_as_workers_can_take_soon() {
        let (mut wanted, lease) = (Wanted::default(), Duration::from_secs(60));
        let pool: Arc<str> = "default".into();
        wanted.took(0, (&pool, 2), lease, Instant::from_millis(0));
        assert_eq!(wanted.most(), 2, "two wait, and nothing is known of how fast jobs are");
        wanted.took(8, (&pool, 1), lease, Instant::from_millis(500));
        assert_eq!(wanted.most(), 9, "eight were taken within a second");
        wanted.took(0, (&pool, 1), lease, Instant::from_millis(1600));
        assert_eq!(wanted.most(), 9, "the second before counts");
        wanted.took(0, (&pool, 1), lease, Instant::from_millis(9000));
        assert_eq!(wanted.most(), 1, "they take longer now");
        wanted.took(50, (&pool, 3), lease, Instant::from_millis(9001));
        assert_eq!(wanted.most(), 10);
    }
}
