//! Removes a queue when it is empty.

use rusqlite::params;

use super::bulk::{SHOWN, STRETCH};
use super::remove::{self, IS_NEEDED};
use super::store::{Queue, Store};
use super::trouble::Trouble;
use broker::Error;
use model::JobState;
use model::verb::{Forget, Swept};

/// Removes the queue. With `discard` it first removes its ended jobs, one part for each call. If anything keeps the
/// queue, it fails before it removes a job.
pub(super) fn queue(store: &mut Store, asked: &Forget) -> Result<Swept, Trouble> {
    let queue = store.queue_there(&asked.queue)?;
    refuse_unless_free(store, asked, queue, asked.discard)?;
    let swept = if asked.discard { sweep(store, queue, asked.after)? } else { Swept::default() };
    if swept.next.is_none() {
        // Jobs may have come since the first part, and those that others need have stayed.
        refuse_unless_free(store, asked, queue, false)?;
        remove(store, asked, queue)?;
    }
    Ok(swept)
}

fn remove(store: &mut Store, asked: &Forget, queue: Queue) -> Result<(), Trouble> {
    for table in ["statistic", "tally"] {
        store.conn.prepare_cached(&format!("DELETE FROM {table} WHERE queue = ?1"))?.execute([queue.id])?;
    }
    store
        .conn
        .prepare_cached(
            // What the store has ever taken must not fall: that would look like a loss (`count.rs`).
            "UPDATE boot SET (puts, changes) =
             (SELECT boot.puts + queue.puts, boot.changes + queue.changes FROM queue WHERE id = ?1)",
        )?
        .execute([queue.id])?;
    store.conn.prepare_cached("DELETE FROM queue WHERE id = ?1")?.execute([queue.id])?;
    store.queues.remove(&asked.queue);
    store.barren.forget(queue.id);
    store.figures.forget(queue.id);
    store.effects.figures.forget(queue.id);
    Ok(())
}

/// Removes the queue's ended jobs among the next ones. Jobs that others need stay, and keep the queue.
fn sweep(store: &mut Store, queue: Queue, after: Option<i64>) -> Result<Swept, Trouble> {
    let after = after.unwrap_or(i64::MIN);
    let (seen, last): (u64, i64) = store
        .conn
        .prepare_cached(&format!(
            "SELECT count(*), coalesce(max(id), ?1) FROM
             (SELECT id FROM job NOT INDEXED WHERE id > ?1 ORDER BY id LIMIT {STRETCH})"
        ))?
        .query_row([after], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut statement = store.conn.prepare_cached(&format!(
        "SELECT id, jid, {IS_NEEDED} FROM job NOT INDEXED
         WHERE id > ?1 AND id <= ?2 AND queue = ?3 AND state IN (4, 5, 7) ORDER BY id"
    ))?;
    let found = statement.query_map(params![after, last, queue.id], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, bool>(2)?))
    })?;
    let found: Vec<_> = found.collect::<Result<_, _>>()?;
    drop(statement);
    let mut swept = Swept { next: (seen == STRETCH).then_some(last), ..Swept::default() };
    for (row, id, is_needed) in found {
        if is_needed {
            swept.needed += 1;
            continue;
        }
        remove::job(store, row)?;
        swept.count += 1;
        if swept.jobs.len() < SHOWN {
            swept.jobs.push(id.into());
        }
    }
    Ok(swept)
}

/// Fails if the queue is still in use.
fn refuse_unless_free(
    store: &mut Store,
    asked: &Forget,
    queue: Queue,
    ended_go: bool,
) -> Result<(), Trouble> {
    let hindrance = match of_jobs(store, queue, ended_go)? {
        None => of_itself(store, queue)?,
        hindrance => hindrance,
    };
    hindrance.map_or(Ok(()), |why| Err(Error::InUse(asked.queue.clone(), why).into()))
}

/// Names the jobs that keep the queue.
fn of_jobs(store: &mut Store, queue: Queue, ended_go: bool) -> Result<Option<String>, Trouble> {
    store.write_counts()?;
    let mut statement = store.conn.prepare_cached(
        "SELECT waiting, delayed, running, canceling, complete, failed, held, canceled, depends FROM queue WHERE id = ?1",
    )?;
    let counts: Vec<(JobState, u64)> = statement.query_row([queue.id], |row| {
        JobState::ALL.into_iter().map(|state| Ok((state, row.get(state as usize)?))).collect()
    })?;
    let goes =
        |state| ended_go && matches!(state, JobState::Complete | JobState::Failed | JobState::Canceled);
    let has: Vec<String> = counts
        .iter()
        .filter(|(state, count)| *count > 0 && !goes(*state))
        .map(|(state, count)| format!("{count} {state}"))
        .collect();
    let jobs = has.join(", ");
    Ok((!has.is_empty()).then(|| {
        format!("it has jobs ({jobs}); those that have ended can be discarded, unless others depend on them")
    }))
}

/// Names what else keeps the queue.
fn of_itself(store: &Store, queue: Queue) -> Result<Option<String>, Trouble> {
    if queue.paused {
        return Ok(Some(
            "it is paused, and jobs that are put into it later would run: resume it first".into(),
        ));
    }
    let mut statement =
        store.conn.prepare_cached("SELECT name FROM recurring WHERE queue = ?1 AND NOT removed LIMIT 3")?;
    let recurring: Vec<String> =
        statement.query_map(params![queue.id], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok((!recurring.is_empty()).then(|| format!("recurring jobs are put into it: {}", recurring.join(", "))))
}
