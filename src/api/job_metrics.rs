//! The part of `/metrics` on which people alert: what ends jobs, how long they wait and run, what recurs, and the disks.

use std::collections::BTreeMap;

use super::metrics_page::Page;
use model::{Disk, Histogram, Meters, RecurringMeter};

/// Limit of the reasons that get a label of their own, and of the letters of each.
const REASONS: (usize, usize) = (20, 120);

pub(super) fn jobs(page: &mut Page, meters: &Meters) {
    let counters = &meters.counters;
    page.family("attempts_failed_total", "counter", "Attempts that failed, retried or not, by class.");
    for (class, count) in &counters.failed {
        page.sample("attempts_failed_total", &[("class", class)], count);
    }
    page.family(
        "attempts_killed_total",
        "counter",
        "Attempts ended by a limit, a crash, want of memory or a lost lease.",
    );
    // Also those at 0: an increase can only be seen from a value before it.
    for kind in ["cpu", "crash", "lease", "memory", "oom", "output", "processes", "stopped", "time"] {
        let count = counters.kills.get(kind).copied().unwrap_or_default();
        page.sample("attempts_killed_total", &[("kind", kind)], count);
    }
    histogram(page, "job_wait_seconds", "How long jobs had waited that began here.", &counters.waits);
    histogram(page, "job_run_seconds", "How long attempts ran.", &counters.runs);
    oldest(page, meters);
    recurring(page, &meters.recurring);
    disks(page, &meters.disks);
    reasons(page, &meters.status.reasons);
}

fn histogram(page: &mut Page, name: &str, help: &str, queues: &BTreeMap<String, Histogram>) {
    page.family(name, "histogram", help);
    for (queue, histogram) in queues {
        let mut sum = 0;
        for (bound, count) in Histogram::BOUNDS.iter().zip(&histogram.counts) {
            // Each bucket of Prometheus has those of the smaller ones, too.
            sum += count;
            let labels = [("queue", queue.as_str()), ("le", &bound.to_string())];
            page.sample(&format!("{name}_bucket"), &labels, sum);
        }
        page.sample(&format!("{name}_bucket"), &[("queue", queue), ("le", "+Inf")], histogram.count());
        page.sample(&format!("{name}_sum"), &[("queue", queue)], histogram.sum.as_secs_f64());
        page.sample(&format!("{name}_count"), &[("queue", queue)], histogram.count());
    }
}

fn oldest(page: &mut Page, meters: &Meters) {
    page.family("oldest_running_seconds", "gauge", "For how long the oldest job has run; none runs: 0.");
    let mut pools: BTreeMap<&str, f64> = BTreeMap::new();
    for pool in &meters.status.pools {
        let jobs = pool.slots.iter().flat_map(|slot| &slot.jobs);
        let oldest = jobs.map(|job| job.ran.as_secs_f64()).fold(0.0, f64::max);
        let known = pools.entry(&pool.name).or_default();
        *known = known.max(oldest);
    }
    for (pool, oldest) in pools {
        page.sample("oldest_running_seconds", &[("pool", pool)], oldest);
    }
}

fn recurring(page: &mut Page, all: &BTreeMap<String, RecurringMeter>) {
    type Value = fn(&RecurringMeter) -> Option<f64>;
    const VALUES: [(&str, &str, &str, Value); 5] = [
        (
            "recurring_last_success_timestamp_seconds",
            "gauge",
            "When the latest complete job was due.",
            |one| Some(one.last_success?.0 as f64 / 1000.0),
        ),
        ("recurring_put_total", "counter", "Jobs that it has put.", |one| Some(one.put as f64)),
        (
            "recurring_skipped_total",
            "counter",
            "How often it was due while its job before had not ended.",
            |one| Some(one.skipped as f64),
        ),
        ("recurring_missed_timestamp_seconds", "gauge", "What it missed last and did not make up.", |one| {
            Some(one.missed_at?.0 as f64 / 1000.0)
        }),
        ("recurring_stuck", "gauge", "Whether it is due and cannot be put.", |one| {
            Some(f64::from(u8::from(one.stuck)))
        }),
    ];
    for (name, kind, help, value) in VALUES {
        page.family(name, kind, help);
        for (recurring, one) in all {
            if let Some(value) = value(one) {
                page.sample(name, &[("name", recurring)], value);
            }
        }
    }
}

fn disks(page: &mut Page, disks: &BTreeMap<&str, Disk>) {
    page.family("disk_free_bytes", "gauge", "Room where the store and the outputs of jobs are.");
    for (what, disk) in disks {
        page.sample("disk_free_bytes", &[("of", what)], disk.free);
    }
    page.family("disk_size_bytes", "gauge", "Size of these disks.");
    for (what, disk) in disks {
        page.sample("disk_size_bytes", &[("of", what)], disk.size);
    }
}

/// Numbers change all the time, so a letter stands for them: else each would be a series of its own.
fn reasons(page: &mut Page, reasons: &[String]) {
    let (most, longest) = REASONS;
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for reason in reasons.iter().take(most) {
        let mut label = String::new();
        for letter in reason.chars().take(longest) {
            match letter.is_ascii_digit() {
                true if label.ends_with('N') => {}
                true => label.push('N'),
                false => label.push(letter),
            }
        }
        *counts.entry(label).or_default() += 1;
    }
    page.family("health_reasons", "gauge", "Reasons of the verdict; N stands for a number.");
    for (reason, count) in counts {
        page.sample("health_reasons", &[("reason", &reason)], count);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use model::Millis;

    #[test]
    fn histograms_are_cumulative_and_reasons_have_no_numbers() {
        let mut page = Page::default();
        let mut one = Histogram::default();
        [0, 40, 700, 99_999_999].into_iter().for_each(|millis| one.add(Duration::from_millis(millis)));
        histogram(&mut page, "h", "Help.", &[("mail".to_owned(), one)].into());
        reasons(&mut page, &["12 jobs of 3 are held".into(), "7 jobs of 9 are held".into()]);
        let one =
            RecurringMeter { last_success: Some(Millis(5_000)), skipped: 2, ..RecurringMeter::default() };
        recurring(&mut page, &[("nightly".to_owned(), one)].into());
        for line in [
            "taskvisor_h_bucket{queue=\"mail\",le=\"0.01\"} 1",
            "taskvisor_h_bucket{queue=\"mail\",le=\"0.1\"} 2",
            "taskvisor_h_bucket{queue=\"mail\",le=\"1\"} 3",
            "taskvisor_h_bucket{queue=\"mail\",le=\"14400\"} 3",
            "taskvisor_h_bucket{queue=\"mail\",le=\"+Inf\"} 4",
            "taskvisor_h_count{queue=\"mail\"} 4",
            "taskvisor_health_reasons{reason=\"N jobs of N are held\"} 2",
            "taskvisor_recurring_last_success_timestamp_seconds{name=\"nightly\"} 5",
            "taskvisor_recurring_skipped_total{name=\"nightly\"} 2",
        ] {
            assert!(page.0.lines().any(|have| have == line), "{line}\n{}", page.0);
        }
        assert!(!page.0.contains("missed_timestamp_seconds{"), "it has missed nothing");
    }
}
