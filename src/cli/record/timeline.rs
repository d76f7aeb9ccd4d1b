//! The timeline of `job show`: what happened to a job, who did it, and how each attempt ended.

use std::fmt::Write as _;
use std::time::Duration;

use crate::cli::term::format::{between, counted, exit_status, known};
use crate::cli::term::screen::{Look, age, escaped, size};
use model::{Attempt, Count, Entry, Forensics, Happened, JobRecord, JobState, Millis, Signal};

/// An event of the timeline, with the lines below it.
pub(crate) struct Event {
    /// When it happened.
    pub at: Millis,
    /// What happened then.
    pub what: String,
    /// More about it, a line each.
    pub below: Vec<String>,
}

/// All known events, and when the job is due.
pub(crate) fn render(out: &mut String, job: &JobRecord, look: &Look) {
    out.push_str("\ntimeline\n");
    let mut before = None;
    for Event { at, what, below } in in_order(job, look) {
        let since = before.map(|before| format!("+{}", age(between(before, at)))).unwrap_or_default();
        let _ = writeln!(out, "  {}  {since:<8} {}", look.moment(at), escaped(&what));
        for line in below {
            let _ = writeln!(out, "  {:19}  {:8}   {}", "", "", escaped(&line));
        }
        before = Some(at);
    }
}

/// The events by time.
pub(crate) fn in_order(job: &JobRecord, look: &Look) -> Vec<Event> {
    let mut events = events(job, look);
    // A stable sort: events of one moment stay in the order in which they were noted.
    events.sort_by_key(|event| event.at);
    events
}

fn events(job: &JobRecord, look: &Look) -> Vec<Event> {
    let plain = |at, what: String| Event { at, what, below: Vec::new() };
    let by = job.put_by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    let mut events: Vec<Event> =
        known(job.put_at).map(|at| plain(at, format!("put{by}"))).into_iter().collect();
    events.extend(job.due_at.map(|due| plain(due, "due".into())));
    events.extend(job.begin_by.map(|by| plain(by, "expires unless it has begun".into())));
    for Entry { at, what } in &job.history {
        match what {
            Happened::Attempt(attempt) => events.extend(of_attempt(attempt, Some(*at), look)),
            Happened::Canceled { by, reason } => {
                let why = reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
                events.push(plain(*at, format!("canceled by {by}{why}")));
            }
            Happened::Retried { by, from } => {
                events.push(plain(*at, format!("put back to waiting by {by}; it was {from}")));
            }
            Happened::Noted { what } => events.push(plain(*at, what.clone())),
            Happened::Edited { by, what } => events.push(plain(*at, format!("{what} (by {by})"))),
            Happened::Advanced { from, to, result_bytes, .. } => {
                let long = result_bytes.map(|bytes| format!(" (its result of {bytes} bytes is not kept)"));
                let long = long.unwrap_or_default();
                events.push(plain(*at, format!("advanced from queue {from} to queue {to}{long}")));
            }
        }
    }
    match latest(job) {
        Some((attempt, ended)) => events.extend(of_attempt(&attempt, ended, look)),
        None if job.state == JobState::Canceled && job.history.is_empty() => {
            events.extend(job.ended_at.map(|at| plain(at, "canceled".into())));
        }
        None => {}
    }
    events
}

/// The attempt of ours that is not in the history: one that runs, or completed the job, or was released unspent.
fn latest(job: &JobRecord) -> Option<(Attempt, Option<Millis>)> {
    let is_it =
        |entry: &Entry| matches!(&entry.what, Happened::Attempt(attempt) if attempt.fence == job.fence);
    let started = job.started_at.filter(|_| job.holder.is_none() && !job.history.iter().any(is_it))?;
    // Until an attempt has ended, the job has the forensics of the one before.
    let own = |left: &&Forensics| left.at >= Some(started);
    let forensics = job.forensics.as_ref().filter(own).filter(|_| !is_running(job.state)).cloned();
    let ended = job.ended_at.or(forensics.as_ref().and_then(|left| left.at));
    let attempt = Attempt {
        // A release takes its attempt back, so the count may be 0 by now.
        attempt: job.attempt.max(1),
        fence: job.fence,
        started_at: Some(started),
        instance: job.instance.clone(),
        worker: job.worker.clone(),
        renewals: job.renewals,
        renewed_at: job.renewed_at,
        state: job.state,
        due_at: None,
        crashed: false,
        counts: None,
        failure: job.failure.clone().filter(|_| job.state.has_ended()),
        forensics,
    };
    Some((attempt, ended))
}

fn is_running(state: JobState) -> bool {
    matches!(state, JobState::Running | JobState::Canceling)
}

fn of_attempt(attempt: &Attempt, ended: Option<Millis>, look: &Look) -> Vec<Event> {
    let number = attempt.attempt;
    let plain = |at, what: String| Event { at, what, below: Vec::new() };
    let mut events = Vec::new();
    if let Some(started) = attempt.started_at {
        let worker = attempt.worker.as_ref().map(|worker| format!(" to worker {worker}")).unwrap_or_default();
        let instance = attempt.instance.as_ref().map(|of| format!(" of {of}")).unwrap_or_default();
        events.push(plain(started, format!("attempt {number} assigned{worker}{instance}")));
        // Deaths and signals are known by the time since the begin, which no set clock changes.
        let dead = attempt.forensics.iter().filter_map(|left| left.died_before.as_ref());
        for dead in dead {
            let at = Millis(started.0.saturating_add(millis(dead.ran)));
            let what =
                format!("worker {} had other jobs too; it runs again alone: {}", dead.worker, dead.how);
            events.push(plain(at, what));
        }
        for sent in attempt.forensics.iter().flat_map(|left| &left.signals) {
            let at = Millis(started.0.saturating_add(millis(sent.after)));
            let signal = match sent.signal {
                Signal::Term => "TERM",
                Signal::Kill => "KILL",
            };
            events.push(plain(at, format!("{signal} sent: {}", sent.why)));
        }
    }
    if let Some(at) = attempt.renewed_at {
        let times = counted(attempt.renewals as usize, "time", "times");
        events.push(plain(at, format!("lease renewed, {times} so far")));
    }
    if let Some(at) = ended {
        let what = format!("attempt {number} {}", word_of_end(attempt));
        events.push(Event { at, what, below: below(attempt, look) });
    }
    events
}

/// The cause of an interruption: the reason of the signal that its worker got; without a signal, the supervisor was
/// gone.
pub(crate) fn interrupted_by(attempt: &Attempt) -> String {
    match attempt.forensics.as_ref().and_then(|left| left.signals.last()) {
        Some(sent) => sent.why.clone(),
        None => "the death of its supervisor or host, or the end of its lease".into(),
    }
}

fn word_of_end(attempt: &Attempt) -> String {
    if attempt.counts.is_some_and(Count::is_interruption) && !attempt.state.has_ended() {
        return format!("interrupted by {}; it is not spent", interrupted_by(attempt));
    }
    let word = match (attempt.state, attempt.counts) {
        (JobState::Complete, _) => "complete",
        (JobState::Canceled, _) => "canceled",
        (JobState::Held, _) => "ended; the job is held",
        (JobState::Failed, _) if attempt.crashed => "crashed; the job has failed",
        (JobState::Failed, _) => "failed; the job has failed",
        (_, Some(Count::Interrupted | Count::Stopped)) => "interrupted",
        (_, Some(Count::UnknownClass)) => "refused: no worker here knows its class; it is not spent",
        (_, None) if attempt.crashed => "crashed",
        (_, None) if attempt.failure.is_some() => "failed",
        (JobState::Waiting | JobState::Delayed | JobState::Depends, None) => "given back; it is not spent",
        (JobState::Running | JobState::Canceling, None) => "ended",
    };
    word.into()
}

/// The failure, resources, orphans and last output of an attempt, and what comes next.
fn below(attempt: &Attempt, look: &Look) -> Vec<String> {
    let failure = attempt.failure.iter().map(|failure| match failure.message.is_empty() {
        true => failure.group.clone(),
        false => format!("{}: {}", failure.group, failure.message),
    });
    let left = attempt.forensics.iter();
    let said = left.clone().filter_map(|left| {
        let line = left.stderr_tail.lines().rev().find(|line| !line.trim().is_empty())?;
        Some(format!("said last: {}", line.chars().take(LONGEST).collect::<String>()))
    });
    let next = attempt.due_at.map(|due| format!("next try at {}", look.moment(due)));
    failure.chain(left.map(used)).chain(said).chain(next).filter(|line| !line.is_empty()).collect()
}

/// Longest line of its output to show, in characters.
const LONGEST: usize = 200;

fn used(left: &Forensics) -> String {
    let exit = left.exit.iter().flat_map(|exit| {
        let cpu = format!("cpu {}", age(exit.usage.user + exit.usage.system));
        let stayed = (exit.left_behind > 0).then(|| {
            let processes = counted(exit.left_behind as usize, "process", "processes");
            format!("{processes} left behind and killed")
        });
        let peak = format!("peak rss {}", size(exit.usage.max_rss));
        // That of a worker is not the job's.
        let cpu = (left.cpu.is_none() && !left.shared).then_some(cpu);
        [Some(exit_status(exit)), cpu, Some(peak), stayed].into_iter().flatten()
    });
    let ran = (!left.ran.is_zero()).then(|| format!("ran {}", age(left.ran)));
    let cpu = left.cpu.map(|cpu| format!("cpu {}", age(cpu)));
    let stay = (!left.left.is_empty()).then(|| format!("left running: {}", left.left.join(", ")));
    ran.into_iter().chain(cpu).chain(exit).chain(stay).collect::<Vec<_>>().join(", ")
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::record::page::tests::{failed_job, look};
    use model::{DeadWorker, Failure, Fence};

    fn at(seconds: i64) -> Millis {
        Millis(1_790_000_000_000 + seconds * 1000)
    }

    fn attempt(job: &JobRecord, number: u32, started: i64) -> Attempt {
        let mut attempt = latest(job).unwrap().0;
        (attempt.attempt, attempt.fence) = (number, Fence(u64::from(number)));
        (attempt.started_at, attempt.state) = (Some(at(started)), JobState::Delayed);
        attempt
    }

    #[test]
    fn every_attempt_is_shown_with_its_outcome() {
        let mut job = failed_job();
        let mut first = attempt(&job, 1, 2);
        (first.renewals, first.renewed_at, first.due_at) = (3, Some(at(3)), Some(at(9)));
        let mut second = attempt(&job, 2, 10);
        (second.crashed, second.forensics) = (true, None);
        second.failure = Some(Failure { group: "crashed".into(), message: "\x1b[2J".into(), trace: None });
        let worker = "default.1#3".parse().unwrap();
        let dead =
            DeadWorker { worker, ran: Duration::from_secs(1), how: "the worker died: signal 9".into() };
        first.forensics.as_mut().unwrap().died_before = Some(Box::new(dead));
        let mut third = attempt(&job, 3, 20);
        (third.counts, third.failure, third.forensics) = (Some(Count::Interrupted), None, None);
        let entry = |seconds, what| Entry { at: at(seconds), what };
        job.history = vec![
            entry(5, Happened::Attempt(Box::new(first))),
            entry(12, Happened::Attempt(Box::new(second))),
            entry(21, Happened::Attempt(Box::new(third))),
            entry(30, Happened::Canceled { by: "uid 0".into(), reason: Some("a mistake".into()) }),
            entry(40, Happened::Retried { by: "uid 1000".into(), from: JobState::Canceled }),
        ];
        (job.state, job.attempt, job.fence, job.failure) = (JobState::Running, 1, Fence(4), None);
        (job.started_at, job.ended_at) = (Some(at(41)), None);
        let mut out = String::new();
        render(&mut out, &job, &look(100));
        insta::assert_snapshot!("timeline", out);
    }

    #[test]
    fn an_end_missing_in_the_history_is_shown_from_the_job() {
        let mut job = failed_job();
        job.state = JobState::Complete;
        (job.failure, job.renewals, job.renewed_at) = (None, 1, Some(at(2)));
        let mut out = String::new();
        render(&mut out, &job, &look(100));
        insta::assert_snapshot!("timeline_complete", out);
    }
}
