//! Jobs come in.

use std::borrow::Cow;
use std::collections::HashSet;
use std::time::Duration;

use rusqlite::{OptionalExtension, params};
use uuid::Uuid;

use super::store::Store;
use super::trouble::Trouble;
use crate::broker::Error;
use crate::model::{Instant, JobId, JobState, NewJob, Payload, What};

/// A larger payload has a row of its own.
const INLINE_MAX: usize = 1024;

pub(super) fn enqueue(store: &mut Store, jobs: &[NewJob], now: Instant) -> Result<Vec<JobId>, Trouble> {
    check(store, jobs)?;
    let now = store.millis(now);
    jobs.iter().map(|job| insert(store, job, now)).collect()
}

/// All or none: every id is checked before the first job is written.
fn check(store: &Store, jobs: &[NewJob]) -> Result<(), Trouble> {
    let mut seen = HashSet::new();
    for id in jobs.iter().filter_map(|job| job.id.as_ref()) {
        if id.as_str().is_empty() {
            return Err(Error::Refused("a job's id cannot be empty".into()).into());
        }
        let mut statement = store.conn.prepare_cached("SELECT 1 FROM job WHERE jid = ?1")?;
        let exists = statement.query_row([id.as_str()], |_| Ok(())).optional()?.is_some();
        if exists || !seen.insert(id) {
            return Err(Error::Exists(id.clone()).into());
        }
    }
    Ok(())
}

pub(super) fn insert(store: &mut Store, job: &NewJob, now: i64) -> Result<JobId, Trouble> {
    let id = job.id.clone().unwrap_or_else(|| Uuid::now_v7().simple().to_string().into());
    let queue = store.queue_made(&job.queue)?;
    let due = (!job.delay.is_zero()).then(|| now.saturating_add(millis_up(job.delay)));
    let state = if due.is_some() { JobState::Delayed } else { JobState::Waiting };
    let (is_program, data) = encoded(&job.payload)?;
    let inline = (data.len() <= INLINE_MAX).then_some(&*data);
    let tags = (!job.tags.is_empty()).then(|| serde_json::to_string(&job.tags)).transpose()?;
    let (retry, limit) = (job.retry, job.time_limit.map(nanos));
    let (delay, cap) = (retry.map(|retry| nanos(retry.delay)), retry.map(|retry| nanos(retry.cap)));
    let retries = retry.map(|retry| retry.retries);
    let (jid, class) = (id.as_str(), job.class.as_str());
    store
        .conn
        .prepare_cached(
            "INSERT INTO job (jid, queue, state, priority, put_at, due_at, class, kind, payload, tags, retries,
             delay_ns, cap_ns, limit_ns, put_by)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
        )?
        .execute(params![
            jid, queue, state as i64, job.priority, now, due, class, is_program, inline, tags, retries, delay,
            cap, limit, job.by
        ])?;
    if inline.is_none() {
        let row = store.conn.last_insert_rowid();
        store
            .conn
            .prepare_cached("INSERT INTO body (job, data) VALUES (?1, ?2)")?
            .execute(params![row, data])?;
    }
    if let Some(due) = due {
        store.expect(due);
    }
    store.moved(queue, None, state);
    if state == JobState::Waiting {
        store.barren.put(queue, &job.class);
    }
    store.happened(&id, queue, What::Put, state)?;
    Ok(id)
}

/// A payload as it is kept: whether it is a program, and its bytes.
fn encoded(payload: &Payload) -> Result<(bool, Cow<'_, [u8]>), Trouble> {
    match payload {
        Payload::Exec(exec) => Ok((true, serde_json::to_vec(exec)?.into())),
        Payload::Data(bytes) => Ok((false, bytes.0.as_slice().into())),
    }
}

/// Rounded up: nothing is due early.
pub(super) fn millis_up(wait: Duration) -> i64 {
    i64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

fn nanos(wait: Duration) -> i64 {
    i64::try_from(wait.as_nanos()).unwrap_or(i64::MAX)
}
