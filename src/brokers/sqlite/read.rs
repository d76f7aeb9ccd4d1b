//! Reads: one job, pages of jobs, counts.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, Row, params};

use super::columns::{duration, instance, json, kept, moment, retry, state, worker};
use super::store::Store;
use super::trouble::Trouble;
use super::{figures, history, needs, unreadable};
use broker::Error;
use common::stored;
use model::verb::FindJobs;
use model::{
    Bytes, Class, Day, Fence, Instant, JobId, JobRecord, JobState, Millis, OptionName, Pause, Payload,
    QueueCounts, QueueName,
};

/// Limit of the dependents shown with a job.
const DEPENDENTS: u32 = 1000;

/// The columns [`record`] reads.
pub(super) const RECORD: &str = "job.id, jid, queue.name, class, state, priority, tags, attempt, retries, delay_ns, cap_ns,
    limit_ns, crashes, interrupted, put_at, coalesce(due_at, not_before), started_at, ended_at, instance, worker, fence, result, failure,
    forensics, unknown, progress, put_by, renewals, renewed_at, expires_at,
    EXISTS (SELECT 1 FROM tracked WHERE tracked.job = job.id),
    (SELECT name FROM recurring WHERE recurring.id = job.recurring), pool,
    (SELECT at FROM unbegun WHERE unbegun.job = job.id AND state IN (0, 1, 8) AND attempt = 0)";

/// The ids that begin this way, in their order: a few steps in the index.
pub(super) fn find(store: &Store, prefix: &str) -> Result<Vec<JobId>, Trouble> {
    let mut statement = store
        .conn
        .prepare_cached("SELECT jid FROM job WHERE jid >= ?1 AND jid < ?2 ORDER BY jid LIMIT ?3")?;
    // No character sorts behind this one, so the index gives the range. LIKE could not use it, as it ignores case.
    let end = format!("{prefix}{}", char::MAX);
    let found = statement.query_map(params![prefix, end, FindJobs::MOST], |row| row.get::<_, String>(0))?;
    Ok(found.map(|id| id.map(Into::into)).collect::<Result<_, _>>()?)
}

pub(super) fn get(store: &Store, id: &JobId) -> Result<JobRecord, Trouble> {
    let mut statement = store.conn.prepare_cached(&format!(
        "SELECT {RECORD}, kind, payload FROM job JOIN queue ON queue.id = job.queue WHERE jid = ?1"
    ))?;
    let mut rows = statement.query([id.as_str()])?;
    let row = rows.next()?.ok_or_else(|| Error::NoJob(id.clone()))?;
    let place = row.get(0)?;
    // RECORD has 34 columns; `kind` and `payload` follow.
    let shown = match payload(store, place, row, 34) {
        Ok(payload) => JobRecord { payload: Some(payload), ..record(row)? },
        Err(trouble) => remains_if_unreadable(row, trouble)?,
    };
    Ok(JobRecord {
        history: history::of(store, place)?,
        needs: needs::of(store, place)?,
        needed_by: needs::dependents(store, place, DEPENDENTS)?,
        ..shown
    })
}

/// How many jobs come before it in its queue, by the order of the index.
pub(super) fn before(store: &Store, id: &JobId) -> Result<u64, Trouble> {
    let (row, queue, _) = store.place(id)?;
    // A million may come before it: it counts no further than to 1,000.
    let mut statement = store.conn.prepare_cached(
        "SELECT count(*) FROM (SELECT 1 FROM job JOIN (SELECT priority AS own FROM job WHERE id = ?1)
         WHERE state = 0 AND queue = ?2 AND (priority > own OR (priority = own AND id < ?1)) LIMIT 1000)",
    )?;
    Ok(statement.query_row([row, queue], |row| row.get(0))?)
}

pub(super) fn counts(store: &mut Store, now: Instant) -> Result<BTreeMap<QueueName, QueueCounts>, Trouble> {
    // What this transaction has changed so far is counted in memory until its commit.
    store.write_counts()?;
    let day = Day::of(Millis(store.millis(now)));
    let mut statement = store.conn.prepare_cached(
        "SELECT id, name, paused_at, paused_by, reason, waiting, delayed, running, canceling, complete, failed, held,
         canceled, depends FROM queue",
    )?;
    let mut rows = statement.query([])?;
    let mut counts = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let mut jobs = BTreeMap::new();
        for state in JobState::ALL {
            jobs.insert(state, row.get::<_, u64>(5 + state as usize)?);
        }
        jobs.retain(|_, count| *count > 0);
        let since: Option<i64> = row.get(2)?;
        let by: Option<String> = row.get(3)?;
        let reason = row.get(4)?;
        let paused = since.map(|since| Pause { since: Millis(since), by: by.unwrap_or_default(), reason });
        let queue = row.get(0)?;
        let oldest_waiting = oldest_waiting(store, queue)?;
        let today = figures::on_day(store, queue, day)?.in_sums();
        let counted = QueueCounts { jobs, oldest_waiting, paused, today, ..QueueCounts::default() };
        counts.insert(QueueName::from(row.get::<_, String>(1)?), counted);
    }
    drop(rows);
    drop(statement);
    let options = store.options()?;
    for (name, counted) in &mut counts {
        let most = options.count(Some(name), OptionName::MaxConcurrency);
        counted.max_concurrency = Some(most).filter(|most| *most > 0);
    }
    Ok(counts)
}

/// The oldest waiting job is the first of its priority: one step in the index for each priority.
fn oldest_waiting(store: &Store, queue: i64) -> Result<Option<Millis>, Trouble> {
    // Priorities are any numbers. With more of them the age shown may be too low, and the read stays short.
    const PRIORITIES_MAX: usize = 64;
    let mut statement = store.conn.prepare_cached(
        "SELECT priority, put_at FROM job WHERE state = 0 AND queue = ?1 AND priority < ?2
         ORDER BY priority DESC, id LIMIT 1",
    )?;
    let mut oldest = None;
    let mut below = i64::MAX;
    for _ in 0..PRIORITIES_MAX {
        let first = statement.query_row([queue, below], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let Some((priority, put_at)) = first else { break };
        below = priority;
        oldest = Some(oldest.map_or(put_at, |oldest: i64| oldest.min(put_at)));
    }
    Ok(oldest.map(Millis))
}

/// A job, or what can be read of it: it must not hide the others of a list.
pub(super) fn record(row: &Row<'_>) -> Result<JobRecord, Trouble> {
    whole_record(row).or_else(|trouble| remains_if_unreadable(row, trouble))
}

fn remains_if_unreadable(row: &Row<'_>, trouble: Trouble) -> Result<JobRecord, Trouble> {
    match unreadable::fault(&trouble) {
        Some(why) => unreadable::remains(row, why),
        None => Err(trouble),
    }
}

fn whole_record(row: &Row<'_>) -> Result<JobRecord, Trouble> {
    let state = state(row.get(4)?);
    Ok(JobRecord {
        id: row.get::<_, String>(1)?.into(),
        queue: row.get::<_, String>(2)?.into(),
        class: row.get_ref(3)?.as_str().unwrap_or_default().into(),
        payload: None,
        title: None,
        state,
        priority: row.get(5)?,
        tags: json(row, 6)?.unwrap_or_default(),
        attempt: row.get(7)?,
        retry: retry(row, 8)?,
        time_limit: duration(row, 11)?,
        crashes: row.get(12)?,
        interrupted: row.get(13)?,
        unknown: row.get(24)?,
        progress: kept(row, 25)?,
        put_at: Millis(row.get(14)?),
        dead_letter: None,
        put_by: row.get(26)?,
        recurring: row.get(31)?,
        due_at: moment(row, 15)?,
        begin_by: moment(row, 33)?,
        started_at: moment(row, 16)?,
        ended_at: moment(row, 17)?,
        // Of a job that waits again its history knows it.
        instance: instance(row, 18)?.filter(|_| state.is_leased() || state.has_ended()),
        holder: None,
        worker: worker(row, 19, 32)?,
        fence: Fence(row.get(20)?),
        renewals: row.get(27)?,
        renewed_at: moment(row, 28)?,
        expires_at: moment(row, 29)?,
        result: row.get(21)?,
        failure: kept(row, 22)?,
        forensics: kept(row, 23)?,
        tracked: row.get(30)?,
        needs: Vec::new(),
        needed_by: Vec::new(),
        history: Vec::new(),
    })
}

/// The title that lists show, from the two columns `kind` and `payload`, the latter only if it is short.
pub(super) fn title(store: &Store, row: &Row<'_>, column: usize, class: &Class) -> Option<String> {
    let data = row.get_ref(column + 1).ok()?.as_blob_or_null().ok().flatten()?;
    let payload = match row.get(column).ok()? {
        true => Payload::Exec(stored::from_json(data).ok()?),
        false => Payload::Data(Bytes(data.to_vec())),
    };
    Some((store.world.title)(class, &payload))
}

/// The payload, from the two columns `kind` and `payload`, or from the row of its own.
pub(super) fn payload(store: &Store, id: i64, row: &Row<'_>, column: usize) -> Result<Payload, Trouble> {
    let data = match row.get_ref(column + 1)?.as_blob_or_null().ok().flatten() {
        Some(data) => data.to_vec(),
        None => store
            .conn
            .prepare_cached("SELECT data FROM body WHERE job = ?1")?
            .query_row([id], |row| row.get(0))?,
    };
    if row.get(column)? {
        Ok(Payload::Exec(stored::from_json(&data)?))
    } else {
        Ok(Payload::Data(Bytes(data)))
    }
}
