//! Dependencies: rows of `dependency`, each removed when the needed job is complete. A job that needs others is in the
//! state `depends`; its delay is stored separately.

use std::collections::{HashMap, VecDeque};

use rusqlite::{OptionalExtension, params};

use super::columns::state;
use super::store::{STRETCH, Store};
use super::trouble::Trouble;
use broker::Error;
use common::circle;
use model::{JobId, JobState, Need, What};

/// Makes the job in `row` wait for those of `needed` that are not complete. Gives whether there are any.
pub(super) fn write(store: &Store, row: i64, needed: &[JobId]) -> Result<bool, Trouble> {
    // In SQL a state is its number, as `JobState as i64` gives it: 4 is complete, 8 is depends.
    let mut statement = store.conn.prepare_cached(
        "INSERT OR IGNORE INTO dependency (job, needs) SELECT ?1, id FROM job WHERE jid = ?2 AND state <> 4",
    )?;
    for id in needed {
        statement.execute(params![row, id.as_str()])?;
    }
    any(store, row)
}

/// Whether a job needs anything.
pub(super) fn any(store: &Store, row: i64) -> Result<bool, Trouble> {
    let mut statement = store.conn.prepare_cached("SELECT 1 FROM dependency WHERE job = ?1 LIMIT 1")?;
    Ok(statement.exists([row])?)
}

/// Fails unless the needed job exists. Gives whether the other job has to wait for it.
pub(super) fn must_be_waited_for(store: &Store, id: &JobId) -> Result<bool, Trouble> {
    match store.place(id) {
        Ok((_, _, state)) => Ok(state != JobState::Complete),
        Err(Trouble::Mine(Error::NoJob(id))) => Err(Error::NoneToNeed(id).into()),
        Err(trouble) => Err(trouble),
    }
}

/// A job is complete: releases the jobs that needed no other. If they are many, it releases the first ones, and the job
/// stays due until the last of them is released: the process that holds the store goes on.
pub(super) fn release(store: &mut Store, row: i64, now: i64) -> Result<(), Trouble> {
    if release_some(store, row, now)? {
        store.conn.prepare_cached("UPDATE job SET due_at = ?2 WHERE id = ?1")?.execute([row, now])?;
        store.expect(now);
    }
    Ok(())
}

/// Goes on releasing dependents of a job that was complete before. Other jobs that are due come before the rest of
/// them.
pub(super) fn release_more(store: &mut Store, row: i64, now: i64) -> Result<(), Trouble> {
    let due = release_some(store, row, now)?.then_some(now);
    store.conn.prepare_cached("UPDATE job SET due_at = ?2 WHERE id = ?1")?.execute(params![row, due])?;
    Ok(())
}

/// Releases all remaining dependents, before the job leaves the state `complete`.
pub(super) fn release_rest(store: &mut Store, row: i64, now: i64) -> Result<(), Trouble> {
    while release_some(store, row, now)? {}
    Ok(())
}

/// Releases the next dependents, in the order of insertion. Gives whether there may be more.
fn release_some(store: &mut Store, row: i64, now: i64) -> Result<bool, Trouble> {
    let mut statement =
        store.conn.prepare_cached("SELECT job FROM dependency WHERE needs = ?1 ORDER BY job LIMIT ?2")?;
    let found = statement.query_map(params![row, STRETCH], |row| row.get(0))?;
    let waiting: Vec<i64> = found.collect::<Result<_, _>>()?;
    drop(statement);
    // They came in order, so one deletion up to the last takes these and no others.
    let Some(last) = waiting.last() else { return Ok(false) };
    store
        .conn
        .prepare_cached("DELETE FROM dependency WHERE needs = ?1 AND job <= ?2")?
        .execute([row, *last])?;
    let may_be_more = waiting.len() == STRETCH;
    waiting.into_iter().try_for_each(|job| set_free(store, job, now).map(drop))?;
    Ok(may_be_more)
}

/// Releases a job in `depends` if it needs no job any more; gives its new state.
pub(super) fn set_free(store: &mut Store, row: i64, now: i64) -> Result<Option<JobState>, Trouble> {
    let found = store
        .conn
        .prepare_cached(
            "SELECT queue, not_before, jid FROM job WHERE id = ?1 AND state = 8
             AND NOT EXISTS (SELECT 1 FROM dependency WHERE job = ?1)",
        )?
        .query_row([row], |row| Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?, row.get::<_, String>(2)?)))
        .optional()?;
    let Some((queue, not_before, id)) = found else { return Ok(None) };
    let due = not_before.filter(|due| *due > now);
    let to = if due.is_some() { JobState::Delayed } else { JobState::Waiting };
    store
        .conn
        .prepare_cached(
            "UPDATE job SET state = ?2, due_at = ?3, not_before = NULL, ready_at = ?4 WHERE id = ?1",
        )?
        .execute(params![row, to as i64, due, now])?;
    store.moved(queue, Some(JobState::Depends), to);
    store.happened(&id.into(), queue, What::Released, to)?;
    if let Some(due) = due {
        store.expect(due);
    }
    Ok(Some(to))
}

/// The jobs for which a job waits, in the order of insertion.
pub(super) fn of(store: &Store, row: i64) -> Result<Vec<Need>, Trouble> {
    let mut statement = store.conn.prepare_cached(
        "SELECT jid, state FROM dependency JOIN job ON job.id = dependency.needs
         WHERE dependency.job = ?1 ORDER BY job.id",
    )?;
    let rows = statement.query_map([row], |row| {
        Ok(Need { job: row.get::<_, String>(0)?.into(), state: state(row.get(1)?) })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The first jobs that wait for a job, in the order of insertion.
pub(super) fn dependents(store: &Store, row: i64, most: u32) -> Result<Vec<JobId>, Trouble> {
    let mut statement = store.conn.prepare_cached(
        "SELECT jid FROM dependency JOIN job ON job.id = dependency.job
         WHERE needs = ?1 AND state = 8 ORDER BY job.id LIMIT ?2",
    )?;
    let rows = statement.query_map([row, i64::from(most)], |row| Ok(row.get::<_, String>(0)?.into()))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Fails if `row`, called `id`, would wait for itself through the jobs it is to need.
pub(super) fn refuse_cycle(store: &Store, row: i64, id: &JobId, needed: &[JobId]) -> Result<(), Trouble> {
    let mut statement = store.conn.prepare_cached("SELECT needs FROM dependency WHERE job = ?1")?;
    let mut from: HashMap<i64, i64> = HashMap::new();
    let mut open = VecDeque::new();
    for id in needed {
        open.push_back((store.place(id)?.0, row));
    }
    // Breadth first: the refusal names a shortest circle.
    while let Some((at, before)) = open.pop_front() {
        if from.contains_key(&at) {
            continue;
        }
        from.insert(at, before);
        if at == row {
            return Err(circle::refusal(&way_back(store, row, &from, id)?).into());
        }
        for next in statement.query_map([at], |row| row.get(0))? {
            open.push_back((next?, at));
        }
    }
    Ok(())
}

/// The jobs on the way from a job back to itself.
fn way_back(store: &Store, row: i64, from: &HashMap<i64, i64>, id: &JobId) -> Result<Vec<JobId>, Trouble> {
    let mut names = vec![id.clone()];
    let mut at = row;
    while let Some(before) = from.get(&at).filter(|before| **before != row) {
        let mut statement = store.conn.prepare_cached("SELECT jid FROM job WHERE id = ?1")?;
        names.push(statement.query_row([*before], |row| row.get::<_, String>(0))?.into());
        at = *before;
    }
    names.push(id.clone());
    names.reverse();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sqlite;
    use crate::call::Kind;
    use crate::{admin, lease};
    use broker::{Broker, Source};
    use model::{NewJob, Payload};

    const MANY: usize = 3 * STRETCH + 7;

    fn job(id: &str) -> NewJob {
        NewJob { id: Some(id.into()), ..NewJob::new("q".into(), "c".into(), Payload::Data("1".into())) }
    }

    /// A store in which many jobs need one.
    async fn crowd() -> Sqlite {
        let store = Sqlite::memory().unwrap();
        let needing = |n| NewJob { depends: vec!["a".into()], ..job(&format!("n{n}")) };
        store.put([job("a")].into_iter().chain((0..MANY).map(needing)).collect()).await.unwrap();
        store
    }

    fn count(store: &Store, state: JobState) -> usize {
        let mut statement = store.conn.prepare("SELECT count(*) FROM job WHERE state = ?1").unwrap();
        statement.query_row([state as i64], |row| row.get(0)).unwrap()
    }

    /// Completes the job that all need, as a settlement does.
    fn complete(store: &mut Store) -> Result<i64, Trouble> {
        let (row, queue, from) = store.place(&"a".into())?;
        store.conn.execute("UPDATE job SET state = 4, ended_at = 1 WHERE id = ?1", [row])?;
        store.moved(queue, Some(from), JobState::Complete);
        let now = store.time();
        release(store, row, now)?;
        Ok(row)
    }

    #[tokio::test]
    async fn many_dependents_are_released_in_batches_and_completely() {
        let store = crowd().await;
        let first = |store: &mut Store| {
            complete(store)?;
            // The file records the remaining work, so any process can continue it.
            assert!(store.next_due_on_file()?.is_some_and(|due| due <= store.time()));
            Ok(count(store, JobState::Waiting))
        };
        assert_eq!(store.run(Kind::Durable, first).await, Ok(STRETCH));
        let turn = |store: &mut Store| {
            let (before, now) = (count(store, JobState::Waiting), store.time());
            lease::come_due(store, now)?;
            Ok((count(store, JobState::Waiting) - before, before))
        };
        loop {
            let (more, before) = store.run(Kind::Lease, turn).await.unwrap();
            assert!(more <= STRETCH);
            if before == MANY {
                break;
            }
        }
        let is_quiet = |store: &mut Store| Ok(store.next_due_on_file()?.is_none());
        assert_eq!(store.run(Kind::Read, is_quiet).await, Ok(true));
        let counted = Broker::from(store).counts().await.unwrap();
        assert_eq!(counted[&"q".into()].jobs[&JobState::Waiting], MANY as u64);
    }

    #[tokio::test]
    async fn retry_during_the_release_of_dependents_loses_none_of_them() {
        let store = crowd().await;
        let both = |store: &mut Store| {
            complete(store)?;
            let now = (store.world.now)();
            admin::retry(store, &"a".into(), "me", now)?;
            Ok(count(store, JobState::Waiting))
        };
        assert_eq!(store.run(Kind::Durable, both).await, Ok(MANY + 1));
    }

    #[tokio::test]
    async fn many_due_jobs_become_waiting_in_batches() {
        let store = Sqlite::memory().unwrap();
        store.put((0..MANY).map(|n| job(&format!("n{n}"))).collect()).await.unwrap();
        let turn = |store: &mut Store| {
            store.conn.execute("UPDATE job SET state = 1, due_at = 1 WHERE state = 0", [])?;
            store.next_due = Some(1);
            let now = store.time();
            lease::come_due(store, now)?;
            assert!(store.next_due.is_some_and(|due| due <= now), "there is more to do");
            Ok(count(store, JobState::Waiting))
        };
        assert_eq!(store.run(Kind::Lease, turn).await, Ok(STRETCH));
    }
}
