//! The page of `job show`: what it is, what happened when, how it ended and what it said last.

use std::fmt::Write as _;
use std::time::Duration;

use super::job::between;
use super::screen::{Look, age, escaped, escaped_lines, size};
use crate::config::format_duration;
use crate::model::{
    Bytes, Exec, ExitStatus, Failure, Forensics, JobRecord, JobState, Millis, Payload, Retry, Signal,
};

/// The page.
pub fn render(job: &JobRecord, look: &Look) -> String {
    let mut out = String::new();
    row(&mut out, "job", job.id.as_str());
    let tries = match job.retry {
        Some(Retry { retries, .. }) => format!("{}, attempt {} of {}", job.state, job.attempt, retries + 1),
        None => format!("{}, attempt {}", job.state, job.attempt),
    };
    row(&mut out, "state", &tries);
    row(&mut out, "queue", &format!("{}, priority {}", job.queue, job.priority));
    row(&mut out, "class", &job.class.to_string());
    match &job.payload {
        Some(Payload::Exec(exec)) => program(&mut out, exec),
        Some(Payload::Data(data)) => row(&mut out, "data", &data.to_text()),
        None => {}
    }
    if !job.tags.is_empty() {
        row(&mut out, "tags", &job.tags.join(" "));
    }
    if let Some(limit) = job.time_limit {
        row(&mut out, "time limit", &format_duration(limit));
    }
    if job.crashes + job.interrupted > 0 {
        row(
            &mut out,
            "trouble",
            &format!("crashed {} times, interrupted {} times", job.crashes, job.interrupted),
        );
    }
    if let Some(Failure { group, message, .. }) = &job.failure {
        row(&mut out, "why", &format!("{group}: {message}"));
    }
    if let Some(result) = &job.result {
        row(&mut out, "result", result);
    }
    timeline(&mut out, job, look);
    if let Some(forensics) = &job.forensics {
        end(&mut out, forensics);
    }
    let trace = job.failure.as_ref().and_then(|failure| failure.trace.as_deref()).unwrap_or_default();
    let stderr = job.forensics.as_ref().map(|forensics| forensics.stderr_tail.as_str()).unwrap_or_default();
    block(&mut out, "last words on stderr", stderr);
    if trace != stderr {
        block(&mut out, "trace", trace);
    }
    out
}

fn row(out: &mut String, name: &str, value: &str) {
    let _ = writeln!(out, "{name:<11} {}", escaped(value));
}

fn block(out: &mut String, name: &str, text: &str) {
    if text.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{name}");
    for line in escaped_lines(text.trim_end_matches('\n')).lines() {
        let _ = writeln!(out, "{}", format!("  {line}").trim_end());
    }
}

fn program(out: &mut String, exec: &Exec) {
    let words: Vec<String> = exec.argv.iter().map(quoted).collect();
    row(out, "command", &words.join(" "));
    row(out, "directory", &format!("{}, umask {:03o}", exec.cwd.to_text(), exec.umask));
    if !exec.stdin.0.is_empty() {
        row(out, "stdin", &format!("{} bytes", exec.stdin.0.len()));
    }
}

/// As a shell would read it back, when it is text.
fn quoted(word: &Bytes) -> String {
    let text = word.to_text();
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=:,@%+".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.into_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

fn timeline(out: &mut String, job: &JobRecord, look: &Look) {
    let mut events: Vec<(Millis, String)> = vec![(job.put_at, "put".into())];
    if let Some(due) = job.due_at {
        events.push((due, "due".into()));
    }
    if let Some(started) = job.started_at {
        let worker = job.worker.map(|worker| format!(" in slot {worker}")).unwrap_or_default();
        let instance = job.instance.as_ref().map(|instance| format!(" by {instance}")).unwrap_or_default();
        events.push((started, format!("started, attempt {}{worker}{instance}", job.attempt)));
        for sent in job.forensics.iter().flat_map(|forensics| &forensics.signals) {
            let at = Millis(started.0.saturating_add(millis(sent.after)));
            let signal = match sent.signal {
                Signal::Term => "TERM",
                Signal::Kill => "KILL",
            };
            events.push((at, format!("{signal} sent: {}", sent.why)));
        }
    }
    let attempt_end = job.forensics.as_ref().and_then(|forensics| forensics.at);
    match (job.ended_at, attempt_end) {
        (Some(ended), _) => events.push((ended, word_of_end(job.state).into())),
        (None, Some(at)) => events.push((at, "latest attempt ended".into())),
        (None, None) => {}
    }
    events.sort_by_key(|(at, _)| *at);
    out.push_str("\ntimeline\n");
    let mut before = None;
    for (at, what) in events {
        let since = before.map(|before| format!("+{}", age(between(before, at)))).unwrap_or_default();
        let _ = writeln!(out, "  {}  {since:<8} {}", look.moment(at), escaped(&what));
        before = Some(at);
    }
}

fn word_of_end(state: JobState) -> &'static str {
    match state {
        JobState::Waiting | JobState::Delayed | JobState::Running | JobState::Canceling => "ended",
        JobState::Complete => "complete",
        JobState::Failed => "failed",
        JobState::Held => "held",
        JobState::Canceled => "canceled",
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn end(out: &mut String, forensics: &Forensics) {
    out.push_str("\nlatest attempt\n");
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "  {name:<9} {value}");
    };
    line("ran", age(forensics.ran));
    if let Some(exit) = &forensics.exit {
        let status = match exit.status {
            ExitStatus::Code(code) => format!("code {code}"),
            ExitStatus::Signal { signal, core } => {
                let name = nix::sys::signal::Signal::try_from(signal).map(|known| format!(" ({known})"));
                let core = if core { ", core dumped" } else { "" };
                format!("signal {signal}{}{core}", name.unwrap_or_default())
            }
        };
        let oom = if exit.oom { ", out of memory" } else { "" };
        line("exit", format!("{status}{oom}"));
        let usage = &exit.usage;
        line("cpu", format!("{} user, {} system", age(usage.user), age(usage.system)));
        line("peak rss", size(usage.max_rss));
        if exit.left_behind > 0 {
            line("left", format!("{} processes, killed; proof after {}", exit.left_behind, age(exit.proof)));
        }
    }
    if forensics.output_dropped > 0 {
        line("dropped", format!("{} of output over the cap", size(forensics.output_dropped)));
    }
}

#[cfg(test)]
pub(super) mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::model::{Exit, Fence, SignalSent, SlotId, Usage, WorkerId};

    /// A pipe of this width in Greenwich.
    pub fn look(width: usize) -> Look {
        Look { width: Some(width), height: None, ascii: false, color: false, zone: TimeZone::UTC }
    }

    /// A gzip that did not like its file.
    pub fn failed_job() -> JobRecord {
        let worker = Some(WorkerId { slot: SlotId { pool: 0, index: 1 }, generation: 7 });
        let usage = Usage {
            user: Duration::from_millis(120),
            system: Duration::from_millis(8),
            max_rss: 1_900 << 10,
        };
        JobRecord {
            id: "0199aa00000070008000000000000001".into(),
            queue: "default".into(),
            class: "exec".into(),
            payload: Some(Payload::Exec(Exec {
                argv: vec!["gzip".into(), "-t".into(), "it's a.gz".into()],
                cwd: "/tmp".into(),
                umask: 0o22,
                stdin: "abc".into(),
            })),
            state: JobState::Failed,
            priority: 0,
            tags: vec!["nightly".into()],
            attempt: 1,
            retry: Some(Retry::NONE),
            time_limit: Some(Duration::from_secs(90)),
            crashes: 0,
            interrupted: 1,
            unknown: 0,
            progress: None,
            put_at: Millis(1_790_000_000_000),
            due_at: None,
            started_at: Some(Millis(1_790_000_001_500)),
            ended_at: Some(Millis(1_790_000_003_000)),
            instance: Some("q1-1".into()),
            worker,
            fence: Fence(1),
            result: None,
            failure: Some(Failure {
                group: "exit 1".into(),
                message: "gzip: a.gz: crc error".into(),
                trace: None,
            }),
            forensics: Some(Forensics {
                worker,
                ran: Duration::from_millis(1_500),
                exit: Some(Exit {
                    status: ExitStatus::Code(1),
                    usage,
                    left_behind: 2,
                    oom: false,
                    proof: Duration::from_millis(3),
                }),
                signals: vec![SignalSent {
                    after: Duration::from_millis(1_000),
                    signal: Signal::Term,
                    why: "canceled".into(),
                }],
                stderr_tail: "\ngzip: a.gz: invalid\x1b[31m compressed data--crc error\n".into(),
                output_dropped: 2_000_000,
                left: vec![],
                at: Some(Millis(1_790_000_003_000)),
            }),
        }
    }

    #[test]
    fn a_page_tells_the_whole_story() {
        insta::assert_snapshot!("job_show", render(&failed_job(), &look(100)));
    }

    #[test]
    fn a_job_that_was_only_put_has_a_short_page() {
        let mut job = failed_job();
        job.state = JobState::Delayed;
        (job.attempt, job.interrupted, job.due_at) = (0, 0, Some(Millis(1_790_000_060_000)));
        (job.started_at, job.ended_at, job.failure, job.forensics) = (None, None, None, None);
        (job.worker, job.instance, job.tags) = (None, None, vec![]);
        job.payload = Some(Payload::Data("{\"to\": 1}".into()));
        insta::assert_snapshot!("job_show_put", render(&job, &look(100)));
    }
}
