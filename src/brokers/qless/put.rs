//! New jobs in the form that the script takes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use redis::Cmd;
use uuid::Uuid;

use broker::Error;
use common::{circle, stored};
use model::{Exists, JobId, NewJob, Payload, Retry, batch_fault};

/// Refuses jobs that cannot be put, as far as that is known without the server.
pub(super) fn check(jobs: &[NewJob]) -> Result<(), Error> {
    if let Some(fault) = batch_fault(jobs) {
        return Err(Error::Refused(fault));
    }
    // Only within a batch can there be a circle: no job that is there already needs a new one.
    let mut batch: BTreeMap<&JobId, Vec<&JobId>> =
        jobs.iter().filter_map(|job| Some((job.id.as_ref()?, Vec::new()))).collect();
    for job in jobs {
        for need in &job.depends {
            let is_of_batch = batch.contains_key(need);
            let needs = job.id.as_ref().and_then(|id| batch.get_mut(id));
            if let Some(needs) = needs.filter(|needs| is_of_batch && !needs.contains(&need)) {
                needs.push(need);
            }
        }
    }
    circle::refuse_among(&batch)
}

/// Adds a token to a job, by which the script recognizes a repeated put.
pub(super) fn with_token(job: NewJob) -> NewJob {
    // An id that is made here shows a repeated put by itself, and with `Skip` a repeat does no harm.
    let makes_one = job.id.is_some() && job.exists == Exists::Refuse && job.token.is_none();
    let token = if makes_one { Some(Uuid::now_v7().simple().to_string()) } else { job.token };
    NewJob { token, ..job }
}

/// Writes the jobs with their ids.
pub(super) fn write(cmd: &mut Cmd, jobs: &[NewJob], ids: &[JobId]) {
    let by = jobs.first().and_then(|job| job.by.as_deref()).unwrap_or_default();
    cmd.arg(by).arg(jobs.len());
    for (job, id) in jobs.iter().zip(ids) {
        write_one(cmd, job, id);
    }
}

/// Writes a job with its id.
pub(super) fn write_one(cmd: &mut Cmd, job: &NewJob, id: &JobId) {
    cmd.arg(id.as_str());
    // If the id was made here, a job that has it came from this same put, whose reply was lost.
    cmd.arg(if job.exists == Exists::Skip || job.id.is_none() { "skip" } else { "refuse" });
    cmd.arg(job.queue.as_str()).arg(job.class.as_str()).arg(&*data(&job.payload)).arg(job.priority);
    cmd.arg(job.delay.as_secs_f64()).arg(serde_json::to_string(&job.tags).unwrap_or_default());
    cmd.arg(job.retry.unwrap_or(Retry::CLASS).retries);
    let more = more(job);
    cmd.arg(more.len() * 2);
    for (name, value) in more {
        cmd.arg(name).arg(value);
    }
    cmd.arg(job.depends.len());
    for need in &job.depends {
        cmd.arg(need.as_str());
    }
}

/// The data of a job; a program is stored as JSON.
fn data(payload: &Payload) -> Cow<'_, [u8]> {
    match payload {
        Payload::Exec(exec) => stored::to_json(exec).unwrap_or_default().into_bytes().into(),
        Payload::Data(bytes) => bytes.0.as_slice().into(),
    }
}

/// The fields that qless does not have.
fn more(job: &NewJob) -> Vec<(&'static str, String)> {
    // Without a retry policy of its own, a job has that of its pool, and not the default of qless.
    let policy = job.retry.map_or_else(String::new, |retry| stored::to_json(&retry).unwrap_or_default());
    let mut more = vec![("policy", policy)];
    if let Some(token) = &job.token {
        more.push(("token", token.clone()));
    }
    if let Some(limit) = job.time_limit {
        more.push(("limit", limit.as_nanos().to_string()));
    }
    if let Some(expires) = job.expires {
        more.push(("begin_within", expires.as_millis().to_string()));
    }
    if matches!(job.payload, Payload::Exec(_)) {
        more.push(("exec", "1".into()));
    }
    more
}
