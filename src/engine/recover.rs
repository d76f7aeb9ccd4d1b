//! Takes over from an earlier supervisor: ends of jobs that it did not settle, and leases that it held.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tracing::{info, warn};

use super::effects::Effects;
use broker::{Error, Renewal};
use model::{
    Exit, Fence, Fetched, Forensics, Job, JobId, JobRecord, Lease, Outcome, Payload, Settlement, Unproven,
    Verdict, WorkerId,
};
use process::{JobEnd, KeeperMessage, Remains, WorkerEvent, unkillable_cause};
use wire::keeper::{Order, Report};

/// Settles the jobs that completed before the last supervisor died, and releases the rest, unspent. The jobs of lives
/// of which a process still lives keep their leases, and are returned with those lives.
pub(crate) async fn recover(
    effects: &mut Effects,
    mut left: Vec<KeeperMessage>,
) -> io::Result<Vec<Unproven>> {
    let broker = effects.calls.broker().clone();
    let mut held = held(effects, &left).await?;
    let (mut unproven, mut keep) = (Vec::new(), Vec::new());
    // Reports on ended lives come first: the jobs that then remain for a slot belong to its life that does not die.
    left.sort_by_key(|(report, _)| matches!(report, Report::Stuck(..)));
    for (report, descriptors) in left {
        match report {
            Report::Left(worker, exit) => {
                effects.link.order_later(Order::Forget(worker));
                // The broker may have recorded several jobs for this life: those fetched ahead of the one it ran. Only
                // the worker's own report could tell which one ended.
                let only = held.remove(&worker).map(<[_; 1]>::try_from).and_then(Result::ok);
                if let Some([(id, fence)]) = only {
                    settle(effects, worker, exit, descriptors, (id, fence)).await?;
                }
            }
            Report::Stuck(worker, pid) => {
                let cause = unkillable_cause(pid);
                warn!(why = cause, "a process of the last supervisor's jobs does not die");
                let jobs = hold_on(effects, take_of_slot(&mut held, worker)).await?;
                keep.extend(jobs.iter().map(|job| (job.lease.job.clone(), job.lease.fence)));
                let names = jobs.iter().map(|job| (job.job.clone(), job.lease.fence));
                effects.inherited.insert(worker, names.collect());
                unproven.push(Unproven { worker, cause, jobs });
            }
            Report::Hello(_)
            | Report::Started(..)
            | Report::Born(..)
            | Report::SpawnFailed { .. }
            | Report::Exited { .. }
            | Report::Asked(_)
            | Report::Bounded(_)
            | Report::Ping => {}
        }
    }
    let released = broker.recover(effects.calls.instance().clone(), keep).await.map_err(failed)?;
    if released > 0 {
        warn!(released, "jobs of the last supervisor were not settled; they wait again, unspent");
    }
    Ok(unproven)
}

fn failed(error: Error) -> io::Error {
    io::Error::other(error.to_string())
}

/// The jobs of each life, as the broker has recorded them.
type Held = HashMap<WorkerId, Vec<(JobId, Fence)>>;

/// The jobs that may run in this life: those that the broker has recorded for it and for earlier lives of its slot. A
/// job whose worker died with several runs again in the next life there, under the lease that names the earlier one.
fn take_of_slot(held: &mut Held, worker: WorkerId) -> Vec<(JobId, Fence)> {
    let is_there = |life: &WorkerId| life.slot == worker.slot && life.generation <= worker.generation;
    held.extract_if(|life, _| is_there(life)).flat_map(|(_, jobs)| jobs).collect()
}

/// Asks the broker for the leases of this supervisor, if the keeper has lives left. While a process of a job still
/// lives, it waits until the broker has answered: otherwise the broker could hand out that job to us.
async fn held(effects: &Effects, left: &[KeeperMessage]) -> io::Result<Held> {
    const PAUSE: Duration = Duration::from_secs(1);
    let mut jobs = Held::new();
    if left.is_empty() {
        return Ok(jobs);
    }
    let must_know = left.iter().any(|(report, _)| matches!(report, Report::Stuck(..)));
    let held = loop {
        match effects.calls.broker().held_by(effects.calls.instance().clone()).await {
            Ok(held) => break held,
            Err(error) if must_know => {
                warn!(%error, "failed to ask the broker about jobs that still have a living process; no job starts before it answers");
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => {
                warn!(%error, "failed to settle how the jobs of the last supervisor ended; they run again");
                return Ok(jobs);
            }
        }
    };
    for (job, fence, worker) in held {
        jobs.entry(worker).or_default().push((job, fence));
    }
    Ok(jobs)
}

/// Settles the job of a life that has ended, if the job completed.
async fn settle(
    effects: &mut Effects,
    worker: WorkerId,
    exit: Exit,
    descriptors: Vec<OwnedFd>,
    (id, fence): (JobId, Fence),
) -> io::Result<()> {
    let broker = effects.calls.broker().clone();
    let Some(record) = broker.get(id.clone()).await.map_err(failed)? else { return Ok(()) };
    // The name that the life had then: a pool's number may mean another pool now.
    let name = record.worker.clone();
    let Some(job) = job(record) else { return Ok(()) };
    if let Err(error) = effects.children.adopt(worker, descriptors, Arc::new(job), fence) {
        warn!(job = %id, %error, "the end of a job cannot be read; the job runs again");
        return Ok(());
    }
    let Some(end) = last_end(effects.children.ended(worker, &exit)) else { return Ok(()) };
    let Some(Outcome::Complete { result, next }) = end.outcome else { return Ok(()) };
    info!(job = %id, "a job had completed before the last supervisor died");
    let forensics =
        Forensics { worker: name, exit: Some(exit), stderr_tail: end.stderr_tail, ..Default::default() };
    let verdict = Verdict::Complete { result, next };
    let settlement = Settlement { job: id, fence, verdict, crashed: false, forensics: Some(forensics) };
    broker.settle(vec![settlement]).await.map_err(failed).map(drop)
}

/// Renews the leases of jobs of which a process still lives, and gives the jobs that are still ours.
async fn hold_on(effects: &Effects, jobs: Vec<(JobId, Fence)>) -> io::Result<Vec<Fetched>> {
    let now = clock::now();
    // Only job and fence count here: the answer has the new end.
    let leases = jobs.into_iter().map(|(job, fence)| Lease { job, fence, expires_at: now });
    let leases: Vec<Lease> = leases.collect();
    if leases.is_empty() {
        return Ok(Vec::new());
    }
    let renewals = effects.calls.broker().renew(leases, effects.calls.lease()).await.map_err(failed)?;
    let mut held = Vec::new();
    for renewal in renewals {
        let lease = match renewal {
            Renewal::Renewed(lease) | Renewal::Canceling(lease) => lease,
            Renewal::Lost(_) => continue,
            // Not known to be ours: the keeper starts another supervisor, which asks again.
            Renewal::Failed(error) => return Err(failed(error)),
        };
        let record = effects.calls.broker().get(lease.job.clone()).await.map_err(failed)?;
        held.extend(record.and_then(job).map(|job| Fetched { job: Arc::new(job), lease, waited: None }));
    }
    Ok(held)
}

/// How the job ended: by the worker's report, or else by the exit of its life.
fn last_end(remains: Remains) -> Option<JobEnd> {
    let said = remains.words.into_iter().filter_map(|word| match word {
        WorkerEvent::Finished(_, end) => Some(end),
        WorkerEvent::Ready(_)
        | WorkerEvent::Knows(..)
        | WorkerEvent::Progress { .. }
        | WorkerEvent::Call { .. } => None,
        WorkerEvent::Leaving(..) | WorkerEvent::Faulty(..) => None,
        WorkerEvent::Found(_) | WorkerEvent::Floods(..) => None,
    });
    said.chain(remains.jobs).next()
}

fn job(record: JobRecord) -> Option<Job> {
    let payload: Payload = record.payload?;
    Some(Job {
        id: record.id,
        queue: record.queue,
        class: record.class,
        payload,
        priority: record.priority,
        tags: record.tags,
        attempt: record.attempt,
        crashes: record.crashes,
        interrupted: record.interrupted,
        unknown: record.unknown,
        retry: record.retry,
        time_limit: record.time_limit,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::SlotId;

    #[test]
    fn unkillable_life_may_hold_jobs_of_earlier_lives_of_its_slot() {
        let life = |index, generation| WorkerId { slot: SlotId { pool: 0, index }, generation };
        let job = |name: &str| vec![(JobId::from(name), Fence(1))];
        let lives = [(life(1, 1), job("waited")), (life(1, 3), job("to come")), (life(2, 1), job("beside"))];
        let mut held = Held::from(lives);
        assert_eq!(take_of_slot(&mut held, life(1, 2)), job("waited"));
        assert_eq!(held.len(), 2);
    }
}
