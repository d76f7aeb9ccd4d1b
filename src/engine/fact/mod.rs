//! What has happened, made once from commands and events. The log, subscribers, counters, `why`, telemetry and systemd read
//! it. A fact has one row: its level, its sentence, its counter and its event. Pure.

mod job;
mod pool;
mod row;
mod service;
#[cfg(test)]
mod tests;
mod worker;

use std::sync::Arc;

use model::{JobId, WorkerId, WorkerName};
use supervisor::{Command, Event};

#[cfg(test)]
pub(super) use job::Ending;
pub(super) use job::{JobAt, OfJob};
pub(super) use pool::OfPool;
pub(super) use row::{Ring, Row, Voice};
pub(super) use service::OfService;
pub(super) use worker::OfWorker;

/// Something that has happened or was ordered, by what it happened to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fact {
    /// To a worker.
    Worker(WorkerName, OfWorker),
    /// To a job.
    Job(JobAt, OfJob),
    /// To a pool.
    Pool(Arc<str>, OfPool),
    /// To the service, or to several pools.
    Service(OfService),
}

/// Names what commands and events call by number: at the moment of the fact, because numbers are used again.
pub(super) trait Names {
    /// The name of the pool that has this number now.
    fn pool(&self, number: u16) -> Arc<str>;

    /// The process of a worker; None where none is known.
    fn pid(&self, worker: WorkerId) -> Option<i32>;
}

impl Names for process::Children {
    fn pool(&self, number: u16) -> Arc<str> {
        process::Children::pool(self, number)
    }

    fn pid(&self, worker: WorkerId) -> Option<i32> {
        process::Children::pid(self, worker)
    }
}

impl Fact {
    /// The fact that this order is; None for an order that nobody tells of.
    pub(super) fn of_command(command: &Command, names: &dyn Names) -> Option<Fact> {
        let worker = |id: &WorkerId| WorkerName::new(names.pool(id.slot.pool), *id);
        let of_worker = |id: &WorkerId, what| Some(Fact::Worker(worker(id), what));
        let in_worker = |job: &JobId, id: &WorkerId, what| {
            Some(Fact::Job(JobAt { job: job.clone(), worker: Some(worker(id)) }, what))
        };
        match command {
            Command::Spawn(id) | Command::Fork(id, _) => of_worker(id, OfWorker::Spawning),
            Command::Signal { worker: id, signal, why } => {
                of_worker(id, OfWorker::Signaled(*signal, why.as_str().into()))
            }
            Command::KillAt(id, at) => of_worker(id, OfWorker::KillAt(at.is_some())),
            Command::Follow(id, _) => of_worker(id, OfWorker::Follow),
            Command::Died { worker: id, why, booted, next, jobs } => {
                of_worker(id, OfWorker::died(why, *booted, *next, *jobs))
            }
            Command::Assign { worker: id, job, fence, .. } => {
                let pid = names.pid(*id).unwrap_or_default();
                in_worker(&job.id, id, OfJob::assigned(job, *fence, pid))
            }
            Command::Cancel { worker: id, job, why } => in_worker(job, id, OfJob::Canceling(why)),
            Command::Settle(settlement) => {
                let worker = settlement.forensics.as_ref().and_then(|left| left.worker.clone());
                let at = JobAt { job: settlement.job.clone(), worker };
                Some(Fact::Job(at, OfJob::verdict(settlement)))
            }
            Command::LeaseLost { job, why, .. } => {
                Some(Fact::Job(JobAt { job: job.clone(), worker: None }, OfJob::LeaseLost(why)))
            }
            Command::Fetch { pool, workers, .. } => {
                let what = OfPool::Fetching { number: *pool, most: workers.len() };
                Some(Fact::Pool(names.pool(*pool), what))
            }
            Command::Renew(leases) => Some(Fact::Service(OfService::Renewing(leases.len()))),
            // `unconfirmed.rs` logs these three with what the broker says, where it keeps the end.
            Command::GiveUp(_) | Command::VerdictUnconfirmed { .. } | Command::LeftAlive { .. } => None,
            Command::AskIdle(..) | Command::AskWaiting(..) | Command::Equip(..) | Command::Exit => None,
        }
    }

    /// The fact that this event is; None for an event that nobody tells of.
    pub(super) fn of_event(event: &Event, names: &dyn Names) -> Option<Fact> {
        let worker = |id: &WorkerId| WorkerName::new(names.pool(id.slot.pool), *id);
        let of_worker = |id: &WorkerId, what| Some(Fact::Worker(worker(id), what));
        let in_worker = |job: &JobId, id: &WorkerId, what| {
            Some(Fact::Job(JobAt { job: job.clone(), worker: Some(worker(id)) }, what))
        };
        let of_job = |job: &JobId, what| Some(Fact::Job(JobAt { job: job.clone(), worker: None }, what));
        let of_pool = |number: &u16, what| Some(Fact::Pool(names.pool(*number), what));
        match event {
            Event::Spawned(id) => of_worker(id, OfWorker::Spawned),
            Event::SpawnFailed(id, why) => of_worker(id, OfWorker::SpawnFailed(why.as_str().into())),
            Event::Ready(id) => of_worker(id, OfWorker::Ready),
            Event::Exited { worker: id, exit, followed } => {
                let (status, oom, followed) = (exit.status, exit.oom, *followed);
                of_worker(id, OfWorker::Exited { status, oom, followed })
            }
            Event::Stuck(id, cause) => of_worker(id, OfWorker::Stuck(cause.as_str().into())),
            Event::Faulty(id, how) => of_worker(id, OfWorker::Faulty(how.as_str().into())),
            Event::Leaving(id, why) => of_worker(id, OfWorker::Leaves(why.as_str().into())),
            Event::Stands { worker: id, stood, since } => match since {
                Some(since) if since == stood => of_worker(id, OfWorker::Stands(true)),
                Some(_) => None,
                None => of_worker(id, OfWorker::Stands(false)),
            },
            Event::Outgrown(id) => of_worker(id, OfWorker::Outgrown),
            Event::Exceeded { worker: id, job, excess, .. } => {
                in_worker(job, id, OfJob::Exceeded(Box::new(*excess)))
            }
            Event::Finished { worker: id, job, fence, .. } => in_worker(job, id, OfJob::Finished(*fence)),
            Event::Renewed(lease) => of_job(&lease.job, OfJob::Renewed),
            Event::RenewFailed(job, _) => of_job(job, OfJob::RenewFailed),
            Event::Revoked { job, why, .. } => of_job(job, OfJob::Revoked(*why)),
            Event::Settled { job, fence, became } => {
                of_job(job, OfJob::Settled { fence: *fence, accepted: became.is_some() })
            }
            Event::SettleFailed(job, _) => of_job(job, OfJob::SettleFailed),
            Event::Fetched(number, fetched) => of_pool(number, OfPool::fetched(*number, fetched)),
            Event::FetchFailed(number) => of_pool(number, OfPool::FetchFailed { number: *number }),
            Event::Waiting(number, waiting) => of_pool(number, OfPool::Waiting(*waiting)),
            Event::Resized(pool, workers) => {
                Some(Fact::Pool(pool.as_str().into(), OfPool::Resized(*workers)))
            }
            Event::Woken(_) => Some(Fact::Service(OfService::Woken)),
            // The order of a person is logged where it is taken, with its author.
            Event::Change(..) | Event::Stop(_) | Event::Reload(_) => None,
            Event::Knows(..) | Event::Counted(_) | Event::Idle(_) => None,
        }
    }

    /// Hands the row of this fact to `to`.
    pub(super) fn row(&self, voice: Voice, to: &mut dyn FnMut(&Row<'_>)) {
        match self {
            Fact::Worker(worker, what) => what.row(worker, voice, to),
            Fact::Job(at, what) => what.row(at, voice, to),
            Fact::Pool(pool, what) => what.row(pool, to),
            Fact::Service(what) => what.row(to),
        }
    }

    /// The sentence of this fact, with the names of what it is about and of its author.
    pub(super) fn sentence(&self) -> String {
        let mut sentence = String::new();
        self.row(Voice::Named, &mut |row| {
            let by = row.by.map(|by| format!(" ({by})")).unwrap_or_default();
            sentence = row.sentence() + &by;
        });
        sentence
    }

    /// The job that it is about.
    pub(super) fn job(&self) -> Option<&JobId> {
        match self {
            Fact::Job(at, _) => Some(&at.job),
            Fact::Worker(..) | Fact::Pool(..) | Fact::Service(_) => None,
        }
    }

    /// The worker that it is about.
    pub(super) fn worker(&self) -> Option<&WorkerName> {
        match self {
            Fact::Worker(worker, _) => Some(worker),
            Fact::Job(at, _) => at.worker.as_ref(),
            Fact::Pool(..) | Fact::Service(_) => None,
        }
    }

    /// The pool that it is about; None = all pools.
    pub(super) fn pool(&self) -> Option<&str> {
        match self {
            Fact::Pool(pool, _) => Some(pool),
            Fact::Service(OfService::Changed { pool, .. }) => pool.as_deref(),
            Fact::Worker(..) | Fact::Job(..) | Fact::Service(_) => {
                self.worker().map(|worker| &*worker.slot.pool)
            }
        }
    }
}
