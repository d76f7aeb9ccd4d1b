//! Number of waiting jobs in each queue, for the supervisor.

use std::collections::BTreeMap;
use std::time::Duration;

use super::request::Queues;
use model::{JobState, Millis, QueueCounts, QueueName, Waiting};

/// Makes them of the counts of a moment.
pub(super) fn waiting(queues: &Queues, now: Millis) -> BTreeMap<QueueName, Waiting> {
    let of = |counts: &QueueCounts| {
        // A paused queue hands out no jobs.
        let open = counts.paused.is_none();
        let jobs = counts.jobs.get(&JobState::Waiting).copied().filter(|_| open).unwrap_or(0);
        let since = counts.oldest_waiting.filter(|_| jobs > 0);
        let age = |since: Millis| Duration::from_millis(u64::try_from(now.0 - since.0).unwrap_or(0));
        Waiting { jobs, age: since.map(age) }
    };
    queues.iter().map(|(name, counts)| (name.clone(), of(counts))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_count_of_a_paused_queue_is_zero() {
        let jobs = BTreeMap::from([(JobState::Waiting, 3), (JobState::Running, 9)]);
        let open = QueueCounts { jobs, oldest_waiting: Some(Millis(1_000)), ..QueueCounts::default() };
        let pause = model::Pause { since: Millis(0), by: String::new(), reason: None };
        let paused = QueueCounts { paused: Some(pause), ..open.clone() };
        let queues = Queues::from([("a".into(), open), ("b".into(), paused)]);
        let found = waiting(&queues, Millis(3_500));
        let a = Waiting { jobs: 3, age: Some(Duration::from_millis(2_500)) };
        assert_eq!(found, BTreeMap::from([("a".into(), a), ("b".into(), Waiting::default())]));
    }
}
