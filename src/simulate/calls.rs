//! The calls to a broker that bills by the call.

use std::time::Duration;

use serde::Serialize;

/// How a broker is called, and its price. The defaults are those of Amazon SQS.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// The most jobs in one call that receives or deletes.
    pub batch: usize,
    /// How long a receiving call waits for a job before it returns empty.
    pub poll: Duration,
    /// How long the end of a job waits for others, to share one call.
    pub linger: Duration,
    /// The price of a million calls.
    pub per_million: f64,
}

impl Default for Prices {
    fn default() -> Self {
        Prices {
            batch: 10,
            poll: Duration::from_secs(20),
            linger: Duration::from_millis(100),
            per_million: 0.40,
        }
    }
}

/// The calls of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Calls {
    /// Receiving calls that brought jobs.
    pub receive: u64,
    /// Receiving calls that returned empty, one queue each, while a worker was free.
    pub empty: u64,
    /// Calls that reported ends of jobs.
    pub delete: u64,
    /// All calls divided by the number of jobs.
    pub per_job: f64,
    /// The price of all calls.
    pub cost: f64,
}

/// Counts the calls while jobs come and go.
#[derive(Debug)]
pub(super) struct Meter {
    prices: Prices,
    calls: Calls,
    /// Ends that the next call will report, and when the first of them was.
    ends: usize,
    first_end: Duration,
}

impl Meter {
    pub(super) fn new(prices: Prices) -> Self {
        let prices = Prices { batch: prices.batch.max(1), ..prices };
        Meter { prices, calls: Calls::default(), ends: 0, first_end: Duration::ZERO }
    }

    /// Counts the calls that brought this number of jobs from a queue.
    pub(super) fn received(&mut self, jobs: usize) {
        self.calls.receive += jobs.div_ceil(self.prices.batch) as u64;
    }

    /// Counts the end of a job.
    pub(super) fn ended(&mut self, now: Duration) {
        let is_open = self.ends > 0
            && self.ends < self.prices.batch
            && now <= self.first_end.saturating_add(self.prices.linger);
        if is_open {
            self.ends += 1;
        } else {
            (self.ends, self.first_end) = (1, now);
            self.calls.delete += 1;
        }
    }

    /// The totals: for the time `free` a worker was free and waited for this number of queues.
    pub(super) fn total(mut self, free: Duration, queues: usize, jobs: usize) -> Calls {
        let polls = free.as_secs_f64() / self.prices.poll.as_secs_f64().max(0.001);
        self.calls.empty = polls as u64 * queues as u64;
        let all = self.calls.receive + self.calls.empty + self.calls.delete;
        self.calls.per_job = all as f64 / jobs.max(1) as f64;
        self.calls.cost = all as f64 * self.prices.per_million / 1e6;
        self.calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_within_100_ms_share_a_call_of_ten() {
        let mut meter = Meter::new(Prices::default());
        let at = Duration::from_millis;
        (0..25).for_each(|_| meter.ended(at(5)));
        assert_eq!(meter.calls.delete, 3);
        meter.ended(at(105));
        assert_eq!(meter.calls.delete, 3);
        meter.ended(at(106));
        assert_eq!(meter.calls.delete, 4);
    }

    #[test]
    fn every_call_is_counted_and_priced() {
        let mut meter = Meter::new(Prices::default());
        [1, 10, 11].iter().for_each(|jobs| meter.received(*jobs));
        let calls = meter.total(Duration::from_secs(65), 2, 5);
        let expected = Calls { receive: 4, empty: 6, delete: 0, per_job: 2.0, cost: 10.0 * 0.4e-6 };
        assert_eq!(calls, expected);
    }
}
