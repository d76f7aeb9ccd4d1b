//! Recurring jobs as people see and change them. `occur.rs` fires them.

use rusqlite::{OptionalExtension, Row, params};

use super::columns::{self, state};
use super::occur;
use super::recurring_row::find;
use super::store::Store;
use super::trouble::Trouble;
use broker::Error;
use common::{recurring, stored};
use model::{Instant, LatestJob, Millis, Pause, Recurring, RecurringRecord};

pub(super) fn put(
    store: &mut Store,
    recurring: &Recurring,
    by: &str,
    now: Instant,
) -> Result<RecurringRecord, Trouble> {
    let now = store.millis(now);
    let Recurring { name, schedule, .. } = recurring;
    let spec = recurring::text(recurring)?;
    let by_wall = occur::is_by_wall(schedule);
    let next = match find(store, name)? {
        Some(before) if before.recurring.schedule == *schedule => before.next_at,
        Some(_) | None => recurring::first(schedule, if by_wall { store.wall_at(now) } else { now })?,
    };
    let queue = store.queue_made(&recurring.job.queue)?;
    store
        .conn
        .prepare_cached(
            "INSERT INTO recurring (name, queue, spec, put_at, put_by, by_wall, next_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (name) DO UPDATE SET queue = ?2, spec = ?3, put_at = ?4, put_by = ?5, by_wall = ?6,
             next_at = ?7, skipped = iif(removed, 0, skipped), missed_at = iif(removed, NULL, missed_at),
             paused_at = iif(removed, NULL, paused_at), removed = 0",
        )?
        .execute(params![name, queue, spec, now, by, by_wall, next])?;
    occur::expect(store)?;
    // Another process may be the one that fires it.
    store.effects.ring = true;
    get(store, name)
}

pub(super) fn remove(store: &mut Store, name: &str) -> Result<(), Trouble> {
    let found = find_row(store, name)?;
    store
        .conn
        .prepare_cached("UPDATE recurring SET removed = 1, next_at = NULL WHERE id = ?1")?
        .execute([found])?;
    Ok(())
}

/// Pauses it: it does not fire until it is resumed, and stays due meanwhile.
pub(super) fn pause(store: &mut Store, name: &str, by: &str, now: Instant) -> Result<(), Trouble> {
    let found = find_row(store, name)?;
    store.conn.execute(
        "UPDATE recurring SET paused_by = iif(paused_at IS NULL, ?3, paused_by), paused_at = coalesce(paused_at, ?2)
         WHERE id = ?1",
        params![found, store.millis(now), by],
    )?;
    Ok(())
}

/// Resumes it. Occurrences of the time between count as late, as if no supervisor had run.
pub(super) fn resume(store: &mut Store, name: &str) -> Result<(), Trouble> {
    let found = find_row(store, name)?;
    store.conn.execute("UPDATE recurring SET paused_at = NULL, paused_by = NULL WHERE id = ?1", [found])?;
    occur::expect(store)?;
    // Another process may be the one that fires it.
    store.effects.ring = true;
    Ok(())
}

/// The row by its name, even if its schedule cannot be read any more.
fn find_row(store: &Store, name: &str) -> Result<i64, Trouble> {
    let mut statement =
        store.conn.prepare_cached("SELECT id FROM recurring WHERE name = ?1 AND NOT removed")?;
    let row = statement.query_row([name], |row| row.get(0)).optional()?;
    row.ok_or_else(|| Error::NoRecurring(name.into()).into())
}

/// Fails unless a recurring job of this name exists or existed: its jobs stay.
pub(super) fn must_have_been(store: &Store, name: &str) -> Result<(), Trouble> {
    let mut statement = store.conn.prepare_cached("SELECT 1 FROM recurring WHERE name = ?1")?;
    if statement.exists([name])? { Ok(()) } else { Err(Error::NoRecurring(name.into()).into()) }
}

/// The columns [`record`] reads.
const RECORD: &str =
    "spec, recurring.put_at, recurring.put_by, next_at, count, skipped, missed_at, jid, state, job.put_at,
    paused_at, paused_by
    FROM recurring LEFT JOIN job ON job.id = latest AND job.recurring = recurring.id WHERE NOT removed";

pub(super) fn list(store: &Store) -> Result<Vec<RecurringRecord>, Trouble> {
    let mut statement = store.conn.prepare_cached(&format!("SELECT {RECORD} ORDER BY name"))?;
    let mut rows = statement.query([])?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        records.push(record(store, row)?);
    }
    Ok(records)
}

pub(super) fn get(store: &Store, name: &str) -> Result<RecurringRecord, Trouble> {
    let mut statement = store.conn.prepare_cached(&format!("SELECT {RECORD} AND name = ?1"))?;
    let mut rows = statement.query([name])?;
    let row = rows.next()?.ok_or_else(|| Error::NoRecurring(name.into()))?;
    Ok(recurring::with_then(record(store, row)?))
}

fn record(store: &Store, row: &Row<'_>) -> Result<RecurringRecord, Trouble> {
    let latest: Option<String> = row.get(7)?;
    let latest = match latest {
        Some(id) => Some(LatestJob { id: id.into(), state: state(row.get(8)?), at: Millis(row.get(9)?) }),
        None => None,
    };
    let paused = columns::moment(row, 10)?;
    let by: Option<String> = row.get(11)?;
    let spec = row.get_ref(0)?.as_bytes_or_null().ok().flatten().unwrap_or_default();
    let recurring: Recurring = stored::from_json(spec)?;
    Ok(RecurringRecord {
        stuck: store.notices.complaints.latest_for(recurring::NOT_PUT, &recurring.name),
        recurring,
        put_at: Millis(row.get(1)?),
        put_by: row.get(2)?,
        next_at: columns::moment(row, 3)?,
        then_at: Vec::new(),
        count: row.get(4)?,
        skipped: row.get(5)?,
        missed_at: columns::moment(row, 6)?,
        latest,
        paused: paused.map(|since| Pause { since, by: by.unwrap_or_default(), reason: None }),
    })
}
