//! The results of a run.

use std::time::Duration;

use serde::Serialize;

use super::calls::Calls;

/// How long the jobs of a queue waited, from arrival to start. In seconds in JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// The queue, or `all`.
    pub name: String,
    /// Its priority; None = all queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// Number of its jobs.
    pub jobs: usize,
    /// The mean wait, in seconds.
    #[serde(serialize_with = "seconds")]
    pub mean: Duration,
    /// Half of the jobs waited no longer.
    #[serde(serialize_with = "seconds")]
    pub p50: Duration,
    /// 95 of 100 jobs waited no longer.
    #[serde(serialize_with = "seconds")]
    pub p95: Duration,
    /// 99 of 100 jobs waited no longer.
    #[serde(serialize_with = "seconds")]
    pub p99: Duration,
    /// The longest wait, in seconds.
    #[serde(serialize_with = "seconds")]
    pub max: Duration,
}

impl Latency {
    /// From waits in any order, in nanoseconds.
    pub(super) fn of(name: &str, priority: Option<u8>, mut waits: Vec<u64>) -> Self {
        waits.sort_unstable();
        let jobs = waits.len();
        // The smallest wait that this percentage of the jobs does not exceed.
        let at = |percent: usize| {
            let rank = (jobs * percent).div_ceil(100).saturating_sub(1);
            Duration::from_nanos(waits.get(rank).copied().unwrap_or(0))
        };
        let sum: u128 = waits.iter().map(|wait| u128::from(*wait)).sum();
        // A queue may have no jobs at all.
        let mean = u64::try_from(sum / jobs.max(1) as u128).unwrap_or(u64::MAX);
        Latency {
            name: name.into(),
            priority,
            jobs,
            mean: Duration::from_nanos(mean),
            p50: at(50),
            p95: at(95),
            p99: at(99),
            max: at(100),
        }
    }
}

/// One run: a workload, a number of workers, an order.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// The order by which its workers chose among the queues.
    pub selector: &'static str,
    /// Number of workers.
    pub workers: u16,
    /// The latency of each queue.
    pub queues: Vec<Latency>,
    /// The latency of all jobs together.
    pub all: Latency,
    /// The queue with the longest p95.
    pub worst: String,
    /// Time from the beginning to the end of the last job.
    #[serde(serialize_with = "seconds")]
    pub length: Duration,
    /// The share of the total worker time in which jobs ran.
    pub utilisation: f64,
    /// The calls to Amazon SQS, if that is the broker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<Calls>,
}

fn seconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_observed_waits() {
        let latency = Latency::of("a", None, (1..=200).rev().collect());
        let found =
            [latency.mean, latency.p50, latency.p95, latency.p99, latency.max].map(|time| time.as_nanos());
        assert_eq!(found, [100, 100, 190, 198, 200]);
        let one = Latency::of("a", None, vec![7]);
        assert_eq!((one.p50.as_nanos(), one.max.as_nanos(), one.jobs), (7, 7, 1));
        assert_eq!(Latency::of("a", None, vec![]).max, Duration::ZERO);
    }
}
