//! The demand of a pool for jobs: whether a receive is worthwhile, and how many messages it may bring. Pure: the caller
//! gives the time.

use std::time::Duration;

use super::terms::MOST;
use model::{Instant, QueueName};

/// From this many jobs in a second on, a receive begins before the buffer is empty.
const FAST: usize = 10;
/// A receive begins when the messages here last for one part of a second: this many parts are a second.
const AHEAD: usize = 5;

/// The demand of a pool.
#[derive(Clone, Debug, Default)]
pub struct Demand {
    /// Its queues, in the order of its latest fetch.
    pub queues: Vec<QueueName>,
    /// Whether a queue comes before those behind it. If not, each gives a job in turn.
    pub is_ordered: bool,
    /// Number of its workers without a job.
    pub ready: usize,
    /// How long to keep a message invisible for others.
    pub lease: Duration,
    /// Number of jobs taken in the second before `second`, and since.
    taken: (usize, usize),
    second: Option<Instant>,
    /// The queue of the latest jobs, and how many in a row it gave.
    row: Option<(QueueName, usize)>,
}

impl Demand {
    /// Notes that some jobs were taken, as many from each of `queues` as `counts` says.
    pub(super) fn took(&mut self, counts: &[usize], now: Instant) {
        let (count, second) = (counts.iter().sum(), Duration::from_secs(1));
        match self.second {
            Some(start) if now.since(start) < second => self.taken.1 += count,
            // The second is over: its count stands for the rate until the next one has its own.
            Some(start) if now.since(start) < 2 * second => {
                (self.taken, self.second) = ((self.taken.1, count), Some(now));
            }
            Some(_) | None => (self.taken, self.second) = ((0, count), Some(now)),
        }
        for (queue, count) in self.queues.iter().zip(counts).filter(|(_, count)| **count > 0) {
            let before = self.row.take().filter(|(latest, _)| latest == queue).map_or(0, |(_, row)| row);
            self.row = Some((queue.clone(), before + count));
        }
    }

    /// The place of a queue in its order.
    pub(super) fn place(&self, queue: &QueueName) -> Option<usize> {
        self.queues.iter().position(|own| own == queue)
    }

    /// Number of jobs that it takes in a second.
    fn rate(&self, now: Instant) -> usize {
        // Without a job for two seconds the pool is not fast any more, whatever it was before.
        let is_recent = self.second.is_some_and(|start| now.since(start) < Duration::from_secs(2));
        // The second under way may have just begun, so the higher of the two counts.
        if is_recent { self.taken.0.max(self.taken.1) } else { 0 }
    }

    /// Whether the messages of a receive will be taken soon: a worker waits, or jobs are so short that the messages here
    /// will be gone by its answer. But if a queue gives only a few jobs in a row, its turn may be over by then.
    pub(super) fn is_worth_a_receive(&self, queue: &QueueName, here: usize, now: Instant) -> bool {
        let rate = self.rate(now);
        let gives_on = !self.is_ordered
            || self.queues.len() == 1
            || self.row.as_ref().is_some_and(|(latest, row)| latest == queue && *row > MOST);
        match here {
            0 => self.ready > 0 || rate >= FAST,
            _ => rate >= FAST && gives_on && here < MOST && here * AHEAD <= rate,
        }
    }

    /// How many messages it takes soon: one for each worker that waits, and those that it takes in a second.
    pub(super) fn soon(&self, now: Instant) -> usize {
        // At least one: SQS refuses a receive of no messages.
        (self.ready + self.rate(now)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn receive_begins_ahead_only_for_short_jobs() {
        let queue = QueueName::from("q");
        let mut demand = Demand { queues: vec![queue.clone()], is_ordered: true, ..Demand::default() };
        assert!(!demand.is_worth_a_receive(&queue, 0, at(0)), "nobody waits");
        demand.ready = 1;
        assert!(demand.is_worth_a_receive(&queue, 0, at(0)));
        assert!(!demand.is_worth_a_receive(&queue, 1, at(0)), "there is one for it");
        demand.ready = 0;
        demand.took(&[60], at(500));
        assert!(demand.is_worth_a_receive(&queue, 9, at(600)), "60 were taken within a second");
        assert!(!demand.is_worth_a_receive(&queue, 10, at(600)));
        assert!(!demand.is_worth_a_receive(&queue, 9, at(5000)), "long ago");
        demand.took(&[20], at(9000));
        assert!(demand.is_worth_a_receive(&queue, 4, at(9000)));
        assert!(!demand.is_worth_a_receive(&queue, 5, at(9000)), "these last for a quarter of a second");
    }

    #[test]
    fn receive_begins_ahead_only_from_a_queue_that_gives_more_than_one_turn() {
        let [high, low] = [QueueName::from("high"), QueueName::from("low")];
        let queues = vec![high.clone(), low.clone()];
        let mut demand = Demand { queues, is_ordered: true, ..Demand::default() };
        demand.took(&[90, 10], at(0));
        assert!(!demand.is_worth_a_receive(&low, 1, at(0)), "ten may have been its turn");
        assert!(!demand.is_worth_a_receive(&high, 1, at(0)), "the other one gave the latest");
        demand.took(&[0, 5], at(1));
        assert!(demand.is_worth_a_receive(&low, 1, at(1)));
        demand.is_ordered = false;
        assert!(demand.is_worth_a_receive(&high, 1, at(1)), "each is taken from in turn");
    }

    #[test]
    fn receive_asks_for_as_many_messages_as_workers_can_take_soon() {
        let mut demand = Demand { queues: vec!["q".into()], ready: 2, ..Demand::default() };
        assert_eq!(demand.soon(at(0)), 2, "two wait, and nothing is known of how fast jobs are");
        demand.ready = 1;
        demand.took(&[8], at(500));
        assert_eq!(demand.soon(at(500)), 9, "eight were taken within a second");
        demand.took(&[0], at(1600));
        assert_eq!(demand.soon(at(1600)), 9, "the second before counts");
        demand.took(&[0], at(9000));
        assert_eq!(demand.soon(at(9000)), 1, "they take longer now");
    }
}
