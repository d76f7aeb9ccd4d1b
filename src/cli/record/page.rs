//! The page of `job show`: what the job is, what happened when, how it ended and its last output.

use std::fmt::Write as _;

use super::processes;
use super::timeline;
use crate::cli::term::format::{counted, exit_status, quoted};
use crate::cli::term::json::pretty_json;
use crate::cli::term::screen::{Look, age, escaped, escaped_lines, how_far, size};
use config::format_duration;
use model::{Exec, Failure, Forensics, JobId, JobRecord, JobState, Payload, Retry};

/// The state, with the attempts or the holder of the lease.
fn tries(job: &JobRecord, look: &Look) -> String {
    let until = || job.expires_at.map(|end| format!(" until {}", look.moment(end))).unwrap_or_default();
    match (&job.holder, job.retry) {
        // An attempt of another program is not one of ours, and has no number.
        (Some(holder), _) => {
            format!("{}, leased to worker {holder} of another program{}", job.state, until())
        }
        // The first attempt is none of the retries.
        (None, Some(Retry { retries, .. })) => {
            format!("{}, attempt {} of {}", job.state, job.attempt, retries.saturating_add(1))
        }
        (None, None) => format!("{}, attempt {}", job.state, job.attempt),
    }
}

/// The page. `of_supervisor` are the rows that only its supervisor knows.
pub(crate) fn render(
    job: &JobRecord,
    instead: Option<&str>,
    of_supervisor: &[(&str, String)],
    look: &Look,
) -> String {
    let mut out = String::new();
    row(&mut out, "job", job.id.as_str());
    row(&mut out, "state", &tries(job, look));
    of_supervisor.iter().for_each(|(name, value)| row(&mut out, name, value));
    row(&mut out, "queue", &format!("{}, priority {}", job.queue, job.priority));
    row(&mut out, "class", &job.class.to_string());
    content(&mut out, job);
    relations(&mut out, job);
    if let Some(limit) = job.time_limit {
        row(&mut out, "time limit", &format_duration(limit));
    }
    let troubles = troubles(job);
    if !troubles.is_empty() {
        row(&mut out, "trouble", &troubles);
    }
    if let Some(Failure { group, message, .. }) = &job.failure {
        let both = [group, message].map(String::as_str).into_iter().filter(|word| !word.is_empty());
        row(&mut out, of_which(job).0, &both.collect::<Vec<_>>().join(": "));
    }
    if let Some(fate) = &job.dead_letter {
        row(&mut out, "dead letter", fate);
    }
    if job.state == JobState::Held {
        let retry = instead.map_or_else(|| format!("taskvisor job retry {}", job.id), ToOwned::to_owned);
        let retry = format!("when the reason is gone, {retry}");
        row(&mut out, "what to do", &retry);
    }
    if let Some(progress) = &job.told_progress() {
        row(&mut out, "progress", &how_far(progress, look));
    }
    if let Some(Payload::Data(data)) = &job.payload {
        carried(&mut out, "data", &data.0);
    }
    if let Some(result) = &job.result {
        carried(&mut out, "result", result.as_bytes());
    }
    timeline::render(&mut out, job, look);
    if let Some(forensics) = &job.forensics {
        end(&mut out, of_which(job).1, forensics);
    }
    if let Some(seen) = job.forensics.as_ref().and_then(|forensics| forensics.snapshot.as_ref()) {
        out.push_str("\nits processes before they were ended\n");
        processes::render(&mut out, seen);
    }
    let trace = job.failure.as_ref().and_then(|failure| failure.trace.as_deref()).unwrap_or_default();
    let stderr = job.forensics.as_ref().map(|forensics| forensics.stderr_tail.as_str()).unwrap_or_default();
    block(&mut out, "last words on stderr", stderr);
    // A program without a traceback has its last words as the trace.
    if trace != stderr {
        block(&mut out, "trace", trace);
    }
    out
}

/// The attempts to which failure and forensics belong: until one has ended, these are of the one before.
fn of_which(job: &JobRecord) -> (&'static str, &'static str) {
    let forensics = if job.state.is_leased() { "the attempt before" } else { "latest attempt" };
    (if job.cause().is_some() { "why" } else { "before" }, forensics)
}

pub(crate) fn row(out: &mut String, name: &str, value: &str) {
    let _ = writeln!(out, "{name:<11} {}", escaped(value));
}

/// Its program, or the call of a task of kale.
fn content(out: &mut String, job: &JobRecord) {
    let task = || job.title.as_deref()?.strip_prefix(JobRecord::KALE_TASK);
    match &job.payload {
        Some(Payload::Exec(exec)) => program(out, exec),
        Some(Payload::Data(_)) => task().map_or((), |task| row(out, "kale task", task)),
        None => {}
    }
}

/// Its tags, and its relations with other jobs.
fn relations(out: &mut String, job: &JobRecord) {
    if !job.tags.is_empty() {
        row(out, "tags", &job.tags.join(" "));
    }
    if job.tracked {
        row(out, "tracked", "yes");
    }
    if !job.needs.is_empty() {
        let needs = job.needs.iter().map(|need| format!("{} ({})", need.job, need.state));
        row(out, "needs", &needs.collect::<Vec<_>>().join(", "));
    }
    if !job.needed_by.is_empty() {
        let ids: Vec<&str> = job.needed_by.iter().map(JobId::as_str).collect();
        row(out, "needed by", &ids.join(", "));
    }
}

fn troubles(job: &JobRecord) -> String {
    let times = |what: &str, n: u32| match n {
        0 => None,
        1 => Some(format!("{what} once")),
        _ => Some(format!("{what} {n} times")),
    };
    let unknown = times("known to no worker", job.unknown);
    let all = [times("crashed", job.crashes), times("interrupted", job.interrupted), unknown];
    all.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Data or a result: the whole if it is small, else its size.
pub(crate) fn carried(out: &mut String, name: &str, bytes: &[u8]) {
    const SMALL: usize = 2048;
    let whole = format!("{}; all of it: taskvisor job show --json", bytes_of(bytes.len()));
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.trim(),
        Err(_) => return row(out, name, &format!("no text, {whole}")),
    };
    // Of deeply nested data most would be indentation.
    let pretty = (text.len() <= SMALL).then(|| pretty_json(text)).filter(|pretty| pretty.len() <= 8 * SMALL);
    let Some(pretty) = pretty else { return row(out, name, &whole) };
    match pretty.lines().count() {
        0 | 1 => row(out, name, &pretty),
        _ => {
            row(out, name, &bytes_of(bytes.len()));
            for line in pretty.lines() {
                let _ = writeln!(out, "  {}", escaped(line));
            }
        }
    }
}

fn bytes_of(length: usize) -> String {
    counted(length, "byte", "bytes")
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

pub(crate) fn program(out: &mut String, exec: &Exec) {
    let words: Vec<String> = exec.argv.iter().map(|word| quoted(&word.to_text())).collect();
    row(out, "command", &words.join(" "));
    row(out, "directory", &format!("{}, umask {:03o}", exec.cwd.to_text(), exec.umask));
    if !exec.stdin.0.is_empty() {
        row(out, "stdin", &bytes_of(exec.stdin.0.len()));
    }
}

fn end(out: &mut String, title: &str, forensics: &Forensics) {
    let _ = writeln!(out, "\n{title}");
    let width = if forensics.left.is_empty() { "peak rss ".len() } else { "left running".len() };
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "  {name:<width$} {value}");
    };
    line("ran", age(forensics.ran));
    if let Some(cpu) = forensics.cpu {
        line("cpu", age(cpu));
    }
    if let Some(exit) = &forensics.exit {
        line("exit", exit_status(exit));
        let usage = &exit.usage;
        // That of a worker is not the job's.
        if forensics.cpu.is_none() && !forensics.shared {
            line("cpu", format!("{} user, {} system", age(usage.user), age(usage.system)));
        }
        line("peak rss", size(usage.max_rss));
        if exit.left_behind > 0 {
            let left = counted(exit.left_behind as usize, "process", "processes");
            line("left", format!("{left}, killed; proof after {}", age(exit.proof)));
        }
    }
    for (number, left) in forensics.left.iter().enumerate() {
        line(if number == 0 { "left running" } else { "" }, escaped(left).into_owned());
    }
    if forensics.output_dropped > 0 {
        line(
            "dropped",
            format!("{} of output: over the cap, or not taken by the disk", size(forensics.output_dropped)),
        );
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cli::job::list::list_text;
    use model::{
        Bytes, Exit, ExitStatus, Fence, Millis, Progress, Signal, SignalSent, SlotName, Usage, WorkerName,
    };

    /// A pipe of this width in Greenwich.
    pub(crate) fn look(width: usize) -> Look {
        Look::piped(width)
    }

    /// A gzip that did not like its file.
    pub(crate) fn failed_job() -> JobRecord {
        let worker = Some(WorkerName { slot: SlotName::new("default", 1), generation: 7 });
        let id = "0199aa00000070008000000000000001".into();
        JobRecord {
            payload: Some(Payload::Exec(Exec {
                argv: vec!["gzip".into(), "-t".into(), "it's a.gz".into()],
                cwd: "/tmp".into(),
                umask: 0o22,
                stdin: "abc".into(),
            })),
            title: Some("gzip -t it's a.gz".into()),
            tags: vec!["nightly".into()],
            attempt: 1,
            retry: Some(Retry::NONE),
            time_limit: Some(Duration::from_secs(90)),
            interrupted: 1,
            put_at: Millis(1_790_000_000_000),
            put_by: Some("uid 1000".into()),
            started_at: Some(Millis(1_790_000_001_500)),
            ended_at: Some(Millis(1_790_000_003_000)),
            instance: Some("q1-1".into()),
            worker: worker.clone(),
            fence: Fence(1),
            failure: Some(Failure {
                group: "exit 1".into(),
                message: "gzip: a.gz: crc error".into(),
                trace: None,
            }),
            forensics: Some(gzip_left(worker)),
            ..JobRecord::new(id, "default".into(), "exec".into(), JobState::Failed)
        }
    }

    fn gzip_left(worker: Option<WorkerName>) -> Forensics {
        let user = Duration::from_millis(120);
        let usage = Usage { user, system: Duration::from_millis(8), max_rss: 1_900 << 10 };
        let exit = Exit {
            status: ExitStatus::Code(1),
            usage,
            left_behind: 2,
            oom: false,
            oom_at_bound: false,
            proof: Duration::from_millis(3),
        };
        let (after, signal) = (Duration::from_millis(1_000), Signal::Term);
        Forensics {
            shared: false,
            cpu: None,
            ended_for: None,
            oom_kills: None,
            worker,
            ran: Duration::from_millis(1_500),
            exit: Some(exit),
            signals: vec![SignalSent { after, signal, why: "canceled".into() }],
            stderr_tail: "\ngzip: a.gz: invalid\x1b[31m compressed data--crc error\n".into(),
            output_dropped: 2_000_000,
            left: vec![],
            snapshot: None,
            died_before: None,
            at: Some(Millis(1_790_000_003_000)),
        }
    }

    #[test]
    fn job_page_shows_all_sections() {
        insta::assert_snapshot!("job_show", render(&failed_job(), None, &[], &look(100)));
    }

    #[test]
    fn a_job_that_was_only_put_has_a_short_page() {
        let mut job = failed_job();
        job.state = JobState::Delayed;
        (job.attempt, job.interrupted, job.due_at) = (0, 0, Some(Millis(1_790_000_060_000)));
        (job.started_at, job.ended_at, job.failure, job.forensics) = (None, None, None, None);
        (job.worker, job.instance, job.tags) = (None, None, vec![]);
        job.payload = Some(Payload::Data("{\"to\": 1}\n".into()));
        insta::assert_snapshot!("job_show_put", render(&job, None, &[], &look(100)));
    }

    #[test]
    fn job_page_counts_orphans_and_names_running_ones() {
        let mut job = failed_job();
        (job.crashes, job.interrupted) = (1, 2);
        let forensics = job.forensics.as_mut().unwrap();
        forensics.left = vec!["sleep (pid 17)".into(), "e\x1bvil (pid 18), killed".into()];
        (forensics.exit.as_mut().unwrap().left_behind, forensics.output_dropped) = (1, 0);
        insta::assert_snapshot!("job_show_left", render(&job, None, &[], &look(100)));
    }

    /// A job of a class, on its second attempt.
    fn class_job() -> JobRecord {
        let mut job = failed_job();
        (job.class, job.queue, job.state) = ("mail.Send".into(), "mail".into(), JobState::Running);
        (job.attempt, job.retry, job.unknown, job.crashes) = (2, Some(Retry::CLASS), 3, 1);
        let data = r#"{"to":["ann@example.org","bob\u001b@example.org"],"n":1.0e0,"none":{},"empty":[]}"#;
        job.payload = Some(Payload::Data(data.into()));
        job.progress = Some(Progress { fraction: Some(0.425), message: Some("page 17\x1b[2J of 40".into()) });
        let trace =
            "Traceback (most recent call last):\n  File \"mail.py\", line 7\n\x07ValueError: no recipient";
        job.failure = Some(Failure {
            group: "ValueError".into(),
            message: "no recipient".into(),
            trace: Some(trace.into()),
        });
        (job.ended_at, job.forensics) = (None, None);
        job
    }

    #[test]
    fn canceled_job_is_not_explained_by_an_earlier_failure() {
        let mut job = class_job();
        for state in [JobState::Running, JobState::Canceled] {
            job.state = state;
            let page = render(&job, None, &[], &look(100));
            assert!(page.contains("\nbefore      ValueError: no recipient\n"), "{page}");
            assert!(!list_text(std::slice::from_ref(&job), Millis(0), &look(200)).contains("no recipient"));
        }
        job.state = JobState::Delayed;
        assert!(render(&job, None, &[], &look(100)).contains("\nwhy         ValueError: no recipient\n"));
        assert!(list_text(&[job], Millis(0), &look(200)).contains("no recipient"));
    }

    #[test]
    fn job_page_shows_progress_and_data() {
        insta::assert_snapshot!("job_show_class", render(&class_job(), None, &[], &look(100)));
    }

    #[test]
    fn complete_job_has_come_to_its_end_in_text_and_in_json() {
        let mut job = class_job();
        for (state, shown, fraction) in [(JobState::Running, "42%", 0.425), (JobState::Complete, "100%", 1.0)]
        {
            job.state = state;
            let page = render(&job, None, &[], &look(100));
            assert!(page.contains(&format!(" {shown} page 17")), "{page}");
            let json = serde_json::to_value(&job).unwrap();
            assert_eq!(json["progress"]["fraction"], fraction, "{json}");
        }
    }

    #[test]
    fn large_or_binary_data_is_shown_by_its_size() {
        let mut job = class_job();
        (job.state, job.failure, job.progress) = (JobState::Complete, None, None);
        job.payload = Some(Payload::Data(Bytes(b"\xff\0".to_vec())));
        job.result = Some(format!("\"{}\"", "x".repeat(3_000_000)));
        let shown = |job: &JobRecord| {
            let page = render(job, None, &[], &look(100));
            let lines = page.lines().filter(|line| line.starts_with("data") || line.starts_with("result"));
            lines.collect::<Vec<_>>().join("\n")
        };
        let all = "all of it: taskvisor job show --json";
        assert_eq!(
            shown(&job),
            format!("data        no text, 2 bytes; {all}\nresult      3000002 bytes; {all}")
        );
        let deep = [["["; 1000], ["]"; 1000]].concat().concat();
        job.payload = Some(Payload::Data(deep.as_str().into()));
        assert!(shown(&job).starts_with(&format!("data        2000 bytes; {all}\n")));
        job.payload = Some(Payload::Data("not\tJSON".into()));
        job.result = Some("null".into());
        assert_eq!(shown(&job), "data        not\\tJSON\nresult      null");
    }
}
