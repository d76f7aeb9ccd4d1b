//! Log lines about orders of people for the supervisor itself: who gave which one.

use std::collections::BTreeMap;
use std::time::Duration;

use tracing::Level;

use super::line::Line;
use model::{JobId, PoolSettings, PoolStatus, QueueName, Stop, format_duration};
use supervisor::Step;

/// Limit of the jobs that a line names one by one.
const NAMED: usize = 5;

/// The plan of a stop: which jobs it waits for, and when each signal comes. `at` writes the time after a duration.
pub(super) fn stop(
    stage: Stop,
    pools: &[PoolStatus],
    deadline: Duration,
    at: impl Fn(Duration) -> String,
) -> String {
    let jobs: Vec<&JobId> =
        pools.iter().flat_map(|pool| &pool.slots).flat_map(|slot| &slot.jobs).map(|job| &job.id).collect();
    let busy = pools.iter().filter(|pool| pool.slots.iter().any(|slot| !slot.jobs.is_empty()));
    let grace = busy.map(|pool| pool.grace).max().unwrap_or_default();
    // TERM goes out one grace before the deadline, so that the last KILL meets it.
    let (term, until) = (at(deadline.saturating_sub(grace)), at(deadline));
    let left = format_duration(Duration::from_secs(deadline.as_secs()));
    let many = counted(jobs.len(), "job");
    let mut plan = match stage {
        _ if jobs.is_empty() => "no job runs".to_owned(),
        Stop::Drain => {
            format!("waits for {many} until {term}, then sends TERM, and KILL at {until} ({left})")
        }
        Stop::Terminate => format!("TERM to {many}, KILL at {until} ({left}) at the latest"),
        Stop::Kill => format!("KILL to {many}"),
    };
    if !jobs.is_empty() {
        let named: Vec<&str> = jobs.iter().take(NAMED).map(|id| id.as_str()).collect();
        plan += &format!(": {}", named.join(", "));
        if jobs.len() > NAMED {
            plan += &format!(" and {} more", jobs.len() - NAMED);
        }
    }
    let further = match stage {
        Stop::Drain if !jobs.is_empty() => "; another Ctrl-C or taskvisor stop --now sends TERM at once",
        Stop::Terminate if !jobs.is_empty() => "; another Ctrl-C or taskvisor stop --kill sends KILL at once",
        Stop::Drain | Stop::Terminate | Stop::Kill => "",
    };
    plan + further
}

/// The line of a SIGCONT that resumes nothing.
pub(super) fn not_resumed() -> Line {
    Line::new(
        Level::INFO,
        "SIGCONT resumes what SIGUSR2 has paused, and nothing else: taskvisor resume ends other pauses",
    )
}

/// The line of a time in which this process did not run.
pub(super) fn stood_still(time: Duration) -> Line {
    let message = format!(
        "this process did not run for up to {}: the machine was paused, or the process was stopped; leases are renewed \
         before anything else",
        format_duration(Duration::from_secs(time.as_secs()))
    );
    Line::new(Level::WARN, message)
}

/// The changes of a reload to each pool, in words.
pub(super) fn steps(steps: &[(String, Step)]) -> String {
    let changed = steps.iter().filter(|(_, step)| *step != Step::Keep);
    let words: Vec<String> = changed.map(|(pool, step)| format!("pool {pool}: {}", step.as_str())).collect();
    if words.is_empty() { "no pool changes".into() } else { words.join("; ") }
}

/// The lines of a start: which pools run.
pub(super) fn started(pools: &[PoolSettings], broker: &str) -> Vec<Line> {
    let version = env!("CARGO_PKG_VERSION");
    let first = format!("taskvisor {version} starts: {}, jobs in {broker}", counted(pools.len(), "pool"));
    let of_pool = |pool: &PoolSettings| {
        let queues: Vec<&str> = pool.queues.iter().map(QueueName::as_str).collect();
        let least = pool.min_workers.map(|min| format!("{min} to ")).unwrap_or_default();
        let workers = counted(usize::from(pool.workers), "worker");
        let message =
            format!("pool {}: {}, {least}{workers}, queues {}", pool.name, pool.mode(), queues.join(", "));
        Line::new(Level::INFO, message).pool(&pool.name)
    };
    std::iter::once(Line::new(Level::INFO, first)).chain(pools.iter().map(of_pool)).collect()
}

/// The line at the end of the supervisor.
pub(super) fn stopped(settled: &BTreeMap<String, u64>, untold: u64, up: Duration) -> Line {
    let settled: Vec<String> = settled.iter().map(|(verdict, n)| format!("{n} {verdict}")).collect();
    let settled = if settled.is_empty() { "no job ended".into() } else { settled.join(", ") };
    let up = format_duration(Duration::from_secs(up.as_secs()));
    let untold = match untold {
        0 => String::new(),
        untold => format!("; the broker has not confirmed the end of {}", counted(untold as usize, "job")),
    };
    Line::new(Level::INFO, format!("stopped after {up}: {settled}{untold}"))
}

/// `1 job`, `2 jobs`.
pub(super) fn counted(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_of_a_stop_says_that_no_job_runs() {
        assert_eq!(stop(Stop::Drain, &[], Duration::from_secs(25), |_| "12:00".into()), "no job runs");
    }
}
