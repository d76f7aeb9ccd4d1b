//! The lines of the supervisor's own log about commands, events and orders of people: a sentence, and fields beside it.
//! Text that the log's level leaves out is not formatted.

use std::collections::BTreeMap;
use std::time::Duration;

use tracing::Level;

use super::flood::{Flood, Kind};
use super::line::{Line, cut};
use model::{
    ExitStatus, Failure, Fence, Instant, Job, JobId, Settlement, Signal, Verdict, WorkerId, format_duration,
};
use process::Children;
use supervisor::{Command, Event};

/// Makes log lines of commands and events.
pub(super) struct EventLog {
    /// The most verbose level that the log takes.
    level: Level,
    /// Lines about ends of jobs, logged once the broker has confirmed them.
    ends: BTreeMap<(JobId, Fence), (Kind, Line)>,
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

    fn shows(&self, level: Level) -> bool {
        level <= self.level
    }

    /// The line of a person's order.
    pub(super) fn person(&mut self, now: Instant, kind: Kind, line: Line) -> Option<Line> {
        self.flood.pass(now, kind, line)
    }

    /// The line of an order by the supervisor.
    pub(super) fn order(&mut self, now: Instant, command: &Command, children: &Children) -> Option<Line> {
        if let Command::Settle(settlement) = command {
            self.settles(settlement);
            return None;
        }
        let worker = |id: &WorkerId| children.name(*id);
        let debug = |message: String| Line::new(Level::DEBUG, message);
        match command {
            Command::Died { worker: id, why, booted, next, jobs } => {
                let line = death(why, *booted, *next, *jobs)?.worker(worker(id));
                self.flood.pass(now, Kind::Death, line)
            }
            Command::LeaseLost { job, why, .. } => {
                let message = format!("the lease of a job is lost ({why}): nothing is settled");
                self.flood.pass(now, Kind::Lost, Line::new(Level::WARN, message).job(job))
            }
            _ if !self.shows(Level::DEBUG) => None,
            Command::Assign { worker: id, job, .. } => {
                let message = format!("a job of class {} begins, attempt {}", job.class, job.attempt);
                let line = debug(message).job(&job.id).worker(worker(id));
                Some(Line { queue: Some(job.queue.clone()), ..line })
            }
            Command::Spawn(id) | Command::Fork(id, _) => {
                Some(debug("a worker is started".into()).worker(worker(id)))
            }
            Command::Signal { worker: id, signal, why } => {
                let signal = match signal {
                    Signal::Term => "TERM",
                    Signal::Kill => "KILL",
                };
                Some(debug(format!("{signal} is sent to a worker: {why}")).worker(worker(id)))
            }
            Command::Cancel { worker: id, job, why } => {
                Some(debug(format!("a worker is asked to end a job: {why}")).job(job).worker(worker(id)))
            }
            _ if !self.shows(Level::TRACE) => None,
            Command::Fetch { pool, workers, .. } => {
                let message = format!("{} jobs are asked for", workers.len());
                Some(Line::new(Level::TRACE, message).pool(&children.pool(*pool)))
            }
            Command::Renew(leases) => {
                Some(Line::new(Level::TRACE, format!("{} leases are renewed", leases.len())))
            }
            Command::KillAt(id, at) => {
                let message = match at {
                    Some(_) => "the keeper gets the time at which to kill a worker by itself",
                    None => "the keeper is not to kill a worker by itself any more",
                };
                Some(Line::new(Level::TRACE, message).worker(worker(id)))
            }
            Command::Follow(id, ..) => {
                let message = "the keeper makes the next workers of a slot by itself";
                Some(Line::new(Level::TRACE, message).worker(worker(id)))
            }
            Command::Settle(_) | Command::AskIdle(..) | Command::AskWaiting(..) | Command::Equip(..) => None,
            Command::VerdictUnconfirmed { .. }
            | Command::LeftAlive { .. }
            | Command::GiveUp(_)
            | Command::Exit => None,
        }
    }

    /// The line of an event for the supervisor.
    pub(super) fn fact(&mut self, now: Instant, event: &Event, children: &Children) -> Option<Line> {
        let worker = |id: &WorkerId| children.name(*id);
        let debug = |message: String| Line::new(Level::DEBUG, message);
        match event {
            Event::Settled { job, fence, became } if !self.ends.is_empty() => {
                let (kind, line) = self.ends.remove(&(job.clone(), *fence))?;
                // None: another supervisor has the job, and the verdict was refused.
                became.as_ref()?;
                match line.level {
                    Level::WARN => self.flood.pass(now, kind, line),
                    _ => Some(line),
                }
            }
            Event::Stuck(id, cause) => {
                let message = format!("a killed worker does not die: {cause}");
                Some(Line::new(Level::WARN, message).worker(worker(id)))
            }
            Event::Fetched(_, jobs) if jobs.iter().any(|fetched| fetched.job.is_suspect()) => {
                let suspect = jobs.iter().find(|fetched| fetched.job.is_suspect())?;
                self.flood.pass(now, Kind::Suspects, of_suspect(&suspect.job))
            }
            Event::Resized(pool, workers) => {
                let message = format!("the time of day: pool {pool} will have {workers} workers");
                Some(Line::new(Level::INFO, message).pool(pool))
            }
            _ if !self.shows(Level::DEBUG) => None,
            Event::Ready(id) => Some(debug("a worker takes jobs".into()).worker(worker(id))),
            Event::Exited { worker: id, exit, .. } => {
                let how = match exit.status {
                    ExitStatus::Code(code) => format!("exit {code}"),
                    ExitStatus::Signal { signal, .. } => format!("signal {signal}"),
                };
                Some(debug(format!("a worker has ended: {how}")).worker(worker(id)))
            }
            Event::Exceeded { worker: id, job, excess, .. } => {
                let message = format!("a job is over its {}: {}", excess.name(), excess.message());
                Some(debug(message).job(job).worker(worker(id)))
            }
            Event::Revoked { job, why, .. } => {
                Some(debug(format!("the lease of a job is revoked: {}", why.as_str())).job(job))
            }
            _ if !self.shows(Level::TRACE) => None,
            Event::Fetched(pool, jobs) => {
                let message = format!("{} jobs have come", jobs.len());
                Some(Line::new(Level::TRACE, message).pool(&children.pool(*pool)))
            }
            Event::Waiting(pool, waiting) => {
                let message = if *waiting { "jobs wait for a worker" } else { "no job waits for a worker" };
                Some(Line::new(Level::TRACE, message).pool(&children.pool(*pool)))
            }
            Event::Woken(_) => Some(Line::new(Level::TRACE, "jobs may wait")),
            Event::Renewed(lease) => Some(Line::new(Level::TRACE, "a lease is renewed").job(&lease.job)),
            Event::Spawned(_) | Event::SpawnFailed(..) | Event::Finished { .. } | Event::Faulty(..) => None,
            Event::Knows(..) | Event::FetchFailed(_) | Event::RenewFailed(..) | Event::Settled { .. } => None,
            Event::SettleFailed(..) | Event::Idle(_) | Event::Reload(_) | Event::Change(..) => None,
            Event::Outgrown(_) | Event::Counted(_) | Event::Stop(_) => None,
        }
    }

    /// Keeps the line about a job's end until the broker has confirmed it: a verdict may be sent several times.
    fn settles(&mut self, settlement: &Settlement) {
        if self.shows(level(settlement)) {
            self.ends.insert((settlement.job.clone(), settlement.fence), verdict(settlement));
        }
    }
}

/// The log level of a verdict.
fn level(settlement: &Settlement) -> Level {
    match settlement.verdict {
        Verdict::Fail { .. } | Verdict::Hold { .. } => Level::WARN,
        Verdict::Retry { .. } if settlement.crashed => Level::WARN,
        Verdict::Retry { .. } | Verdict::Complete { .. } | Verdict::Release { .. } | Verdict::Canceled => {
            Level::DEBUG
        }
    }
}

/// The line of a verdict.
fn verdict(settlement: &Settlement) -> (Kind, Line) {
    let Settlement { job, verdict, crashed, forensics, .. } = settlement;
    let (kind, message) = match verdict {
        Verdict::Fail { failure } => {
            (Kind::Failed, format!("a job has failed for good: {}", quoted(failure)))
        }
        Verdict::Hold { failure } => {
            let message = format!("a job is held for a person: {}", quoted(failure));
            (Kind::Held, message)
        }
        Verdict::Retry { after, failure } if *crashed => {
            let again = again(*after);
            let message =
                format!("the worker died under a job, which is tried again {again}: {}", quoted(failure));
            (Kind::Crashed, message)
        }
        Verdict::Retry { after, failure } => {
            let again = again(*after);
            let message = format!("a job did not complete and is tried again {again}: {}", quoted(failure));
            (Kind::Failed, message)
        }
        Verdict::Complete { .. } => (Kind::Failed, "a job is complete".into()),
        Verdict::Release { .. } => (Kind::Failed, "a job goes back to its queue, the attempt unspent".into()),
        Verdict::Canceled => (Kind::Failed, "a job is canceled: its processes are dead".into()),
    };
    let line = Line::new(level(settlement), message).job(job);
    let worker = forensics.as_ref().and_then(|left| left.worker.clone());
    (kind, worker.into_iter().fold(line, Line::worker))
}

/// The line of a worker's death. If the worker had one job, the line of that job says it.
fn death(why: &str, booted: bool, next: Option<Duration>, jobs: usize) -> Option<Line> {
    let when = if booted { "" } else { " before it was ready" };
    let next = match next {
        Some(next) => format!("the next one starts {}", again(next)),
        None => "none follows".into(),
    };
    let jobs = match jobs {
        0 => String::new(),
        1 => return None,
        many => format!("; its {many} jobs are run again, each alone"),
    };
    Some(Line::new(Level::WARN, format!("a worker died{when}: {}; {next}{jobs}", cut(why))))
}

fn again(after: Duration) -> String {
    match after {
        Duration::ZERO => "at once".into(),
        after => format!("in {}", format_duration(Duration::from_millis(after.as_millis() as u64))),
    }
}

fn quoted(failure: &Failure) -> String {
    match failure.message.lines().next() {
        None | Some("") => cut(&failure.group),
        Some(first) => cut(&format!("{}: {first}", failure.group)),
    }
}

/// The line of a fetched job that was running when a supervisor died.
fn of_suspect(job: &Job) -> Line {
    let (times, minutes) = (job.interrupted, Job::ALONE_FOR.as_secs() / 60);
    let message = format!(
        "the supervisor or its host has died {times} times under a job: it is to run alone, and no other begins here for \
         {minutes} minutes after it at most"
    );
    Line::new(Level::WARN, message).job(&job.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settle(job: &str, verdict: Verdict, crashed: bool) -> Settlement {
        Settlement { job: job.into(), fence: Fence(1), verdict, crashed, forensics: None }
    }

    fn failure(message: &str) -> Failure {
        Failure { group: "crashed".into(), message: message.into(), trace: None }
    }

    #[test]
    fn successes_are_logged_at_debug_and_not_kept() {
        let mut log = EventLog::new(Level::INFO);
        log.settles(&settle("a", Verdict::Complete { result: None, next: None }, false));
        let failure = failure("it died\nof shame");
        log.settles(&settle("b", Verdict::Fail { failure: failure.clone() }, true));
        let after = Duration::from_millis(1500);
        log.settles(&settle("c", Verdict::Retry { after, failure: failure.clone() }, true));
        log.settles(&settle("d", Verdict::Retry { after, failure }, false));
        let said: Vec<&str> = log.ends.values().map(|(_, line)| line.message.as_str()).collect();
        let died = "the worker died under a job, which is tried again in 1s500ms: crashed: it died";
        assert_eq!(said, ["a job has failed for good: crashed: it died", died]);
    }

    #[test]
    fn death_is_logged_with_the_next_start_or_with_its_job() {
        let words = |booted, next, jobs| death("signal 9", booted, next, jobs).map(|line| line.message);
        let next = Some(Duration::from_millis(400));
        let early = "a worker died before it was ready: signal 9; the next one starts in 400ms";
        assert_eq!(words(false, next, 0).as_deref(), Some(early));
        let many = "a worker died: signal 9; none follows; its 3 jobs are run again, each alone";
        assert_eq!(words(true, None, 3).as_deref(), Some(many));
        assert_eq!(words(true, next, 1), None);
    }
}
