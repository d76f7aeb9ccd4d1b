//! Puts new jobs.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use rusqlite::{OptionalExtension, params};
use uuid::Uuid;

use super::store::Store;
use super::trouble::Trouble;
use super::{needs, tasks, unbegun};
use broker::{Error, Fetch};
use common::{circle, stored};
use model::{
    Exists, Fence, Instant, JobId, JobState, NewJob, Payload, What, WorkerId, batch_fault, millis_up,
};

/// Longest payload in the job's own row, in bytes; a longer one has a row of its own.
const INLINE_MAX: usize = 1024;

pub(super) fn enqueue(store: &mut Store, jobs: &[NewJob], now: Instant) -> Result<Vec<JobId>, Trouble> {
    let plans = plans(store, jobs)?;
    let now = store.millis(now);
    let mut ids = Vec::with_capacity(jobs.len());
    let mut dependents = Vec::new();
    for Plan { job, id, exists, waits } in plans {
        if !exists {
            let row = insert(store, job, &id, (waits, None), now)?;
            dependents.extend(waits.then_some((row, &job.depends)));
        }
        ids.push(id);
    }
    // A job may need another one that comes later in the batch.
    for (row, needed) in dependents {
        needs::write(store, row, needed)?;
    }
    Ok(ids)
}

/// What to do with a new job.
struct Plan<'a> {
    job: &'a NewJob,
    id: JobId,
    /// Whether the job exists already, and that is allowed.
    exists: bool,
    /// Whether it needs others that are not complete.
    waits: bool,
}

/// Checks every job before the first one is written: all are put, or none.
fn plans<'a>(store: &Store, jobs: &'a [NewJob]) -> Result<Vec<Plan<'a>>, Trouble> {
    if let Some(fault) = batch_fault(jobs) {
        return Err(Error::Refused(fault).into());
    }
    let mut seen = HashSet::new();
    let mut plans = Vec::with_capacity(jobs.len());
    for job in jobs {
        if let Some(fault) = job.fault() {
            return Err(Error::Refused(fault).into());
        }
        let exists = match &job.id {
            Some(id) => exists(store, job, id, !seen.insert(id))?,
            None => false,
        };
        // These ids begin with the time: new ones go to the end of the index, and touch few of its pages.
        let id = job.id.clone().unwrap_or_else(|| Uuid::now_v7().simple().to_string().into());
        plans.push(Plan { job, id, exists, waits: false });
    }
    if jobs.iter().any(|job| !job.depends.is_empty()) {
        plan_needs(store, &mut plans)?;
    }
    Ok(plans)
}

/// Whether the id exists already, in the store or in the batch; refused if it must not. It may if this same put has
/// made it, and its reply was lost.
fn exists(store: &Store, job: &NewJob, id: &JobId, in_batch: bool) -> Result<bool, Trouble> {
    let mut statement = store.conn.prepare_cached("SELECT token FROM job WHERE jid = ?1")?;
    let found = statement.query_row([id.as_str()], |row| row.get::<_, Option<String>>(0)).optional()?;
    let is_own = || job.token.is_some() && found.as_ref() == Some(&job.token) && !in_batch;
    match in_batch || found.is_some() {
        true if job.exists == Exists::Refuse && !is_own() => Err(Error::Exists(id.clone()).into()),
        exists => Ok(exists),
    }
}

/// Finds which jobs must wait for which. A job may need jobs of its batch that come with an id of their own.
fn plan_needs(store: &Store, plans: &mut [Plan<'_>]) -> Result<(), Trouble> {
    let fresh = || plans.iter().filter(|plan| !plan.exists);
    let mut batch: BTreeMap<&JobId, Vec<&JobId>> =
        fresh().filter_map(|plan| Some((plan.job.id.as_ref()?, Vec::new()))).collect();
    let mut waiting = HashSet::new();
    for plan in fresh() {
        for need in &plan.job.depends {
            let is_of_batch = batch.contains_key(need);
            if is_of_batch || needs::must_be_waited_for(store, need)? {
                waiting.insert(plan.id.clone());
            }
            if let Some(needs) = batch.get_mut(&plan.id).filter(|needs| is_of_batch && !needs.contains(&need))
            {
                needs.push(need);
            }
        }
    }
    circle::refuse_among(&batch)?;
    plans.iter_mut().for_each(|plan| plan.waits = !plan.exists && waiting.contains(&plan.id));
    Ok(())
}

/// The lease of a job that is already running when it is put.
pub(super) struct Granted<'a> {
    pub(super) request: &'a Fetch,
    pub(super) worker: WorkerId,
    pub(super) fence: Fence,
    pub(super) attempt: u32,
    /// When the job was put.
    pub(super) put_at: i64,
}

pub(super) fn insert(
    store: &mut Store,
    job: &NewJob,
    id: &JobId,
    (waits, granted): (bool, Option<&Granted<'_>>),
    now: i64,
) -> Result<i64, Trouble> {
    let queue = store.queue_made(&job.queue)?;
    let due = (!job.delay.is_zero()).then(|| now.saturating_add(millis_up(job.delay)));
    let (state, due, not_before) = match due {
        _ if granted.is_some() => (JobState::Running, None, None),
        // The delay counts from now on, and goes on while the job waits for others.
        _ if waits => (JobState::Depends, None, due),
        Some(_) => (JobState::Delayed, due, None),
        None => (JobState::Waiting, None, None),
    };
    let (is_program, data) = encoded(&job.payload)?;
    let inline = (data.len() <= INLINE_MAX).then_some(&*data);
    let tags = (!job.tags.is_empty()).then(|| serde_json::to_string(&job.tags)).transpose()?;
    let (retry, limit) = (job.retry, job.time_limit.map(nanos));
    let (delay, cap) = (retry.map(|retry| nanos(retry.delay)), retry.map(|retry| nanos(retry.cap)));
    let retries = retry.map(|retry| retry.retries);
    let (jid, class, scope) = (id.as_str(), job.class.as_str(), tasks::scope(id.as_str()));
    if scope.is_some() {
        tasks::count_from_now_on(store)?;
    }
    store
        .conn
        .prepare_cached(
            "INSERT INTO job (jid, queue, state, priority, put_at, due_at, class, kind, payload, tags, retries,
             delay_ns, cap_ns, limit_ns, put_by, not_before, token, scope,
             fence, attempt, instance, worker, pool, started_at, expires_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,
             ?19, ?20, ?21, ?22, ?23, ?24, ?25)",
        )?
        .execute(params![
            jid, queue, state as i64, job.priority, granted.map_or(now, |lease| lease.put_at), due, class, is_program, inline, tags, retries, delay,
            cap, limit, job.by, not_before, job.token, scope,
            granted.map_or(0, |lease| lease.fence.0),
            granted.map_or(0, |lease| lease.attempt),
            granted.map(|lease| lease.request.instance.as_str()),
            granted.map(|lease| lease.worker.to_u64() as i64),
            granted.map(|lease| &*lease.request.pool),
            granted.map(|_| now),
            granted.map(|lease| now.saturating_add(millis_up(lease.request.lease))),
        ])?;
    let row = store.conn.last_insert_rowid();
    write_tags(store, row, &job.tags)?;
    if inline.is_none() {
        write_body(store, row, &data)?;
    }
    if let Some(due) = due {
        store.expect(due);
    }
    if let Some(expires) = job.expires.filter(|_| granted.is_none()) {
        unbegun::keep(store, row, now.saturating_add(millis_up(expires)))?;
    }
    store.moved(queue, None, state);
    // A ledger's job is kept by its broker: a ledger that lacks it has lost no promise.
    if granted.is_none() {
        store.counted(queue, id);
    }
    if state == JobState::Waiting {
        store.barren.put(queue, &job.class);
    }
    store.happened_to(id, (&job.queue, &job.class, &job.tags), What::Put, state);
    Ok(row)
}

fn write_body(store: &Store, row: i64, data: &[u8]) -> Result<(), Trouble> {
    store
        .conn
        .prepare_cached("INSERT OR REPLACE INTO body (job, data) VALUES (?1, ?2)")?
        .execute(params![row, data])?;
    Ok(())
}

/// Replaces the data of an existing job.
pub(super) fn replace_data(store: &Store, row: i64, data: &[u8]) -> Result<(), Trouble> {
    let inline = (data.len() <= INLINE_MAX).then_some(data);
    store.conn.prepare_cached("UPDATE job SET payload = ?2 WHERE id = ?1")?.execute(params![row, inline])?;
    match inline {
        Some(_) => drop(store.conn.prepare_cached("DELETE FROM body WHERE job = ?1")?.execute([row])?),
        None => write_body(store, row, data)?,
    }
    Ok(())
}

/// A payload as stored: whether it is a program, and its bytes.
fn encoded(payload: &Payload) -> Result<(bool, Cow<'_, [u8]>), Trouble> {
    match payload {
        Payload::Exec(exec) => Ok((true, stored::to_json(exec)?.into_bytes().into())),
        Payload::Data(bytes) => Ok((false, bytes.0.as_slice().into())),
    }
}

fn nanos(wait: Duration) -> i64 {
    i64::try_from(wait.as_nanos()).unwrap_or(i64::MAX)
}

/// Writes the tags a second time, as an index of jobs by tag.
pub(super) fn write_tags(store: &Store, row: i64, tags: &[String]) -> Result<(), Trouble> {
    for tag in tags {
        store
            .conn
            .prepare_cached("INSERT OR IGNORE INTO tag (tag, job) VALUES (?1, ?2)")?
            .execute(params![tag, row])?;
    }
    Ok(())
}
