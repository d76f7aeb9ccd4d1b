//! Records in a ledger how jobs ended at another host, or in the broker itself.

use rusqlite::{OptionalExtension, Row, params};

use super::call::Kind;
use super::columns::state;
use super::handle::Sqlite;
use super::history;
use super::settle::group;
use super::store::Store;
use super::trouble::Trouble;
use crate::delivery::Elsewhere;
use broker::Error;
use common::stored;
use model::{Happened, JobId, JobState, What};

/// Limit of the jobs that one call returns.
const SOME: usize = 500;

impl Sqlite {
    /// The next jobs after `place` that the ledger has as waiting, in order, with their places.
    pub async fn waiting_behind(&self, place: i64) -> Result<Vec<(i64, JobId)>, Error> {
        self.run(Kind::Read, move |store| {
            let mut all = delayed_behind(store, place)?;
            for (queue, priority) in lines(store)? {
                all.extend(line_behind(store, (queue, priority), place)?);
            }
            all.sort_unstable_by_key(|(id, _)| *id);
            all.truncate(SOME);
            Ok(all)
        })
        .await
    }

    /// Records how jobs ended elsewhere. Jobs that the ledger does not have as waiting are left as they are.
    pub async fn learn(&self, ended: Vec<(JobId, Elsewhere)>) -> Result<(), Error> {
        self.run(Kind::Note, move |store| {
            let now = store.time();
            ended.iter().try_for_each(|(job, how)| learn(store, job, how, now))
        })
        .await
    }

    /// Adds words to the histories of jobs; those that are not known are left out.
    pub async fn noted(&self, notes: Vec<(JobId, String)>) -> Result<(), Error> {
        self.run(Kind::Note, move |store| {
            let now = store.time();
            for (job, what) in &notes {
                if let Some((row, _)) = known(store, job)? {
                    history::note(store, row, now, Happened::Noted { what: what.clone() })?;
                }
            }
            Ok(())
        })
        .await
    }
}

/// The queues with the priorities of their waiting jobs. Within each the index has the jobs in the order of their ids:
/// to sort all waiting jobs for each 500 of them takes 70 ms of 100,000.
fn lines(store: &Store) -> Result<Vec<(i64, i64)>, Trouble> {
    let mut statement = store.conn.prepare_cached(
        "WITH RECURSIVE line (queue, priority) AS (
             SELECT id, (SELECT max(priority) FROM job INDEXED BY job_waiting WHERE state = 0 AND queue = queue.id)
             FROM queue
             UNION ALL
             SELECT queue, (SELECT max(priority) FROM job INDEXED BY job_waiting
                            WHERE state = 0 AND queue = line.queue AND priority < line.priority)
             FROM line WHERE priority IS NOT NULL)
         SELECT queue, priority FROM line WHERE priority IS NOT NULL",
    )?;
    let found = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// The next waiting jobs of a queue and a priority.
fn line_behind(store: &Store, line: (i64, i64), place: i64) -> Result<Vec<(i64, JobId)>, Trouble> {
    let mut statement = store.conn.prepare_cached(&format!(
        "SELECT id, jid FROM job INDEXED BY job_waiting
         WHERE state = 0 AND queue = ?1 AND priority = ?2 AND id > ?3 ORDER BY id LIMIT {SOME}"
    ))?;
    let found = statement.query_map(params![line.0, line.1, place], listed)?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// The next delayed jobs.
fn delayed_behind(store: &Store, place: i64) -> Result<Vec<(i64, JobId)>, Trouble> {
    // SQLite uses the partial index of due jobs as the query repeats its condition, `due_at IS NOT NULL`.
    let mut statement = store.conn.prepare_cached(&format!(
        "SELECT id, jid FROM job INDEXED BY job_due
         WHERE due_at IS NOT NULL AND state = 1 AND id > ?1 ORDER BY id LIMIT {SOME}"
    ))?;
    let found = statement.query_map([place], listed)?;
    Ok(found.collect::<Result<_, _>>()?)
}

fn listed(row: &Row<'_>) -> Result<(i64, JobId), rusqlite::Error> {
    Ok((row.get(0)?, row.get::<_, String>(1)?.into()))
}

fn learn(store: &mut Store, job: &JobId, how: &Elsewhere, now: i64) -> Result<(), Trouble> {
    // Waiting or delayed: what runs here ends with its own verdict.
    let found = store
        .conn
        .prepare_cached("SELECT id, queue, state FROM job WHERE jid = ?1 AND state BETWEEN 0 AND 1")?
        .query_row([job.as_str()], |row| Ok((row.get(0)?, row.get(1)?, state(row.get(2)?))))
        .optional()?;
    let Some((row, queue, from)) = found else { return Ok(()) };
    let row: i64 = row;
    let (to, result, failure) = match how {
        Elsewhere::Complete { result } => (JobState::Complete, result.as_deref(), None),
        Elsewhere::Failed(failure) => (JobState::Failed, None, Some(failure)),
    };
    let text = failure.map(stored::to_json).transpose()?;
    store
        .conn
        .prepare_cached(
            "UPDATE job SET state = ?2, due_at = NULL, ready_at = NULL, ended_at = ?3, result = ?4,
             failure = CASE ?2 WHEN 4 THEN NULL ELSE ?5 END, failure_group = ?6 WHERE id = ?1",
        )?
        .execute(params![row, to as i64, now, result, text, group(to, failure)])?;
    forget_delivery(store, job)?;
    store.moved(queue, Some(from), to);
    store.happened(job, queue, What::of_end(to), to)?;
    store.ended(job.clone(), to);
    Ok(())
}

/// Forgets how often a ledger's broker has delivered a job that has ended: if it is retried, that is another message.
pub(super) fn forget_delivery(store: &Store, job: &JobId) -> Result<(), Trouble> {
    if store.is_ledger {
        store.conn.prepare_cached("DELETE FROM delivery WHERE jid = ?1")?.execute([job.as_str()])?;
    }
    Ok(())
}

/// The job, if it was recorded before.
pub(super) fn known(store: &Store, id: &JobId) -> Result<Option<(i64, JobState)>, Trouble> {
    let mut statement = store.conn.prepare_cached("SELECT id, state FROM job WHERE jid = ?1")?;
    Ok(statement.query_row([id.as_str()], |row| Ok((row.get(0)?, state(row.get(1)?)))).optional()?)
}
