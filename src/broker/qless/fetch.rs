//! Writes fetches for the script, and reads the jobs that it gives.

use std::sync::{Arc, PoisonError};

use redis::{Cmd, Value};

use super::life::Life;
use super::reply;
use super::shared::Shared;
use crate::broker::{Error, Fetch};
use crate::model::{Fetched, Instant, Lease, QueueName, Revocation, Take};

/// Writes a fetch called `name`, for workers whose names begin with `workers`. `unheard` are earlier fetches whose
/// replies were lost.
pub(super) fn write(cmd: &mut Cmd, request: &Fetch, workers: &str, name: &str, unheard: &[String]) {
    cmd.arg(request.instance.as_str()).arg(name).arg(unheard.len()).arg(unheard);
    cmd.arg(request.lease.as_secs_f64()).arg(match request.take {
        Take::InOrder => "order",
        Take::InTurn => "turn",
    });
    for names in [&request.filter.only, &request.filter.except] {
        cmd.arg(names.len());
        for name in names {
            cmd.arg(name.as_str());
        }
    }
    cmd.arg(request.queues.len());
    for queue in &request.queues {
        cmd.arg(queue.as_str());
    }
    cmd.arg(request.workers.len());
    for worker in &request.workers {
        let life = Life::new(request.pool.clone(), *worker);
        cmd.arg(format!("{workers}{}", life.name.slot));
        cmd.arg(serde_json::to_string(&life).unwrap_or_default());
    }
}

/// Logs keys that have another type than those of jobs and queues, or content that the script cannot use. If such a key
/// belongs to a queue, no job can be fetched from that queue.
pub(super) fn tell_odd(shared: &Shared, queues: &[QueueName], keys: Vec<Value>) -> Result<(), Error> {
    /// Most keys to remember.
    const MANY: usize = 1000;
    let mut spoiled = shared.spoiled.lock().unwrap_or_else(PoisonError::into_inner);
    spoiled.retain(|queue, _| !queues.contains(queue));
    for odd in keys {
        let [key, kind] = reply::parts(odd)?.map(|text| reply::text(&text).unwrap_or_default());
        if let Some(queue) = queues.iter().find(|queue| is_of(&key, queue)) {
            let why = format!(
                "no job can be fetched from queue '{queue}': another program has spoiled the key {key} ({kind}); \
                 `redis-cli DEL` removes it"
            );
            spoiled.insert(queue.clone(), why);
        }
        let mut told = shared.odd.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < MANY && told.insert(key.clone()) {
            tracing::warn!(
                key,
                kind,
                "another program has spoiled a key; what it is for is passed over, or mended"
            );
        }
    }
    Ok(())
}

/// Whether a key is one of the queue's.
fn is_of(key: &str, queue: &QueueName) -> bool {
    let rest = key.strip_prefix("ql:q:").and_then(|rest| rest.strip_prefix(queue.as_str()));
    rest.is_some_and(|rest| {
        ["", "-work", "-locks", "-scheduled", "-depends", "-recur", "-throttled"].contains(&rest)
    })
}

/// Jobs that were given to us. From now on messages about them are followed.
pub(super) fn granted(shared: &Shared, jobs: Vec<Value>, expires_at: Instant) -> Vec<Fetched> {
    let mut fetched = Vec::new();
    for job in jobs {
        // A job that cannot be read does not lose the others: its lease expires, and after five times it is held.
        let Ok((job, fence)) =
            reply::given(job).inspect_err(|error| tracing::warn!(%error, "a job is passed over"))
        else {
            continue;
        };
        let (lost, early) = shared.holds.granted(&job.id, fence, shared.link.now());
        if let Some(lost) = lost {
            shared.revoke(job.id.clone(), lost, Revocation::LockLost);
        }
        if early {
            shared.verify(vec![(job.id.clone(), fence)], false);
        }
        let lease = Lease { job: job.id.clone(), fence, expires_at };
        fetched.push(Fetched { job: Arc::new(job), lease });
    }
    fetched
}
