//! The calls to Amazon SQS, which bills by the call.

use serde::Serialize;

use select::terms::{LINGER, MOST};

/// The calls of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Calls {
    /// Receiving calls that brought jobs.
    pub receive: u64,
    /// Receiving calls that brought none.
    pub empty: u64,
    /// Calls that reported ends of jobs.
    pub delete: u64,
    /// Calls that renewed leases, or gave messages back that no worker took in time.
    pub hide: u64,
    /// Calls that counted the messages of a queue.
    pub count: u64,
    /// All calls divided by the number of jobs.
    pub per_job: f64,
    /// The price of all calls.
    pub cost: f64,
}

impl Calls {
    /// With the totals for this number of jobs, at the price of a million calls.
    pub(super) fn priced(self, jobs: usize, per_million: f64) -> Calls {
        let all = self.receive + self.empty + self.delete + self.hide + self.count;
        Calls { per_job: all as f64 / jobs.max(1) as f64, cost: all as f64 * per_million / 1e6, ..self }
    }
}

/// Requests of one kind about messages of a queue, which share calls.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Batch {
    /// Requests of the latest call, and when the first of them was, in nanoseconds.
    requests: usize,
    first: u64,
}

impl Batch {
    /// One more request; true if it begins a call.
    pub(super) fn begins_call(&mut self, now: u64) -> bool {
        let lingers = u64::try_from(LINGER.as_nanos()).unwrap_or(u64::MAX);
        // Requests share a call until it is full or has waited for long enough, as in the adapter.
        let is_open = (1..MOST).contains(&self.requests) && now - self.first <= lingers;
        (self.requests, self.first) = if is_open { (self.requests + 1, self.first) } else { (1, now) };
        !is_open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_within_50_ms_share_a_call_of_ten() {
        let mut batch = Batch::default();
        let mut begun =
            |millis: u64, count: usize| (0..count).filter(|_| batch.begins_call(millis * 1_000_000)).count();
        assert_eq!(begun(5, 25), 3);
        assert_eq!((begun(55, 1), begun(56, 1)), (0, 1));
    }

    #[test]
    fn every_call_is_counted_and_priced() {
        let calls = Calls { receive: 4, empty: 2, delete: 1, hide: 2, count: 1, ..Calls::default() };
        let priced = calls.priced(5, 0.4);
        assert_eq!((priced.per_job, priced.cost), (2.0, 10.0 * 0.4e-6));
    }
}
