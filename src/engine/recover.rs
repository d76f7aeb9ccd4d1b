//! What an earlier supervisor left: ends that nobody settled, leases that nobody holds any more.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use tracing::{info, warn};

use super::outside::Outside;
use crate::broker::{Error, Verbs};
use crate::model::{
    Fence, Forensics, Job, JobId, JobRecord, Outcome, Payload, Settlement, Verdict, WorkerId,
};
use crate::process::{JobEnd, Letter, Remains, Word};
use crate::wire::keeper::{Order, Report};

/// Settles what ended well before the last supervisor died, then releases the rest, unspent.
pub async fn recover(outside: &mut Outside, left: Vec<Letter>) -> io::Result<()> {
    let broker = outside.broker.clone();
    let failed = |error: Error| io::Error::other(error.to_string());
    let held = if left.is_empty() { Ok(Vec::new()) } else { broker.held_by(outside.instance.clone()).await };
    let held = match held {
        Ok(held) => held,
        Err(error) => {
            warn!(%error, "how the jobs of the last supervisor ended cannot be settled; they run again");
            Vec::new()
        }
    };
    // A worker that lives on may be written down with several: those taken ahead of the one it ran. Which one its end is of
    // only its own words could tell.
    let mut jobs: HashMap<WorkerId, Vec<(JobId, Fence)>> = HashMap::new();
    for (job, fence, worker) in held {
        jobs.entry(worker).or_default().push((job, fence));
    }
    for (report, descriptors) in left {
        let Report::Left(worker, exit) = report else { continue };
        outside.link.order_later(Order::Forget(worker));
        let Some([(id, fence)]) = jobs.remove(&worker).map(<[_; 1]>::try_from).and_then(Result::ok) else {
            continue;
        };
        let Some(record) = broker.get(id.clone()).await.map_err(failed)? else { continue };
        let Some(job) = job(record) else { continue };
        if let Err(error) = outside.children.adopt(worker, descriptors, Arc::new(job), fence) {
            warn!(job = %id, %error, "its end cannot be read; it runs again");
            continue;
        }
        let Some(end) = last_end(outside.children.ended(worker, &exit)) else { continue };
        let Some(Outcome::Complete { result, next }) = end.outcome else { continue };
        info!(job = %id, "it had completed before the last supervisor died");
        let forensics = Forensics {
            worker: Some(worker),
            exit: Some(exit),
            stderr_tail: end.stderr_tail,
            ..Default::default()
        };
        let verdict = Verdict::Complete { result, next };
        let settlement = Settlement { job: id, fence, verdict, crashed: false, forensics: Some(forensics) };
        broker.settle(vec![settlement]).await.map_err(failed)?;
    }
    let released = broker.recover(outside.instance.clone(), Vec::new()).await.map_err(failed)?;
    if released > 0 {
        warn!(released, "jobs of the last supervisor were not settled; they wait again, unspent");
    }
    Ok(())
}

/// How its job ended: what the worker said of it, or what its own end says.
fn last_end(remains: Remains) -> Option<JobEnd> {
    let said = remains.words.into_iter().filter_map(|word| match word {
        Word::Finished(_, end) => Some(end),
        Word::Ready(_) | Word::Knows(..) | Word::Progress(..) | Word::Call(..) => None,
        Word::Faulty(..) | Word::Found(_) => None,
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
