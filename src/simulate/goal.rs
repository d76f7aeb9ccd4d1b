//! Goals for a fleet: `high<5s`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::report::{Latency, Report};
use model::{format_duration, parse_duration};

/// A figure of a queue's latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// The mean latency.
    Mean,
    /// Half of the jobs start sooner.
    P50,
    /// 95 of 100 jobs start sooner.
    P95,
    /// 99 of 100 jobs start sooner.
    P99,
    /// The longest latency.
    Max,
}

impl Figure {
    const ALL: [(&str, Figure); 5] = [
        ("mean", Figure::Mean),
        ("p50", Figure::P50),
        ("p95", Figure::P95),
        ("p99", Figure::P99),
        ("max", Figure::Max),
    ];

    fn of(self, latency: &Latency) -> Duration {
        match self {
            Figure::Mean => latency.mean,
            Figure::P50 => latency.p50,
            Figure::P95 => latency.p95,
            Figure::P99 => latency.p99,
            Figure::Max => latency.max,
        }
    }
}

/// A bound on the latency of a queue: `QUEUE<DURATION`, which is the p95, or `QUEUE.FIGURE<DURATION`. The queue `*`
/// means each of them.
/// ```
/// use taskvisor_simulate::Goal;
/// assert_eq!("mail<5s".parse::<Goal>().unwrap().to_string(), "mail.p95<5s");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goal {
    /// The queue, or `*`.
    pub queue: String,
    /// The figure to compare.
    pub figure: Figure,
    /// The bound of the latency.
    pub below: Duration,
}

impl Goal {
    /// Whether a run reached it; None if it has no such queue.
    pub fn is_met(&self, report: &Report) -> Option<bool> {
        let named = |name: &str| self.queue == "*" || self.queue == name;
        let mut queues = report.queues.iter().filter(|queue| named(&queue.name)).peekable();
        // `all` of no queue would be true: a goal for a queue that is not there is not met.
        queues.peek()?;
        Some(queues.all(|queue| self.figure.of(queue) < self.below))
    }
}

impl FromStr for Goal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no goal like 'high<5s' or 'high.p99<5s'");
        let (what, below) = text.split_once('<').ok_or_else(wrong)?;
        let below = parse_duration(below.trim())?;
        let what = what.trim();
        // A queue may have a dot in its name.
        let figure = what.rsplit_once('.').and_then(|(queue, name)| {
            let figure = Figure::ALL.iter().find(|(known, _)| *known == name)?.1;
            Some((queue, figure))
        });
        let (queue, figure) = figure.unwrap_or((what, Figure::P95));
        // No latency is below 0, so no number of workers would be enough.
        if queue.is_empty() || below.is_zero() {
            return Err(wrong());
        }
        Ok(Goal { queue: queue.into(), figure, below })
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Figure::ALL.iter().find(|(_, figure)| *figure == self.figure).map_or("", |(name, _)| name);
        write!(f, "{}.{name}<{}", self.queue, format_duration(self.below))
    }
}

impl Serialize for Goal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goal_round_trips_and_defaults_to_the_p95() {
        for (text, written) in
            [("a<5s", "a.p95<5s"), ("a.b.max < 1m", "a.b.max<1m"), ("a.b<1s", "a.b.p95<1s")]
        {
            let goal: Goal = text.parse().unwrap();
            assert_eq!(goal.to_string(), written);
            assert_eq!(written.parse(), Ok(goal));
        }
        for text in ["a", "a<", "<5s", "a<5", "a<0", "a>5s", ""] {
            assert!(text.parse::<Goal>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_goal_is_for_a_queue_or_for_each() {
        let latency = |name: &str, p95: u64| Latency {
            name: name.into(),
            p95: Duration::from_secs(p95),
            ..Latency::default()
        };
        let report = Report { queues: vec![latency("a", 1), latency("b", 9)], ..Report::default() };
        let met = |text: &str| text.parse::<Goal>().unwrap().is_met(&report);
        assert_eq!(
            (met("a<2s"), met("b<2s"), met("b<9s"), met("b<10s")),
            (Some(true), Some(false), Some(false), Some(true))
        );
        assert_eq!((met("*<2s"), met("*<10s"), met("c<2s")), (Some(false), Some(true), None));
    }
}
