//! Collects single requests into the batches of SQS: ten at a time, or those that come within 50 ms.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;

use super::fault::Fault;
use common::lock;
use select::terms::{LINGER, MOST};

/// Limit of the bytes of a batch, minus its frame.
const BYTES: usize = (1 << 20) - (16 << 10);

/// Limit of the tries to send an entry.
const TRIES: u32 = 3;

/// The wait before an entry is sent again that the service refused for lack of capacity, doubled each time.
const PAUSE: Duration = Duration::from_millis(250);

/// The result of an entry.
pub(super) type Outcome = Result<String, Fault>;
type Sent = Pin<Box<dyn Future<Output = Vec<Outcome>> + Send>>;
type Send_<E> = dyn Fn(Vec<E>) -> Sent + Send + Sync;

/// Requests of one kind to one queue.
pub(super) struct Coalescer<E> {
    /// Sends a batch and answers each entry, in order.
    send: Arc<Send_<E>>,
    waiting: Mutex<Waiting<E>>,
}

struct Waiting<E> {
    entries: Vec<(E, oneshot::Sender<Outcome>)>,
    bytes: usize,
    /// Number of batches so far, by which a timer knows whether its batch is gone.
    batch: u64,
}

impl<E: Clone + Send + 'static> Coalescer<E> {
    pub(super) fn new(send: impl Fn(Vec<E>) -> Sent + Send + Sync + 'static) -> Arc<Self> {
        let waiting = Mutex::new(Waiting { entries: Vec::new(), bytes: 0, batch: 0 });
        Arc::new(Coalescer { send: Arc::new(send), waiting })
    }

    /// Sends an entry of this size with the next batch, and gives its result. A failed entry is sent again alone,
    /// unless that cannot help.
    pub(super) async fn send(self: &Arc<Self>, entry: E, bytes: usize) -> Outcome {
        let mut sent = 0;
        loop {
            let (answer, told) = oneshot::channel();
            self.add(entry.clone(), bytes, answer);
            sent += 1;
            match told.await.unwrap_or_else(|_| Err(Fault::Other("the request was dropped".into()))) {
                Err(Fault::Throttled) if sent < TRIES => tokio::time::sleep(PAUSE * (1 << (sent - 1))).await,
                Err(fault) if sent < TRIES && fault.is_passing() => {}
                outcome => return outcome,
            }
        }
    }

    fn add(self: &Arc<Self>, entry: E, bytes: usize, answer: oneshot::Sender<Outcome>) {
        let mut waiting = lock(&self.waiting);
        if waiting.bytes + bytes > BYTES {
            self.flush(&mut waiting);
        }
        waiting.entries.push((entry, answer));
        waiting.bytes += bytes;
        if waiting.entries.len() == MOST {
            self.flush(&mut waiting);
        // The first of a batch starts its timer.
        } else if waiting.entries.len() == 1 {
            let (own, batch) = (self.clone(), waiting.batch);
            tokio::spawn(async move {
                tokio::time::sleep(LINGER).await;
                let mut waiting = lock(&own.waiting);
                // Else it was full before, and another one is being collected.
                if waiting.batch == batch {
                    own.flush(&mut waiting);
                }
            });
        }
    }

    fn flush(&self, waiting: &mut Waiting<E>) {
        let (entries, answers): (Vec<E>, Vec<_>) = std::mem::take(&mut waiting.entries).into_iter().unzip();
        waiting.bytes = 0;
        waiting.batch += 1;
        if entries.is_empty() {
            return;
        }
        let sent = (self.send)(entries);
        tokio::spawn(async move {
            for (answer, outcome) in answers.into_iter().zip(sent.await) {
                answer.send(outcome).ok();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Batches = Arc<Mutex<Vec<Vec<u32>>>>;

    /// A coalescer that records its batches.
    fn noting() -> (Arc<Coalescer<u32>>, Batches) {
        let batches = Batches::default();
        let noted = batches.clone();
        let coalescer = Coalescer::new(move |entries: Vec<u32>| {
            let answers = entries.iter().map(|entry| Ok(entry.to_string())).collect();
            noted.lock().unwrap().push(entries);
            Box::pin(async move { answers })
        });
        (coalescer, batches)
    }

    #[tokio::test(start_paused = true)]
    async fn batch_of_ten_is_sent_at_once_and_a_smaller_one_after_a_delay() {
        let (coalescer, batches) = noting();
        let started = tokio::time::Instant::now();
        let asked: Vec<_> = (0..23)
            .map(|n| {
                let coalescer = coalescer.clone();
                tokio::spawn(async move { coalescer.send(n, 1).await })
            })
            .collect();
        for (n, answer) in asked.into_iter().enumerate() {
            assert_eq!(answer.await.unwrap(), Ok(n.to_string()));
        }
        let sizes: Vec<usize> = batches.lock().unwrap().iter().map(Vec::len).collect();
        assert_eq!(sizes, [10, 10, 3]);
        assert_eq!(started.elapsed(), LINGER, "the last three waited for company");
    }

    #[tokio::test(start_paused = true)]
    async fn throttled_entry_is_retried_with_backoff() {
        let count = Arc::new(Mutex::new(0));
        let noted = count.clone();
        let coalescer = Coalescer::new(move |entries: Vec<u32>| {
            *noted.lock().unwrap() += 1;
            Box::pin(async move { entries.iter().map(|_| Err(Fault::Throttled)).collect() })
        });
        let started = tokio::time::Instant::now();
        assert_eq!(coalescer.send(1, 1).await, Err(Fault::Throttled));
        assert_eq!((*count.lock().unwrap(), started.elapsed()), (3, PAUSE * 3 + LINGER * 3));
    }

    #[tokio::test(start_paused = true)]
    async fn batch_size_stays_below_the_byte_limit_of_sqs() {
        let (coalescer, batches) = noting();
        let asked: Vec<_> = (0..3)
            .map(|n| {
                let coalescer = coalescer.clone();
                tokio::spawn(async move { coalescer.send(n, BYTES / 2).await })
            })
            .collect();
        for answer in asked {
            answer.await.unwrap().unwrap();
        }
        assert_eq!(*batches.lock().unwrap(), [vec![0, 1], vec![2]]);
    }
}
