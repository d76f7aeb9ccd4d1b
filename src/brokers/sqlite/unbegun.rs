//! Jobs that were put to be dropped unless they begin by a time: each that still waits then has failed.

use rusqlite::{OptionalExtension, params};

use super::columns::state;
use super::store::{STRETCH, Store};
use super::trouble::Trouble;
use common::stored;
use model::{Failure, JobId, JobState, What};

/// Notes by when a new job is to begin.
pub(super) fn keep(store: &mut Store, row: i64, at: i64) -> Result<(), Trouble> {
    store
        .conn
        .prepare_cached("INSERT OR REPLACE INTO unbegun (job, at) VALUES (?1, ?2)")?
        .execute([row, at])?;
    store.expect(at);
    Ok(())
}

/// The job has begun for good, or begins anew by a person's order: it may take its time.
pub(super) fn lift(store: &Store, row: i64) -> Result<(), Trouble> {
    store.conn.prepare_cached("DELETE FROM unbegun WHERE job = ?1")?.execute([row])?;
    Ok(())
}

/// Fails the jobs that were to begin by now. One that runs has begun; one that waits for a retry had.
pub(super) fn come_due(store: &mut Store, now: i64) -> Result<(), Trouble> {
    let mut statement = store
        .conn
        .prepare_cached("DELETE FROM unbegun WHERE job IN (SELECT job FROM unbegun WHERE at <= ?1 ORDER BY at LIMIT ?2) RETURNING job")?;
    let due = statement.query_map(params![now, STRETCH], |row| row.get(0))?;
    let due: Vec<i64> = due.collect::<Result<_, _>>()?;
    drop(statement);
    due.into_iter().try_for_each(|row| fail(store, row, now))
}

fn fail(store: &mut Store, row: i64, now: i64) -> Result<(), Trouble> {
    let found: Option<(i64, JobState, String)> = store
        .conn
        .prepare_cached(
            "SELECT queue, state, jid FROM job WHERE id = ?1 AND state IN (0, 1, 8) AND attempt = 0",
        )?
        .query_row([row], |row| Ok((row.get(0)?, state(row.get(1)?), row.get(2)?)))
        .optional()?;
    let Some((queue, from, id)) = found else { return Ok(()) };
    let id = JobId::from(id);
    let failure = Failure::expired();
    store
        .conn
        .prepare_cached(
            "UPDATE job SET state = 5, due_at = NULL, not_before = NULL, ended_at = ?2, failure = ?3, failure_group = ?4
             WHERE id = ?1",
        )?
        .execute(params![row, now, stored::to_json(&failure)?, failure.group])?;
    store.moved(queue, Some(from), JobState::Failed);
    let figures = store.effects.figures.on(queue, now);
    (figures.failures, figures.failed) = (figures.failures + 1, figures.failed + 1);
    store.happened(&id, queue, What::of_end(JobState::Failed), JobState::Failed)?;
    store.ended(id, JobState::Failed);
    Ok(())
}
