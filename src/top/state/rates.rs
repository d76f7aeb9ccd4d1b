//! How fast things change, from one look to the next.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use model::{JobState, Millis, QueueCounts, QueueName, Status};
use term::format::between;

/// Limit of the looks that are remembered, and of the queues.
const LOOKS: usize = 120;
const QUEUES: usize = 500;

/// A value at each look, the latest last.
#[derive(Clone, Debug, Default)]
pub struct Ring(VecDeque<(Millis, f64)>);

impl Ring {
    fn push(&mut self, at: Millis, value: f64) {
        if self.0.len() == LOOKS {
            self.0.pop_front();
        }
        self.0.push_back((at, value));
    }

    /// Whether nothing was seen yet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The latest value.
    pub fn last(&self) -> f64 {
        self.0.back().map_or(0.0, |(_, value)| *value)
    }

    /// The values as so many bars, the latest last; each is the highest of its part.
    pub fn bars(&self, count: usize, ascii: bool) -> String {
        const ASCII: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];
        const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let each = LOOKS.div_ceil(count.max(1)).min(4);
        let values: Vec<f64> = self.0.iter().rev().take(count * each).map(|(_, value)| *value).collect();
        let most = values.iter().copied().fold(0.0, f64::max);
        let level = |part: &[f64]| {
            let highest = part.iter().copied().fold(0.0, f64::max);
            // Rounded up, so that a small value is seen, too.
            let level = if most > 0.0 { (highest / most * 7.0).ceil() as usize } else { 0 };
            if ascii { ASCII[level.min(7)] } else { BLOCKS[level.min(7)] }
        };
        // Taken from the latest on: a part that is not full is the oldest.
        values.chunks(each).map(level).collect::<Vec<char>>().into_iter().rev().collect()
    }

    /// The change in a second, over all that is remembered; None after one look.
    fn slope(&self) -> Option<f64> {
        let ((from, first), (to, last)) = (self.0.front()?, self.0.back()?);
        let seconds = between(*from, *to).as_secs_f64();
        (seconds > 0.0).then(|| (last - first) / seconds)
    }
}

/// When a queue will be empty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clear {
    /// It is empty.
    Empty,
    /// After this time, if it goes on so.
    In(Duration),
    /// Never, if it goes on so.
    Grows,
    /// Not known yet, or it stays as it is.
    Unknown,
}

/// What is remembered of the looks.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    /// Jobs that ended well, in a second.
    pub complete: Ring,
    /// Jobs that failed or are held, in a second.
    pub failed: Ring,
    /// Jobs that wait, in all queues.
    pub waiting: Ring,
    /// How long 95 of 100 jobs had waited at most that began in a step, in seconds.
    pub wait: Ring,
    /// The same of the latest jobs; none if none began lately.
    pub wait_now: Option<f64>,
    queues: BTreeMap<QueueName, Ring>,
    before: Option<(Millis, f64, f64)>,
}

impl Rates {
    /// Takes in the verdicts of a supervisor.
    pub fn settled(&mut self, at: Millis, status: &Status) {
        let sum =
            |names: &[&str]| names.iter().filter_map(|name| status.settled.get(*name)).sum::<u64>() as f64;
        let (complete, failed) = (sum(&["complete"]), sum(&["failed", "held"]));
        if let Some((then, complete_then, failed_then)) = self.before {
            // Two looks may fall on one moment.
            let seconds = between(then, at).as_secs_f64().max(0.001);
            // A new supervisor counts from 0.
            self.complete.push(at, ((complete - complete_then) / seconds).max(0.0));
            self.failed.push(at, ((failed - failed_then) / seconds).max(0.0));
        }
        self.before = Some((at, complete, failed));
    }

    /// Takes in the counts of all queues.
    pub fn counted(&mut self, at: Millis, queues: &BTreeMap<QueueName, QueueCounts>) {
        let waits = |counts: &QueueCounts| counts.jobs.get(&JobState::Waiting).copied().unwrap_or(0) as f64;
        self.waiting.push(at, queues.values().map(waits).sum());
        self.queues.retain(|name, _| queues.contains_key(name));
        for (name, counts) in queues.iter().take(QUEUES) {
            self.queues.entry(name.clone()).or_default().push(at, waits(counts));
        }
    }

    /// Takes in how long jobs had waited, by step; a step in which none began counts as 0.
    pub fn waited(&mut self, at: Millis, steps: &[Option<f64>]) {
        let some = &steps[steps.len().saturating_sub(LOOKS)..];
        // The last step may have begun a moment ago.
        self.wait_now = steps.iter().rev().take(2).find_map(|wait| *wait);
        self.wait = Ring(some.iter().map(|wait| (at, wait.unwrap_or(0.0))).collect());
    }

    /// How many jobs waited in a queue, at each look.
    pub fn queue(&self, name: &QueueName) -> Option<&Ring> {
        self.queues.get(name)
    }

    /// When a queue will be empty.
    pub fn clear(&self, name: &QueueName) -> Clear {
        let Some(ring) = self.queues.get(name) else { return Clear::Unknown };
        match ring.slope() {
            _ if ring.last() == 0.0 => Clear::Empty,
            Some(slope) if slope < -0.01 => {
                Duration::try_from_secs_f64(ring.last() / -slope).map_or(Clear::Unknown, Clear::In)
            }
            Some(slope) if slope > 0.01 => Clear::Grows,
            Some(_) | None => Clear::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(values: &[u64]) -> Rates {
        let mut rates = Rates::default();
        for (second, waiting) in values.iter().enumerate() {
            let counts =
                QueueCounts { jobs: [(JobState::Waiting, *waiting)].into(), ..QueueCounts::default() };
            rates.counted(Millis(second as i64 * 1000), &[("mail".into(), counts)].into());
        }
        rates
    }

    #[test]
    fn time_to_clear_follows_the_slope() {
        let clear = |values: &[u64]| counted(values).clear(&"mail".into());
        assert_eq!(clear(&[30, 20]), Clear::In(Duration::from_secs(2)));
        assert_eq!(clear(&[20, 30]), Clear::Grows);
        assert_eq!(clear(&[20, 20]), Clear::Unknown);
        assert_eq!(clear(&[20]), Clear::Unknown);
        assert_eq!(clear(&[20, 0]), Clear::Empty);
        assert_eq!(counted(&[1]).clear(&"other".into()), Clear::Unknown);
    }

    #[test]
    fn wait_is_that_of_the_present_step_or_the_one_before() {
        let mut rates = Rates::default();
        rates.waited(Millis(0), &[Some(4.0), None, Some(1.5), None]);
        assert_eq!((rates.wait_now, rates.wait.0.len()), (Some(1.5), 4));
        rates.waited(Millis(0), &[Some(4.0), None, Some(1.5), None, None]);
        assert_eq!((rates.wait_now, rates.wait.last()), (None, 0.0));
    }

    #[test]
    fn bars_show_the_highest_of_each_part() {
        let rates = counted(&[0, 0, 0, 0, 7, 0, 0, 0, 14, 14, 14, 14]);
        assert_eq!(rates.waiting.bars(8, false), "▁▅█");
        assert_eq!(rates.waiting.bars(8, true), "_=#");
        assert_eq!(counted(&[0, 0]).waiting.bars(2, false), "▁");
    }
}
