//! The lines of the supervisor's own log: the sentences of facts, with fields beside them. Text that the log's level leaves
//! out is not formatted.

use std::collections::BTreeMap;

use tracing::Level;

use super::fact::{Fact, OfJob, Row};
use super::flood::{Flood, Kind};
use super::line::Line;
use model::{Fence, Instant, JobId};

/// Makes log lines of facts.
pub(super) struct EventLog {
    /// The most verbose level that the log takes.
    level: Level,
    /// Lines about ends of jobs, logged once the broker has confirmed them: a verdict may be sent several times.
    ends: BTreeMap<(JobId, Fence), (Option<Kind>, Line)>,
    flood: Flood,
}

impl EventLog {
    pub(super) fn new(level: Level) -> EventLog {
        EventLog { level, ends: BTreeMap::new(), flood: Flood::default() }
    }

    /// When to log the summary of lines that were left out.
    pub(super) fn due(&self) -> Option<Instant> {
        self.flood.due()
    }

    /// The summaries that are due.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<Line> {
        self.flood.overdue(now)
    }

    /// The line, unless there were too many of its kind.
    pub(super) fn pass(&mut self, now: Instant, kind: Option<Kind>, line: Line) -> Option<Line> {
        match kind {
            Some(kind) => self.flood.pass(now, kind, line),
            None => Some(line),
        }
    }

    /// The line of a fact, if it is worth one.
    pub(super) fn line(&mut self, now: Instant, fact: &Fact, row: &Row<'_>) -> Option<Line> {
        match fact {
            Fact::Job(at, OfJob::Verdict(fence, _)) => {
                let Some(line) = self.shown(row) else {
                    // A cancel replaces a verdict that the broker has not confirmed, and its line, too.
                    self.ends.retain(|(job, of), _| (job, of) != (&at.job, fence));
                    return None;
                };
                self.ends.insert((at.job.clone(), *fence), (row.flood, line));
                None
            }
            // The level of most logs leaves most ends out, and then no key is made.
            Fact::Job(at, OfJob::Settled { fence, accepted }) if !self.ends.is_empty() => {
                let (kind, line) = self.ends.remove(&(at.job.clone(), *fence))?;
                // If another supervisor has the job, the verdict was refused.
                accepted.then(|| self.pass(now, kind, line)).flatten()
            }
            Fact::Worker(..) | Fact::Job(..) | Fact::Pool(..) | Fact::Service(_) => {
                if let Fact::Job(at, OfJob::LeaseLost(_)) = fact {
                    // Its verdict is not sent again, so no answer would remove the line.
                    self.ends.retain(|(job, _), _| *job != at.job);
                }
                let line = self.shown(row)?;
                self.pass(now, row.flood, line)
            }
        }
    }

    fn shown(&self, row: &Row<'_>) -> Option<Line> {
        let level = row.level.filter(|level| *level <= self.level)?;
        Some(Line {
            level,
            message: row.sentence(),
            job: row.job.cloned(),
            worker: row.worker.cloned(),
            pool: row.pool_name().map(Into::into),
            queue: row.queue.cloned(),
            by: row.by.map(Into::into),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::{Ending, JobAt, OfWorker, Voice};

    fn said(log: &mut EventLog, fact: &Fact) -> Option<String> {
        let mut said = None;
        let now = Instant::from_millis(1);
        fact.row(Voice::Plain, &mut |row| said = log.line(now, fact, row).map(|line| line.message));
        said
    }

    fn of_job(job: &str, what: OfJob) -> Fact {
        Fact::Job(JobAt { job: job.into(), worker: None }, what)
    }

    #[test]
    fn end_of_a_job_is_logged_once_the_broker_has_confirmed_it() {
        let mut log = EventLog::new(Level::INFO);
        let fence = Fence(1);
        for (job, ending) in [
            ("a", Ending::Complete),
            ("b", Ending::Fail("crashed: it died".into())),
            ("c", Ending::Fail("exit 1".into())),
        ] {
            assert_eq!(said(&mut log, &of_job(job, OfJob::Verdict(fence, ending))), None);
        }
        assert_eq!(log.ends.len(), 2, "what the level leaves out is not kept");
        let mut settled = |job, accepted| said(&mut log, &of_job(job, OfJob::Settled { fence, accepted }));
        assert_eq!(settled("a", true), None);
        assert_eq!(settled("b", true).as_deref(), Some("a job has failed for good: crashed: it died"));
        assert_eq!(settled("c", false), None, "another supervisor has it");
        assert!(log.ends.is_empty());
    }

    #[test]
    fn end_that_is_replaced_or_lost_before_the_broker_confirms_it_is_not_logged_nor_kept() {
        let mut log = EventLog::new(Level::INFO);
        let fence = Fence(1);
        for job in ["a", "b"] {
            let failed = OfJob::Verdict(fence, Ending::Fail("exit 1".into()));
            assert_eq!(said(&mut log, &of_job(job, failed)), None);
        }
        assert_eq!(said(&mut log, &of_job("a", OfJob::Verdict(fence, Ending::Canceled))), None);
        let settled = OfJob::Settled { fence, accepted: true };
        assert_eq!(said(&mut log, &of_job("a", settled)), None, "it was canceled");
        let lost = said(&mut log, &of_job("b", OfJob::LeaseLost("lock lost")));
        assert!(lost.is_some_and(|line| line.contains("is lost")));
        assert!(log.ends.is_empty());
    }

    #[test]
    fn line_has_the_fields_of_its_fact() {
        let mut log = EventLog::new(Level::DEBUG);
        let fact = Fact::Worker("mail.1#7".parse().unwrap(), OfWorker::Ready);
        let mut line = None;
        fact.row(Voice::Plain, &mut |row| line = log.line(Instant::from_millis(1), &fact, row));
        let line = line.unwrap();
        assert_eq!((line.message.as_str(), line.pool.as_deref()), ("a worker takes jobs", Some("mail")));
        assert_eq!((line.level, line.worker), (Level::DEBUG, "mail.1#7".parse().ok()));
    }
}
