//! What happens to workers.

use std::fmt::{self, Display};
use std::time::Duration;

use tracing::Level;

use super::row::{Again, Row, Voice};
use crate::flood::Kind;
use model::{ExitStatus, PoolCounters, Signal, What, WorkerName, quoted};

/// What has happened to a worker, or was ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OfWorker {
    /// The keeper or a template is to make its process.
    Spawning,
    /// Its process was made.
    Spawned,
    /// Its process could not be made: why.
    SpawnFailed(Box<str>),
    /// It takes jobs.
    Ready,
    /// It is sent a signal: which, and why.
    Signaled(Signal, Box<str>),
    /// The keeper is to kill it by itself at some moment, or is not to any more.
    KillAt(bool),
    /// The keeper makes the next workers of its slot by itself.
    Follow,
    /// It has more memory than its pool recycles at.
    Outgrown,
    /// Its process is stopped by a signal, or no longer is.
    Stands(bool),
    /// It is to be replaced by its own word: why.
    Leaves(Box<str>),
    /// It broke the worker protocol: how.
    Faulty(Box<str>),
    /// It has ended, and no process of its tree lives.
    Exited {
        /// How its first process ended.
        status: ExitStatus,
        /// Whether the kernel killed it for its memory.
        oom: bool,
        /// Whether the keeper makes the next one by itself.
        followed: bool,
    },
    /// It ended other than as planned: how.
    Died {
        /// How it ended.
        why: Box<str>,
        /// Whether it ever took jobs.
        booted: bool,
        /// How long until the next one is made; None = none is.
        next: Option<Duration>,
        /// Number of jobs that it ran.
        jobs: u32,
    },
    /// It was killed and does not die: why.
    Stuck(Box<str>),
}

impl OfWorker {
    pub(super) fn died(why: &str, booted: bool, next: Option<Duration>, jobs: usize) -> OfWorker {
        OfWorker::Died {
            why: quoted(why).into(),
            booted,
            next,
            jobs: u32::try_from(jobs).unwrap_or(u32::MAX),
        }
    }

    pub(super) fn row(&self, of: &WorkerName, voice: Voice, to: &mut dyn FnMut(&Row<'_>)) {
        let row = Row { worker: Some(of), ..Row::default() };
        let (worker, debug, trace) = (voice.noun("worker", of), Level::DEBUG, Level::TRACE);
        match self {
            OfWorker::Spawning => {
                let row = row.pool_count(&|pool| pool.spawned += 1);
                to(&row.often().says(debug, format_args!("{worker} is started")));
            }
            OfWorker::Spawned => to(&row.event(What::Started)),
            OfWorker::SpawnFailed(why) => {
                to(&row.seldom().explains(format_args!("{worker} could not be made: {why}")));
            }
            OfWorker::Ready => {
                to(&row.event(What::Ready).often().says(debug, format_args!("{worker} takes jobs")));
            }
            OfWorker::Signaled(signal, why) => {
                let (name, event) = match signal {
                    Signal::Term => ("TERM", What::Asked),
                    Signal::Kill => ("KILL", What::Killed),
                };
                // Where a life runs few jobs, this signal is as frequent as they are.
                let row = if &**why == "spent" { row.often() } else { row.seldom() };
                let row = row.event(event).detail(why);
                to(&row.says(debug, format_args!("{name} is sent to {worker}: {why}")));
            }
            OfWorker::KillAt(kills) => to(&row.says(trace, format_args!("{}", killing(*kills)))),
            OfWorker::Follow => {
                to(&row.says(trace, format_args!("the keeper makes the next workers of a slot by itself")));
            }
            OfWorker::Outgrown => {
                to(&row.seldom().explains(format_args!("{worker} has more memory than its pool recycles at")))
            }
            OfWorker::Stands(still) => {
                to(&row.seldom().says(Level::WARN, format_args!("{worker} {}", standing(*still))))
            }
            OfWorker::Leaves(why) => to(&row.seldom().explains(format_args!("{worker} leaves: {why}"))),
            OfWorker::Faulty(how) => {
                to(&row.seldom().explains(format_args!("{worker} broke the protocol: {how}")));
            }
            OfWorker::Exited { status, oom, followed } => {
                let how = How { status: *status, oom: *oom };
                let count = |pool: &mut PoolCounters| ended(pool, *status, *followed);
                // Each program and each fork ends so.
                let row = if how.is_well() { row.often() } else { row.seldom() };
                let row = row.event(What::Exited).detail(&how).pool_count(&count);
                to(&row.says(debug, format_args!("{worker} has ended: {how}")));
            }
            OfWorker::Died { why, booted, next, jobs } => {
                let (when, next) = (if *booted { "" } else { " before it was ready" }, following(*next));
                let lost = match jobs {
                    0 => String::new(),
                    // The line of that job says it.
                    1 => return,
                    many => format!("; its {many} jobs are run again, each alone"),
                };
                let text = format_args!("{worker} died{when}: {why}; {next}{lost}");
                to(&row.flood(Kind::Death).says(Level::WARN, text));
            }
            OfWorker::Stuck(cause) => {
                let text = format_args!("{worker} was killed and does not die: {cause}");
                to(&row.seldom().says(Level::WARN, text));
            }
        }
    }
}

fn killing(kills: bool) -> &'static str {
    match kills {
        true => "the keeper gets the time at which to kill a worker by itself",
        false => "the keeper is not to kill a worker by itself any more",
    }
}

fn standing(still: bool) -> &'static str {
    match still {
        true => {
            "is stopped by a signal (SIGSTOP), which counts towards no time limit: kill -CONT lets it go on"
        }
        false => "goes on",
    }
}

fn following(next: Option<Duration>) -> String {
    next.map_or_else(|| "none follows".into(), |next| format!("the next one starts {}", Again(next)))
}

fn ended(pool: &mut PoolCounters, status: ExitStatus, followed: bool) {
    // No order has counted the follower: the keeper makes it by itself.
    pool.spawned += u64::from(followed);
    match status {
        ExitStatus::Code(0) => pool.ended_well += 1,
        ExitStatus::Code(_) => pool.ended_badly += 1,
        ExitStatus::Signal { .. } => pool.killed += 1,
    }
}

/// How a worker ended, in words.
struct How {
    status: ExitStatus,
    oom: bool,
}

impl How {
    fn is_well(&self) -> bool {
        !self.oom && self.status == ExitStatus::Code(0)
    }
}

impl Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            _ if self.oom => f.write_str("out of memory"),
            ExitStatus::Code(code) => write!(f, "exit {code}"),
            ExitStatus::Signal { signal, .. } => write!(f, "signal {signal}"),
        }
    }
}
