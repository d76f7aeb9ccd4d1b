//! The queues' part of `/metrics`. As anybody who puts a job may name a new queue, only some queues get a label of
//! their own; the others are counted together.

use std::collections::BTreeMap;

use super::metrics_page::Page;
use model::{JobState, Meters, Sum, Today};

/// Limit of the queues with a label of their own.
pub(super) const QUEUES: usize = 100;
/// The label of the other queues.
pub(super) const OTHER: &str = "other";

/// The sums of one queue, or of those without a label.
#[derive(Default)]
struct Queue {
    jobs: [u64; JobState::ALL.len()],
    oldest: Option<i64>,
    paused: u64,
    unserved: u64,
    today: Today,
}

pub(super) fn queues(page: &mut Page, meters: &Meters) {
    // The queues of the pools come first.
    let own =
        |name: &&str| meters.status.pools.iter().any(|pool| pool.queues.iter().any(|q| q.as_str() == *name));
    let names = meters.status.queues.keys().map(|name| name.as_str());
    let (served, others): (Vec<&str>, Vec<&str>) = names.partition(own);
    let labeled: Vec<&str> = served.into_iter().chain(others).take(QUEUES).collect();
    let mut queues: BTreeMap<&str, Queue> = BTreeMap::new();
    for (name, counts) in &meters.status.queues {
        let label = if labeled.contains(&name.as_str()) { name.as_str() } else { OTHER };
        let queue = queues.entry(label).or_default();
        for (sum, state) in queue.jobs.iter_mut().zip(JobState::ALL) {
            *sum += counts.jobs.get(&state).copied().unwrap_or_default();
        }
        // The clock may have been put back since the put.
        let age = counts.oldest_waiting.map(|put| meters.now.0.saturating_sub(put.0).max(0));
        // None is less than any age.
        queue.oldest = queue.oldest.max(age);
        queue.paused += u64::from(counts.paused.is_some());
        queue.unserved += u64::from(counts.unserved && counts.to_run() > 0);
        queue.today += counts.today;
    }
    of_now(page, &queues);
    of_today(page, &queues);
}

fn of_now(page: &mut Page, queues: &BTreeMap<&str, Queue>) {
    page.family("queue_jobs", "gauge", "Jobs in the store, by state.");
    for (label, queue) in queues {
        for (count, state) in queue.jobs.iter().zip(JobState::ALL) {
            page.sample("queue_jobs", &[("queue", label), ("state", state.as_str())], count);
        }
    }
    page.family("queue_oldest_waiting_seconds", "gauge", "Age of the oldest job that waits; none waits: 0.");
    for (label, queue) in queues {
        let age = queue.oldest.unwrap_or_default() as f64 / 1000.0;
        page.sample("queue_oldest_waiting_seconds", &[("queue", label)], age);
    }
    page.family("queue_paused", "gauge", "Whether nothing is taken from it.");
    for (label, queue) in queues {
        page.sample("queue_paused", &[("queue", label)], queue.paused);
    }
    page.family("queue_unserved", "gauge", "Whether jobs wait there and no pool takes them.");
    for (label, queue) in queues {
        page.sample("queue_unserved", &[("queue", label)], queue.unserved);
    }
}

/// Sums of the store since midnight, over all processes: they start again each day, as a counter may.
fn of_today(page: &mut Page, queues: &BTreeMap<&str, Queue>) {
    type Sums = [(&'static str, &'static str, fn(&Today) -> Sum); 2];
    const SUMS: Sums = [
        ("queue_wait_seconds", "How long jobs waited that were given out today (UTC).", |today| today.wait),
        ("queue_run_seconds", "How long attempts ran that completed their jobs today (UTC).", |today| {
            today.run
        }),
    ];
    for (name, help, sum) in SUMS {
        page.family(name, "summary", help);
        for (label, queue) in queues {
            let Sum { count, seconds } = sum(&queue.today);
            page.sample(&format!("{name}_sum"), &[("queue", label)], seconds);
            page.sample(&format!("{name}_count"), &[("queue", label)], count);
        }
    }
    type Counts = [(&'static str, &'static str, &'static str, fn(&Today) -> u64); 3];
    const COUNTS: Counts = [
        (
            "queue_retries_total",
            "counter",
            "Attempts that failed today (UTC) and were tried again.",
            |today| today.retries,
        ),
        ("queue_failures_total", "counter", "Jobs that failed today (UTC).", |today| today.failures),
        ("queue_failed_today", "gauge", "Those of them that still are.", |today| today.failed),
    ];
    for (name, kind, help, count) in COUNTS {
        page.family(name, kind, help);
        for (label, queue) in queues {
            page.sample(name, &[("queue", label)], count(&queue.today));
        }
    }
}
