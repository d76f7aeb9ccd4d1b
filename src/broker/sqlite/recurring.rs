//! Recurring jobs as people see and change them. What they do by themselves is in `occur.rs`.

use rusqlite::{OptionalExtension, Row, params};

use super::occur;
use super::read;
use super::store::{Store, state};
use super::trouble::Trouble;
use super::zones;
use crate::broker::Error;
use crate::model::{Instant, LatestJob, Millis, Recurring, RecurringRecord, Schedule, Timetable};

/// What it carries is written whole into each of its jobs, and travels in one request.
const SPEC_MAX: usize = 48 << 10;
/// What `get` tells of the times after the next.
const THEN: usize = 4;

/// A row that is in force.
pub(super) struct InForce {
    pub(super) row: i64,
    pub(super) recurring: Recurring,
    pub(super) next_at: Option<i64>,
    pub(super) count: u64,
    pub(super) latest: Option<i64>,
}

/// The columns [`in_force`] reads.
pub(super) const IN_FORCE: &str = "id, spec, next_at, count, latest";

pub(super) fn in_force(row: &Row<'_>) -> Result<InForce, Trouble> {
    let spec = row.get_ref(1)?.as_str().unwrap_or_default();
    Ok(InForce {
        row: row.get(0)?,
        recurring: serde_json::from_str(spec)?,
        next_at: row.get(2)?,
        count: row.get(3)?,
        latest: row.get(4)?,
    })
}

/// The one of this name.
pub(super) fn find(store: &Store, name: &str) -> Result<Option<InForce>, Trouble> {
    let mut statement = store
        .conn
        .prepare_cached(&format!("SELECT {IN_FORCE} FROM recurring WHERE name = ?1 AND NOT removed"))?;
    let mut rows = statement.query([name])?;
    rows.next()?.map(in_force).transpose()
}

pub(super) fn put(
    store: &mut Store,
    recurring: &Recurring,
    by: &str,
    now: Instant,
) -> Result<RecurringRecord, Trouble> {
    let now = store.millis(now);
    let name = &recurring.name;
    let refused =
        |why: String| Error::Refused(format!("cannot put the recurring job '{}': {why}", shortened(name)));
    if let Some(fault) = recurring.fault() {
        return Err(refused(fault).into());
    }
    let spec = serde_json::to_string(recurring)?;
    if spec.len() > SPEC_MAX {
        let why = format!("with its data it is longer than {} KiB; put the name of a file", SPEC_MAX >> 10);
        return Err(refused(why).into());
    }
    let table = zones::timetable(&recurring.schedule, now).map_err(|error| refused(error.to_string()))?;
    let next = match find(store, name)? {
        Some(before) if before.recurring.schedule == recurring.schedule => before.next_at,
        Some(_) | None => first(store, recurring, &table, now),
    };
    let queue = store.queue_made(&recurring.job.queue)?;
    store
        .conn
        .prepare_cached(
            "INSERT INTO recurring (name, queue, spec, put_at, put_by, by_wall, next_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (name) DO UPDATE SET queue = ?2, spec = ?3, put_at = ?4, put_by = ?5, by_wall = ?6,
             next_at = ?7, skipped = iif(removed, 0, skipped), missed_at = iif(removed, NULL, missed_at), removed = 0",
        )?
        .execute(params![name, queue, spec, now, by, occur::is_by_wall(&recurring.schedule), next])?;
    occur::expect(store)?;
    // Others may be the ones who put its jobs.
    store.effects.ring = true;
    get(store, name)
}

/// When it is due for the first time.
fn first(store: &Store, recurring: &Recurring, table: &Timetable, now: i64) -> Option<i64> {
    match &recurring.schedule {
        Schedule::Every { offset, .. } => Some(now.saturating_add(super::put::millis_up(*offset))),
        Schedule::Cron { .. } => table.after(store.wall_at(now)),
    }
}

/// A name that is too long is not shown whole.
fn shortened(name: &str) -> String {
    name.chars().take(Recurring::NAME_MAX).collect()
}

pub(super) fn remove(store: &mut Store, name: &str) -> Result<(), Trouble> {
    let found = find_row(store, name)?;
    store
        .conn
        .prepare_cached("UPDATE recurring SET removed = 1, next_at = NULL WHERE id = ?1")?
        .execute([found])?;
    Ok(())
}

/// Also of one whose schedule cannot be read any more.
fn find_row(store: &Store, name: &str) -> Result<i64, Trouble> {
    let mut statement =
        store.conn.prepare_cached("SELECT id FROM recurring WHERE name = ?1 AND NOT removed")?;
    let row = statement.query_row([name], |row| row.get(0)).optional()?;
    row.ok_or_else(|| Error::NoRecurring(name.into()).into())
}

/// An error unless there is one of this name, or has been: its jobs stay.
pub(super) fn must_have_been(store: &Store, name: &str) -> Result<(), Trouble> {
    let mut statement = store.conn.prepare_cached("SELECT 1 FROM recurring WHERE name = ?1")?;
    if statement.exists([name])? { Ok(()) } else { Err(Error::NoRecurring(name.into()).into()) }
}

/// The columns [`record`] reads.
const RECORD: &str =
    "spec, recurring.put_at, recurring.put_by, next_at, count, skipped, missed_at, jid, state, job.put_at
    FROM recurring LEFT JOIN job ON job.id = latest AND job.recurring = recurring.id WHERE NOT removed";

pub(super) fn list(store: &Store) -> Result<Vec<RecurringRecord>, Trouble> {
    let mut statement = store.conn.prepare_cached(&format!("SELECT {RECORD} ORDER BY name"))?;
    let mut rows = statement.query([])?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        records.push(record(row)?);
    }
    Ok(records)
}

pub(super) fn get(store: &Store, name: &str) -> Result<RecurringRecord, Trouble> {
    let mut statement = store.conn.prepare_cached(&format!("SELECT {RECORD} AND name = ?1"))?;
    let mut rows = statement.query([name])?;
    let row = rows.next()?.ok_or_else(|| Error::NoRecurring(name.into()))?;
    let mut record = record(row)?;
    if let Some(next) = record.next_at {
        let table = zones::timetable(&record.recurring.schedule, next.0)?;
        let following = |at: &Millis| table.after(at.0).map(Millis);
        record.then_at = std::iter::successors(Some(next), following).skip(1).take(THEN).collect();
    }
    Ok(record)
}

fn record(row: &Row<'_>) -> Result<RecurringRecord, Trouble> {
    let latest: Option<String> = row.get(7)?;
    let latest = match latest {
        Some(id) => Some(LatestJob { id: id.into(), state: state(row.get(8)?), at: Millis(row.get(9)?) }),
        None => None,
    };
    Ok(RecurringRecord {
        recurring: serde_json::from_str(row.get_ref(0)?.as_str().unwrap_or_default())?,
        put_at: Millis(row.get(1)?),
        put_by: row.get(2)?,
        next_at: read::moment(row, 3)?,
        then_at: Vec::new(),
        count: row.get(4)?,
        skipped: row.get(5)?,
        missed_at: read::moment(row, 6)?,
        latest,
    })
}
