//! Jobs that are said to run, and of which no lease is recorded: nobody would ever end them or take them back. Only a
//! damaged file has them.

use rusqlite::params;

use super::store::Store;
use super::trouble::Trouble;
use model::JobState;

/// Larger files are not looked through at each start: every job would be read.
const SEARCHED_MAX: i64 = 16 << 20;

/// The counters of a queue, by the state that each counts.
const COUNTERS: [(&str, JobState); 9] = [
    ("waiting", JobState::Waiting),
    ("delayed", JobState::Delayed),
    ("depends", JobState::Depends),
    ("running", JobState::Running),
    ("canceling", JobState::Canceling),
    ("complete", JobState::Complete),
    ("failed", JobState::Failed),
    ("held", JobState::Held),
    ("canceled", JobState::Canceled),
];

/// Puts such jobs back, or has them canceled, and names them. The store is damaged, so this also rebuilds its
/// indexes and counters from the jobs.
pub(super) fn put_back(store: &mut Store, now: i64) -> Result<(), Trouble> {
    if size(store)? > SEARCHED_MAX {
        return Ok(());
    }
    let found: Vec<String> = store
        .conn
        .prepare("SELECT jid FROM job NOT INDEXED WHERE state IN (2, 3) AND expires_at IS NULL")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    if found.is_empty() {
        return Ok(());
    }
    for job in &found {
        tracing::error!(
            job,
            "the store is damaged: it says that this job runs, and nobody has a lease on it; it is put back"
        );
    }
    // First, as the counters are made of the jobs below: what is added later would count twice.
    store.write_counts()?;
    store.conn.execute_batch("REINDEX job")?;
    store.conn.execute(
        "UPDATE job NOT INDEXED SET ended_at = CASE state WHEN 3 THEN ?1 END, state = CASE state WHEN 3 THEN 7 ELSE 0 END,
         due_at = NULL, instance = NULL, ready_at = ?1 WHERE state IN (2, 3) AND expires_at IS NULL",
        params![now],
    )?;
    let counts: Vec<String> = COUNTERS
        .iter()
        .map(|(name, state)| {
            let state = *state as usize;
            format!("{name} = (SELECT count(*) FROM job WHERE job.queue = queue.id AND job.state = {state})")
        })
        .collect();
    store.conn.execute(&format!("UPDATE queue SET {}", counts.join(", ")), [])?;
    Ok(())
}

fn size(store: &Store) -> Result<i64, rusqlite::Error> {
    let read = |pragma: &str| store.conn.query_row(pragma, [], |row| row.get::<_, i64>(0));
    Ok(read("PRAGMA page_count")? * read("PRAGMA page_size")?)
}
