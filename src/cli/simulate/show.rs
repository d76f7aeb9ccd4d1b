//! The results of simulations as text.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::args::Simulate;
use crate::cli::term::screen::{Look, age, escaped, percent, table};
use simulate::{Calls, Latency, Report};

/// A run, and whether it reached all goals.
#[derive(Debug, Serialize)]
pub(super) struct Tried {
    #[serde(flatten)]
    pub(super) report: Report,
    /// None if there is no goal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reached: Option<bool>,
}

/// One run with a line for each queue; several runs with a line each, and the smallest fleets.
pub(super) fn show(runs: &[Tried], how: &Simulate) -> String {
    let look = Look::of_stdout(false);
    let mut out = match runs {
        [run] => one(&run.report, &look, how),
        _ => several(runs, &look),
    };
    if !how.goals.is_empty() {
        out += "\n";
        out += &found(runs, how);
    }
    out
}

fn one(report: &Report, look: &Look, how: &Simulate) -> String {
    let Report { workers, selector, all, length, utilisation, calls, .. } = report;
    let mut out = format!(
        "{workers} workers, {selector}: {} jobs in {}, {} of the time at work\n\n",
        all.jobs,
        age(*length),
        percent(*utilisation)
    );
    let heads = ["QUEUE", "PRIORITY", "JOBS", "MEAN", "P50", "P95", "P99", "MAX"];
    let rows: Vec<Vec<String>> = report.queues.iter().chain([all]).map(row).collect();
    out += &table(look, &heads, &rows);
    let _ = writeln!(out, "\nworst queue  {}", escaped(&report.worst));
    if let Some(calls) = calls {
        let Calls { receive, empty, delete, hide, count, per_job, .. } = calls;
        let _ = writeln!(
            out,
            "calls        {per_job:.3} a job; {} at {} a million\n{:13}{receive} receive, {empty} empty, {delete} delete, \
             {hide} hide, {count} count",
            cost(calls.cost),
            how.price,
            ""
        );
    }
    out
}

fn row(latency: &Latency) -> Vec<String> {
    let Latency { name, priority, jobs, mean, p50, p95, p99, max } = latency;
    let mut row = vec![
        escaped(name).into_owned(),
        priority.map_or_else(|| "-".into(), |priority| priority.to_string()),
        jobs.to_string(),
    ];
    row.extend([mean, p50, p95, p99, max].map(|time| wait(*time)));
    row
}

fn several(runs: &[Tried], look: &Look) -> String {
    let goal = runs.iter().any(|run| run.reached.is_some());
    let mut heads = vec!["SELECTOR", "WORKERS", "MEAN", "P95", "P99", "WORST QUEUE", "ITS P95", "BUSY"];
    let has_calls = runs.iter().any(|run| run.report.calls.is_some());
    if has_calls {
        heads.extend(["CALLS/JOB", "COST"]);
    }
    heads.extend(goal.then_some("SLO"));
    let line = |Tried { report, reached }: &Tried| {
        let worst = report.queues.iter().find(|queue| queue.name == report.worst);
        let mut row = vec![
            report.selector.to_owned(),
            report.workers.to_string(),
            wait(report.all.mean),
            wait(report.all.p95),
            wait(report.all.p99),
            escaped(&report.worst).into_owned(),
            worst.map_or_else(|| "-".into(), |worst| wait(worst.p95)),
            percent(report.utilisation),
        ];
        if let Some(calls) = report.calls {
            row.extend([format!("{:.3}", calls.per_job), cost(calls.cost)]);
        }
        row.extend(reached.map(|reached| if reached { "yes" } else { "no" }.to_owned()));
        row
    };
    table(look, &heads, &runs.iter().map(line).collect::<Vec<_>>())
}

/// The smallest fleet of each order that reaches the goals.
fn found(runs: &[Tried], how: &Simulate) -> String {
    let goals: Vec<String> = how.goals.iter().map(ToString::to_string).collect();
    let goals = goals.join(" and ");
    let mut out = String::new();
    for order in how.orders() {
        let own = || runs.iter().filter(|run| run.report.selector == order.as_str());
        let _ = match own().find(|run| run.reached == Some(true)) {
            Some(run) => {
                writeln!(out, "{}: {} workers are enough for {goals}", order.as_str(), run.report.workers)
            }
            None => {
                writeln!(out, "{}: {} workers are too few for {goals}", order.as_str(), how.workers.end())
            }
        };
    }
    out
}

/// A short time with a tenth of a millisecond.
fn wait(time: Duration) -> String {
    if time < Duration::from_millis(100) { format!("{:.1}ms", time.as_secs_f64() * 1e3) } else { age(time) }
}

/// A price; small ones with more digits.
fn cost(cost: f64) -> String {
    if cost >= 1.0 || cost == 0.0 { format!("{cost:.2}") } else { format!("{cost:.6}") }
}
