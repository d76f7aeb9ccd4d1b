//! The demand for jobs of a queue: whether a poll is worthwhile, and how many messages it may bring. Pure: the caller
//! gives the time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::model::Instant;

/// Most messages of one poll.
const MOST: usize = 10;
/// From this many jobs in a second on, a poll begins before the buffer is empty.
const FAST: usize = 50;

/// The demand for jobs of a queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    /// Number of workers without a job, by pool.
    pub ready: BTreeMap<Arc<str>, usize>,
    /// Number of jobs taken in the second before `second`, and since.
    pub taken: (usize, usize),
    pub second: Option<Instant>,
    /// How long to keep a message invisible for others.
    pub lease: Duration,
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
    pub(super) fn is_worth_a_poll(&self, waiting: usize, now: Instant) -> bool {
        let is_recent = self.second.is_some_and(|start| now.since(start) < Duration::from_secs(2));
        let is_fast = is_recent && self.taken.0.max(self.taken.1) >= FAST;
        (waiting == 0 && self.ready() > 0) || (waiting < MOST && is_fast)
    }

    /// As many as workers wait, plus as many as were taken within a second: these will not wait for long.
    pub(super) fn most(&self) -> usize {
        (self.ready() + self.taken.0.max(self.taken.1)).clamp(1, MOST)
    }
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
