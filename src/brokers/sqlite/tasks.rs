//! Tasks, counted by tenant and service path: triggers keep the counts in the transactions that change the jobs.

use rusqlite::params;

use super::columns::state;
use super::store::Store;
use super::trouble::Trouble;
use model::JobState;

/// The scope under which a job is counted: the beginning of its id, up to the service path; `None` for a job that is no
/// task.
pub(super) fn scope(id: &str) -> Option<String> {
    let task = wq::TaskId::parse(id)?;
    Some(wq::Scope { tenant: task.tenant, within: Some((task.service_path, None)) }.prefix())
}

const TRIGGERS: &str = include_str!("scope_triggers.sql");

/// Makes the triggers, before the first task of the store is written. No earlier job is a task, so the counts are whole.
pub(super) fn count_from_now_on(store: &Store) -> Result<(), rusqlite::Error> {
    let has_them = store
        .conn
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND name = 'scope_put')",
        )?
        .query_row([], |row| row.get(0))?;
    if has_them { Ok(()) } else { store.conn.execute_batch(TRIGGERS) }
}

/// How many tasks there are whose ids begin so, in any of these states (none = in any): by their counts, if it is all of a
/// tenant, or of a service path, that is asked for.
pub(super) fn count(store: &Store, begins: &str, states: &[JobState]) -> Result<Option<u64>, Trouble> {
    // Only beginnings with the tenant, or with tenant and service path, have counts.
    let elements = begins.bytes().filter(|byte| *byte == b'_').count();
    if !(1..=2).contains(&elements) || !begins.ends_with('_') {
        return Ok(None);
    }
    let mut statement = store.conn.prepare_cached(
        "SELECT state, sum(count) FROM scope WHERE name >= ?1 AND name < ?2 GROUP BY state",
    )?;
    let counts = statement.query_map(params![begins, format!("{begins}{}", char::MAX)], |row| {
        Ok((row.get::<_, usize>(0)?, row.get::<_, u64>(1)?))
    })?;
    let mut sum = 0;
    for count in counts {
        let (state, count) = count?;
        if states.is_empty() || states.contains(&super::columns::state(state)) {
            sum += count;
        }
    }
    Ok(Some(sum))
}

/// Number of jobs to look at in one call.
const ROWS: usize = 10_000;

/// How many of the next jobs whose ids begin this way are in any of these states, and where the rest begins.
pub(super) fn count_next(
    store: &Store,
    begins: &str,
    states: &[JobState],
    behind: Option<&str>,
) -> Result<(u64, Option<String>), Trouble> {
    // SQLite's own name for the index of `UNIQUE (jid)`. In the order of ids nothing is sorted.
    let mut statement = store.conn.prepare_cached(
        "SELECT jid, state FROM job INDEXED BY sqlite_autoindex_job_1 WHERE jid > ?1 AND jid < ?2
         ORDER BY jid LIMIT ?3",
    )?;
    let end = format!("{begins}{}", char::MAX);
    let mut rows = statement.query(params![behind.unwrap_or(begins), end, ROWS])?;
    let (mut count, mut seen) = (0, 0);
    while let Some(row) = rows.next()? {
        seen += 1;
        count += u64::from(states.is_empty() || states.contains(&state(row.get(1)?)));
        if seen == ROWS {
            return Ok((count, Some(row.get(0)?)));
        }
    }
    Ok((count, None))
}
