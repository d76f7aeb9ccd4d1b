//! Jobs that were put to be dropped unless they begin by a time: each that still waits then has failed.

use rusqlite::{OptionalExtension, params};

use super::columns::state;
use super::store::{STRETCH, Store};
use super::trouble::Trouble;
use common::stored;
use model::{Failure, JobId, JobState, What};

/// Of a row of `unbegun`: that nobody holds a lease on its job.
const NOT_LEASED: &str = "NOT EXISTS (SELECT 1 FROM job WHERE job.id = unbegun.job AND job.state IN (2, 3))";

/// Notes by when a new job is to begin.
pub(super) fn keep(store: &mut Store, row: i64, at: i64) -> Result<(), Trouble> {
    store
        .conn
        .prepare_cached("INSERT OR REPLACE INTO unbegun (job, at) VALUES (?1, ?2)")?
        .execute([row, at])?;
    store.expect(at);
    Ok(())
}

/// Removes the time by which a job must begin: it has begun, or a person has retried it.
pub(super) fn lift(store: &Store, row: i64) -> Result<(), Trouble> {
    store.conn.prepare_cached("DELETE FROM unbegun WHERE job = ?1")?.execute([row])?;
    Ok(())
}

/// A lease has ended unspent, so the number of attempts does not show whether the job has begun under it. One that has
/// not is to begin by its time, as before.
pub(super) fn given_back(store: &mut Store, row: i64, has_begun: bool) -> Result<(), Trouble> {
    if has_begun {
        return lift(store, row);
    }
    let at: Option<i64> = store
        .conn
        .prepare_cached("SELECT at FROM unbegun WHERE job = ?1")?
        .query_row([row], |row| row.get(0))
        .optional()?;
    // It may be over by now: while the job was leased, nobody looked.
    at.into_iter().for_each(|at| store.expect(at));
    Ok(())
}

/// The first of these times; None if there is none. That of a leased job waits for the end of the lease.
pub(super) fn next(store: &Store) -> Result<Option<i64>, rusqlite::Error> {
    store
        .conn
        .prepare_cached(&format!("SELECT at FROM unbegun WHERE {NOT_LEASED} ORDER BY at LIMIT 1"))?
        .query_row([], |row| row.get(0))
        .optional()
}

/// Fails the jobs that were to begin by now, one part at a time. One that waits for a retry has begun.
pub(super) fn come_due(store: &mut Store, now: i64) -> Result<(), Trouble> {
    let mut statement = store.conn.prepare_cached(&format!(
        "DELETE FROM unbegun WHERE job IN (SELECT job FROM unbegun WHERE at <= ?1 AND {NOT_LEASED} ORDER BY at LIMIT ?2)
         RETURNING job"
    ))?;
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
