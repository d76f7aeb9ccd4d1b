//! A queue goes, when nothing is left of it.

use rusqlite::params;

use super::store::{Queue, Store};
use super::trouble::Trouble;
use crate::broker::Error;
use crate::model::{JobState, QueueName};

pub(super) fn queue(store: &mut Store, name: &QueueName) -> Result<(), Trouble> {
    let found = store.queue_there(name)?;
    if let Some(why) = hindrance(store, found)? {
        return Err(Error::InUse(name.clone(), why).into());
    }
    for table in ["statistic", "tally"] {
        store.conn.prepare_cached(&format!("DELETE FROM {table} WHERE queue = ?1"))?.execute([found.id])?;
    }
    store.conn.prepare_cached("DELETE FROM queue WHERE id = ?1")?.execute([found.id])?;
    store.queues.remove(name);
    store.barren.forget(found.id);
    store.figures.forget(found.id);
    store.effects.figures.forget(found.id);
    Ok(())
}

/// What the queue is still good for.
fn hindrance(store: &mut Store, queue: Queue) -> Result<Option<String>, Trouble> {
    store.write_counts()?;
    let mut statement = store.conn.prepare_cached(
        "SELECT waiting, delayed, running, canceling, complete, failed, held, canceled, depends FROM queue WHERE id = ?1",
    )?;
    let counts: Vec<(JobState, u64)> = statement.query_row([queue.id], |row| {
        JobState::ALL.into_iter().map(|state| Ok((state, row.get(state as usize)?))).collect()
    })?;
    let has: Vec<String> = counts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(state, count)| format!("{count} {state}"))
        .collect();
    if !has.is_empty() {
        let jobs = format!("it has jobs ({}); those that have ended can be discarded", has.join(", "));
        return Ok(Some(jobs));
    }
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
