//! A job's history, beside its row. It is written when an attempt ends other than complete and when a person acts, so a
//! job that completes at its first try writes nothing here.

use rusqlite::params;

use super::columns::state;
use super::columns::{instance, kept, moment, worker};
use super::store::Store;
use super::trouble::Trouble;
use common::stored;
use model::{Attempt, Count, Entry, Failure, Fence, Forensics, Happened, JobState, Millis};

/// Number of the latest entries of a job that are kept.
const KEPT: i64 = 100;

/// How an attempt ended, as far as its row does not say it yet.
pub(super) struct End<'a> {
    pub(super) state: JobState,
    pub(super) due: Option<i64>,
    pub(super) crashed: bool,
    pub(super) counts: Option<Count>,
    pub(super) failure: Option<&'a Failure>,
    pub(super) forensics: Option<&'a Forensics>,
}

impl End<'_> {
    pub(super) fn new(state: JobState) -> Self {
        End { state, due: None, crashed: false, counts: None, failure: None, forensics: None }
    }
}

/// Adds the end of the attempt that the row still describes.
pub(super) fn attempt(store: &Store, row: i64, now: i64, end: End<'_>) -> Result<(), Trouble> {
    let attempt = Attempt {
        state: end.state,
        due_at: end.due.map(Millis),
        crashed: end.crashed,
        counts: end.counts,
        failure: end.failure.cloned(),
        forensics: end.forensics.cloned().map(|left| Forensics { at: Some(Millis(now)), ..left }),
        ..begun(store, row)?
    };
    note(store, row, now, Happened::Attempt(Box::new(attempt.shortened())))
}

/// Adds the attempt that completed the job, before the row loses it.
pub(super) fn complete(store: &Store, row: i64) -> Result<(), Trouble> {
    let mut statement = store.conn.prepare_cached("SELECT forensics, ended_at FROM job WHERE id = ?1")?;
    let mut rows = statement.query([row])?;
    let found = rows.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    let attempt = Attempt { forensics: kept(found, 0)?, ..begun(store, row)? };
    let ended = moment(found, 1)?.unwrap_or(Millis(0));
    note(store, row, ended.0, Happened::Attempt(Box::new(attempt.shortened())))
}

/// The latest attempt as the row has it.
fn begun(store: &Store, row: i64) -> Result<Attempt, Trouble> {
    let mut statement = store.conn.prepare_cached(
        "SELECT attempt, fence, started_at, instance, worker, renewals, renewed_at, state, pool
         FROM job WHERE id = ?1",
    )?;
    let mut rows = statement.query([row])?;
    let row = rows.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    // An end must be recorded even if some fields of the row cannot be read.
    Ok(Attempt {
        attempt: row.get(0).unwrap_or_default(),
        fence: Fence(row.get(1).unwrap_or_default()),
        started_at: moment(row, 2).unwrap_or_default(),
        instance: instance(row, 3).unwrap_or_default(),
        worker: worker(row, 4, 8).unwrap_or_default(),
        renewals: row.get(5).unwrap_or_default(),
        renewed_at: moment(row, 6).unwrap_or_default(),
        state: state(row.get(7).unwrap_or_default()),
        due_at: None,
        crashed: false,
        counts: None,
        failure: None,
        forensics: None,
    })
}

/// Writes an entry, and removes the oldest if there are too many.
pub(super) fn note(store: &Store, row: i64, now: i64, what: Happened) -> Result<(), Trouble> {
    let entry = stored::to_json(&Entry { at: Millis(now), what })?;
    store
        .conn
        .prepare_cached("INSERT INTO history (job, entry) VALUES (?1, ?2)")?
        .execute(params![row, entry])?;
    store
        .conn
        .prepare_cached(
            "DELETE FROM history WHERE job = ?1
             AND id <= (SELECT id FROM history WHERE job = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
        )?
        .execute([row, KEPT])?;
    Ok(())
}

/// The whole history of a job, oldest first.
pub(super) fn of(store: &Store, row: i64) -> Result<Vec<Entry>, Trouble> {
    let mut statement = store.conn.prepare_cached("SELECT entry FROM history WHERE job = ?1 ORDER BY id")?;
    let mut rows = statement.query([row])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        // An entry that cannot be read must not hide the others.
        entries.extend(kept(row, 0).ok().flatten());
    }
    Ok(entries)
}
