//! What happens to jobs.

use std::time::Duration;

use tracing::Level;

use super::row::{Again, Row, Voice};
use crate::flood::Kind;
use model::{
    Class, Excess, Failure, Fence, Job, JobId, QueueName, Revocation, Settlement, Verdict, WorkerName,
    format_duration, quoted,
};

/// A job, and the worker that it is in, if that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobAt {
    pub(crate) job: JobId,
    pub(crate) worker: Option<WorkerName>,
}

/// What has happened to a job, or was ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OfJob {
    /// A worker gets it.
    Assigned {
        /// The number of its lease.
        fence: Fence,
        /// The queue it came from.
        queue: QueueName,
        /// The class of the job.
        class: Class,
        /// The number of the attempt.
        attempt: u32,
        /// The process of the worker; 0 where none is known.
        pid: i32,
    },
    /// Its worker is asked to end it: why.
    Canceling(&'static str),
    /// It is over a limit.
    Exceeded(Box<Excess>),
    /// It prints more than its log keeps.
    Floods,
    /// Its worker reports its end.
    Finished(Fence),
    /// What becomes of it, once the broker has confirmed that.
    Verdict(Fence, Ending),
    /// The broker has answered to its verdict.
    Settled {
        /// The number of its lease.
        fence: Fence,
        /// False = the lease was not ours any more, and the verdict is void.
        accepted: bool,
    },
    /// The broker has not answered to its verdict.
    SettleFailed,
    /// Its lease is lost, and nothing is settled: why.
    LeaseLost(&'static str),
    /// The broker took its lease back.
    Revoked(Revocation),
    /// Its lease was renewed.
    Renewed,
    /// The broker has not answered to the renewal of its lease.
    RenewFailed,
}

/// A verdict, without its long parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It is done.
    Complete,
    /// It runs again.
    Retry {
        /// How long it waits before.
        after: Duration,
        /// Why this attempt failed.
        failure: Box<str>,
        /// Whether its worker died under it.
        crashed: bool,
    },
    /// It has failed for good.
    Fail(Box<str>),
    /// It is put back for this time, the attempt unspent.
    Release(Duration),
    /// It is kept for a person to decide.
    Hold(Box<str>),
    /// It was canceled.
    Canceled,
}

impl OfJob {
    pub(super) fn assigned(job: &Job, fence: Fence, pid: i32) -> OfJob {
        let (queue, class, attempt) = (job.queue.clone(), job.class.clone(), job.attempt);
        OfJob::Assigned { fence, queue, class, attempt, pid }
    }

    pub(super) fn verdict(settlement: &Settlement) -> OfJob {
        let ending = match &settlement.verdict {
            Verdict::Complete { .. } => Ending::Complete,
            Verdict::Retry { after, failure } => {
                let (after, failure, crashed) = (*after, first_line(failure), settlement.crashed);
                Ending::Retry { after, failure, crashed }
            }
            Verdict::Fail { failure } => Ending::Fail(first_line(failure)),
            Verdict::Release { after, .. } => Ending::Release(*after),
            Verdict::Hold { failure } => Ending::Hold(first_line(failure)),
            Verdict::Canceled => Ending::Canceled,
        };
        OfJob::Verdict(settlement.fence, ending)
    }

    pub(super) fn row(&self, of: &JobAt, voice: Voice, to: &mut dyn FnMut(&Row<'_>)) {
        let in_worker = of.worker.as_ref();
        let row = Row { job: Some(&of.job), worker: in_worker, ..Row::default() };
        let name = of.job.shown();
        let (job, debug) = (voice.noun("job", &name), Level::DEBUG);
        match self {
            OfJob::Assigned { queue, class, attempt, .. } => {
                let row = Row { queue: Some(queue), ..row.often() };
                match in_worker.filter(|_| voice == Voice::Named) {
                    None => {
                        to(&row.says(
                            debug,
                            format_args!("{job} of class {class} is assigned, attempt {attempt}"),
                        ));
                    }
                    Some(worker) => {
                        let to_worker = format_args!("to worker {worker}, attempt {attempt}");
                        to(&row.says(debug, format_args!("{job} of class {class} is assigned {to_worker}")));
                    }
                }
            }
            OfJob::Canceling(why) => match in_worker.map(|worker| voice.noun("worker", worker)) {
                None => to(&row.seldom()),
                Some(worker) => {
                    let text = format_args!("{worker} is asked to end {job}: {why}");
                    to(&row.seldom().says(debug, text));
                }
            },
            OfJob::Exceeded(excess) => {
                let (name, message) = (excess.name(), excess.message());
                to(&row.seldom().says(debug, format_args!("{job} is over its {name}: {message}")));
            }
            OfJob::Floods => {
                let text = format_args!("{job} floods its output: the rest of it is dropped");
                to(&row.flood(Kind::Floods).seldom().says(Level::WARN, text));
            }
            // The verdict that follows has the words. This ends the attempt, whose time is counted.
            OfJob::Finished(_) => to(&row),
            OfJob::Verdict(_, ending) => ending.row(row, voice.noun("job", &name), to),
            OfJob::Settled { accepted: true, .. } => to(&row.count(|all| all.settled += 1)),
            OfJob::Settled { accepted: false, .. } => to(&row),
            OfJob::SettleFailed => to(&row.count(|all| all.settles_failed += 1)),
            OfJob::LeaseLost(why) => {
                let text = format_args!("the lease of {job} is lost ({why}): nothing is settled");
                to(&row.flood(Kind::Lost).seldom().says(Level::WARN, text));
            }
            OfJob::Revoked(why) => {
                let row = row.count(|all| all.revoked += 1).seldom();
                to(&row.says(debug, format_args!("the lease of {job} is revoked: {}", why.as_str())));
            }
            OfJob::Renewed => {
                let row = row.count(|all| all.renewed += 1);
                to(&row.says(Level::TRACE, format_args!("a lease is renewed")));
            }
            OfJob::RenewFailed => to(&row.count(|all| all.renewals_failed += 1)),
        }
    }
}

impl Ending {
    fn row(&self, row: Row<'_>, job: impl std::fmt::Display, to: &mut dyn FnMut(&Row<'_>)) {
        let (debug, warn) = (Level::DEBUG, Level::WARN);
        match self {
            Ending::Complete => to(&row.often().says(debug, format_args!("{job} is complete"))),
            Ending::Release(Duration::ZERO) => {
                let text = format_args!("{job} goes back to its queue, the attempt unspent");
                to(&row.often().says(debug, text));
            }
            Ending::Release(after) => {
                let (after, row) = (format_duration(*after), row.often());
                let text = format_args!("{job} goes back to its queue for {after}, the attempt unspent");
                to(&row.says(debug, text));
            }
            Ending::Canceled => {
                to(&row.seldom().says(debug, format_args!("{job} is canceled: its processes are dead")));
            }
            Ending::Retry { after, failure, crashed: true } => {
                let (again, row) = (Again(*after), row.flood(Kind::Crashed).seldom());
                let text =
                    format_args!("the worker died under {job}, which is tried again {again}: {failure}");
                to(&row.says(warn, text));
            }
            Ending::Retry { after, failure, crashed: false } => {
                let (again, row) = (Again(*after), row.seldom());
                let text = format_args!("{job} did not complete and is tried again {again}: {failure}");
                to(&row.says(debug, text));
            }
            Ending::Fail(failure) => {
                let row = row.flood(Kind::Failed).seldom();
                to(&row.says(warn, format_args!("{job} has failed for good: {failure}")));
            }
            Ending::Hold(failure) => {
                let row = row.flood(Kind::Held).seldom();
                to(&row.says(warn, format_args!("{job} is held for a person: {failure}")));
            }
        }
    }
}

fn first_line(failure: &Failure) -> Box<str> {
    match failure.message.lines().next() {
        None | Some("") => quoted(&failure.group).into(),
        Some(first) => quoted(&format!("{}: {first}", failure.group)).into(),
    }
}
