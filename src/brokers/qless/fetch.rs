//! Writes fetches for the script, and reads the jobs that it gives.

use std::sync::{Arc, PoisonError};

use redis::{Cmd, Value};

use super::life::Life;
use super::reply;
use super::shared::Shared;
use broker::{Error, Fetch};
use model::{Fetched, Instant, Lease, QueueName, Revocation, Take};

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

/// The parts of the answer to a fetch: when something is due, the jobs, odd keys, and whether a queue is full.
pub(super) fn read(answer: Value) -> Result<(Value, Vec<Value>, Value, Value), Error> {
    let [due, jobs, odd, full] = reply::parts(answer)?;
    Ok((due, reply::array(jobs)?, odd, full))
}

/// Logs keys that have another type than those of jobs and queues, or content that the script cannot use. Each comes with
/// the queue of which something has to wait for it, `*` for all, and the job if only that one has to.
pub(super) fn tell_odd(shared: &Shared, queues: &[QueueName], keys: Value) {
    /// Limit of the remembered keys.
    const MANY: usize = 1000;
    let mut spoiled = shared.spoiled.lock().unwrap_or_else(PoisonError::into_inner);
    // This fetch has looked at its queues: what was wrong in them may be mended.
    spoiled.retain(|queue, _| !queues.contains(queue));
    for odd in reply::array(keys).unwrap_or_default() {
        // It is only a line of the log: the jobs beside it are handed out.
        let Ok(parts) = reply::parts(odd) else { continue };
        let [key, kind, of, job] = parts.map(|text| reply::text(&text).unwrap_or_default());
        for queue in queues.iter().filter(|queue| of == "*" || of == queue.as_str()) {
            let why = format!(
                "{}: another program has spoiled the key {key} ({kind}); `redis-cli DEL` removes it",
                what_waits(queue, &job, &key)
            );
            spoiled.entry(queue.clone()).or_insert(why);
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
}

/// What cannot be done in a queue because of a key.
fn what_waits(queue: &QueueName, job: &str, key: &str) -> String {
    if !job.is_empty() {
        return format!("job '{job}' of queue '{queue}' has to wait");
    }
    match key.strip_prefix("ql:q:").and_then(|rest| rest.strip_prefix(queue.as_str())) {
        Some("-recur") => format!("no recurring job can be put into queue '{queue}'"),
        Some("-scheduled") => format!("no delayed job of queue '{queue}' can run"),
        _ => format!("no job can be fetched from queue '{queue}'"),
    }
}

/// Jobs that were given to us. From now on messages about them are followed.
pub(super) fn granted(shared: &Shared, jobs: Vec<Value>, expires_at: Instant) -> Vec<Fetched> {
    let mut fetched = Vec::new();
    for job in jobs {
        // A job that cannot be read does not lose the others: its lease expires, and after five times it is held.
        let Ok((job, fence, waited)) =
            reply::given(job).inspect_err(|error| tracing::warn!(%error, "a job is passed over"))
        else {
            continue;
        };
        let (lost, early) = shared.holds.granted(&job.id, fence, shared.link.now());
        // The job was ours before, and nobody has reported the end of that lease.
        if let Some(lost) = lost {
            shared.revoke(job.id.clone(), lost, Revocation::LockLost);
        }
        // A message that came before this answer may be about this very lease.
        if early {
            shared.verify(vec![(job.id.clone(), fence)], false);
        }
        let lease = Lease { job: job.id.clone(), fence, expires_at };
        fetched.push(Fetched { job: Arc::new(job), lease, waited });
    }
    fetched
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_of_an_odd_form_counts_as_lost() {
        let answer = |jobs: Value| Value::Array(vec![Value::Nil, jobs, Value::Int(7), Value::Nil]);
        assert!(read(answer(Value::Array(Vec::new()))).is_ok() && read(answer(Value::Nil)).is_ok());
        for odd in [answer(Value::Int(1)), Value::Int(1), Value::Array(Vec::new())] {
            assert!(read(odd).is_err());
        }
    }
}
