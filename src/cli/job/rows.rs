//! Jobs as lines of a table: what each is, how it ended, and an id short enough to type.

use std::collections::HashMap;
use std::time::Duration;

use crate::cli::args::sort::Sort;
use crate::cli::term::format::{between, known};
use crate::cli::term::row::{ran, short, shortened, why};
use crate::cli::term::screen::{Columns, Look, age, escaped, size};
use model::{Exit, ExitStatus, Forensics, JobId, JobRecord, Millis};

/// Width of the column that says what a job is, on a terminal.
const WHAT: usize = 40;

/// Additional columns of a table.
#[derive(Clone, Debug, Default)]
pub(super) struct Extra {
    /// Whether the tags have a column.
    pub tags: bool,
    /// The value by which the jobs are sorted.
    pub sort: Option<Sort>,
    /// What the processes of running jobs take now.
    pub now: HashMap<JobId, Usage>,
}

/// Resident memory in bytes, and CPU time.
pub(super) type Usage = (u64, Duration);

/// A table of jobs that arrives in pieces.
pub(super) struct JobTable {
    look: Look,
    extra: Extra,
    columns: Columns,
}

impl JobTable {
    pub(super) fn new(look: Look, extra: Extra) -> Self {
        let mut heads = vec!["ID", "STATE", "QUEUE", "WHAT", "TRY", "AGE", "RAN"];
        heads.extend(extra.figure());
        heads.push("EXIT");
        heads.extend(extra.tags.then_some("TAGS"));
        heads.push("WHY");
        JobTable { columns: Columns::new(&heads), look, extra }
    }

    /// The lines for the next jobs.
    pub(super) fn lines(&mut self, jobs: &[JobRecord], now: Millis) -> String {
        // In a pipe the ids stay whole, as other commands take them from there.
        let length = if self.look.tty { short(jobs.iter().map(|job| job.id.as_str())) } else { usize::MAX };
        let rows: Vec<Vec<String>> = jobs.iter().map(|job| self.row(job, length, now)).collect();
        self.columns.lines(&self.look, &rows)
    }

    fn row(&self, job: &JobRecord, length: usize, now: Millis) -> Vec<String> {
        let mut row = vec![
            escaped(shortened(job.id.as_str(), length)).into_owned(),
            job.state.to_string(),
            escaped(job.queue.as_str()).into_owned(),
            self.what(job),
            job.attempt.to_string(),
            known(job.put_at).map_or_else(|| "-".into(), |at| age(between(at, now))),
            ran(job, now).map_or_else(|| "-".into(), age),
        ];
        row.extend(self.extra.of(job));
        row.push(exit(job).map_or_else(|| "-".into(), |exit| ended(&exit.status)));
        row.extend(self.extra.tags.then(|| escaped(&job.tags.join(",")).into_owned()));
        row.push(escaped(&why(job).unwrap_or_default()).into_owned());
        row
    }

    /// The command, or the class and the beginning of its data.
    fn what(&self, job: &JobRecord) -> String {
        let what = escaped(job.title.as_deref().unwrap_or(job.class.as_str())).into_owned();
        // In a pipe it stays whole, as the id does.
        let narrow = Look { width: Some(WHAT), ..self.look.clone() };
        if self.look.width.is_some() { narrow.cut(&what).into_owned() } else { what }
    }
}

impl Extra {
    fn figure(&self) -> Option<&'static str> {
        match self.sort? {
            Sort::Ran => None,
            Sort::Memory => Some("MEMORY"),
            Sort::Cpu => Some("CPU"),
        }
    }

    fn of(&self, job: &JobRecord) -> Option<String> {
        let known = match self.sort? {
            Sort::Ran => return None,
            Sort::Memory => self.usage(job).0.map(size),
            Sort::Cpu => self.usage(job).1.map(age),
        };
        Some(known.unwrap_or_else(|| "-".into()))
    }

    /// What a job takes or took, as far as it is known. What is recorded of a running one is of an attempt before.
    fn usage(&self, job: &JobRecord) -> (Option<u64>, Option<Duration>) {
        if job.state.is_leased() {
            return self.now.get(&job.id).copied().unzip();
        }
        (exit(job).map(|exit| exit.usage.max_rss), job.forensics.as_ref().and_then(Forensics::cpu))
    }

    /// The value by which a job is sorted; the largest comes first.
    pub(super) fn weight(&self, job: &JobRecord) -> u128 {
        match self.sort {
            None => 0,
            Some(Sort::Ran) => ran(job, clock::wall()).unwrap_or_default().as_nanos(),
            Some(Sort::Memory) => self.usage(job).0.unwrap_or_default().into(),
            Some(Sort::Cpu) => self.usage(job).1.unwrap_or_default().as_nanos(),
        }
    }
}

fn exit(job: &JobRecord) -> Option<&Exit> {
    job.forensics.as_ref().and_then(|left| left.exit.as_ref())
}

/// The exit code, or the name of the signal.
fn ended(status: &ExitStatus) -> String {
    match status {
        ExitStatus::Code(code) => code.to_string(),
        ExitStatus::Signal { signal, .. } => match nix::sys::signal::Signal::try_from(*signal) {
            Ok(known) => known.as_str().trim_start_matches("SIG").to_owned(),
            Err(_) => format!("signal {signal}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::record::page::tests::{failed_job, look};
    use model::JobState;

    #[test]
    fn a_list_is_a_table() {
        let failed = failed_job();
        let mut waiting = failed_job();
        waiting.id = "0199aa00000070008000000000000002".into();
        waiting.state = JobState::Waiting;
        waiting.attempt = 0;
        waiting.class = "mail.Send".into();
        waiting.title = Some("mail.Send {\"to\": \"ann@example.org\", \"lines\": [1, 2, 3]}".into());
        waiting.tags = vec!["nightly".into(), "eu".into()];
        (waiting.started_at, waiting.ended_at, waiting.failure) = (None, None, None);
        waiting.forensics = None;
        let jobs = [waiting, failed];
        let text = |extra, tty| {
            let look = Look { tty, ..look(120) };
            JobTable::new(look, extra).lines(&jobs, Millis(1_790_000_060_000))
        };
        let with = Extra { tags: true, sort: Some(Sort::Memory), ..Extra::default() };
        insta::assert_snapshot!("job_list", [text(Extra::default(), false), text(with, true)].join("\n"));
    }

    #[test]
    fn run_time_grows_only_while_the_job_runs() {
        let mut job = failed_job();
        job.ended_at = None;
        let now = Millis(1_790_000_061_500);
        let ran_as = |job: &mut JobRecord, state| {
            job.state = state;
            ran(job, now)
        };
        assert_eq!(ran_as(&mut job, JobState::Running), Some(Duration::from_secs(60)));
        let left = job.forensics.as_mut().unwrap();
        left.ran = Duration::from_secs(2);
        assert_eq!(ran_as(&mut job, JobState::Delayed), Some(Duration::from_secs(2)));
        // The job waited to run alone for longer than it then ran.
        job.ended_at = Some(now);
        assert_eq!(ran_as(&mut job, JobState::Complete), Some(Duration::from_secs(2)));
        // The duration of an earlier attempt does not count for this one.
        job.forensics.as_mut().unwrap().at = Some(Millis(0));
        assert_eq!(ran_as(&mut job, JobState::Complete), Some(Duration::from_secs(60)));
        (job.forensics, job.ended_at) = (None, None);
        assert_eq!(ran_as(&mut job, JobState::Waiting), None);
    }
}
