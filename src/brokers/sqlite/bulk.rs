//! Changes many jobs: each call handles the next part and says where to go on, so that a million jobs neither block the
//! store's thread nor need one answer.

use rusqlite::{Row, params};

use super::remove::IS_NEEDED;
use super::store::Store;
use super::trouble::Trouble;
use super::{admin, learn, remove};
use broker::Error;
use model::verb::{Act, Bulk, Swept};
use model::{Class, Instant, JobId, JobState, QueueName};

/// Number of jobs to look at in one call.
pub(super) const STRETCH: u64 = 500;
/// Limit of the ids in an answer.
pub(super) const SHOWN: usize = 10;

/// A matching job.
struct Match {
    row: i64,
    queue: i64,
    id: JobId,
    is_needed: bool,
}

pub(super) fn sweep(store: &mut Store, asked: &Bulk, by: &str, now: Instant) -> Result<Swept, Trouble> {
    if let Some(fault) = asked.fault() {
        return Err(Error::Refused(fault).into());
    }
    if let Some(queue) = &asked.queue {
        store.queue_there(queue)?;
    }
    let now = store.millis(now);
    let (last, matches) = next(store, asked)?;
    let mut swept = Swept::default();
    for one in matches {
        if asked.limit.is_some_and(|limit| swept.count >= limit) {
            return Ok(swept);
        }
        if one.is_needed && asked.act == Act::Discard {
            swept.needed += 1;
            continue;
        }
        match asked.act {
            _ if asked.dry_run => {}
            Act::Retry => {
                learn::forget_delivery(store, &one.id)?;
                admin::put_back(store, &one.id, one.row, one.queue, asked.state, by, now)?;
            }
            Act::Discard => remove::job(store, one.row)?,
        }
        swept.count += 1;
        if swept.jobs.len() < SHOWN {
            swept.jobs.push(one.id);
        }
    }
    swept.next = last.filter(|_| asked.limit.is_none_or(|limit| swept.count < limit));
    Ok(swept)
}

/// The matching jobs among the next ones, and the last row looked at if there may be more.
fn next(store: &Store, asked: &Bulk) -> Result<(Option<i64>, Vec<Match>), Trouble> {
    let (index, condition) = way_to(asked);
    let mut statement = store.conn.prepare_cached(&format!(
        // The stretch is counted in rows, not in matches: a filter that finds nothing moves on, too.
        "SELECT count(*), max(id) FROM
         (SELECT id FROM job {index} WHERE {condition} AND id > ?3 ORDER BY id LIMIT {STRETCH})"
    ))?;
    let after = asked.after.unwrap_or(i64::MIN);
    let (state, group) = (asked.state as i64, asked.group.as_deref());
    let (seen, last): (u64, Option<i64>) =
        statement.query_row(params![state, group, after], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut statement = store.conn.prepare_cached(&format!(
        "SELECT job.id, queue, jid, {IS_NEEDED}
         FROM job {index} JOIN queue ON queue.id = job.queue
         WHERE {condition} AND state = ?1 AND job.id > ?3 AND job.id <= ?4 AND (?5 IS NULL OR class = ?5)
         AND (?6 IS NULL OR queue.name = ?6) AND (?7 IS NULL OR ended_at >= ?7) ORDER BY job.id"
    ))?;
    let (class, queue) =
        (asked.class.as_ref().map(Class::as_str), asked.queue.as_ref().map(QueueName::as_str));
    let since = asked.since.map(|since| since.0);
    let found = statement.query_map(params![state, group, after, last, class, queue, since], a_match)?;
    Ok((last.filter(|_| seen == STRETCH), found.collect::<Result<_, _>>()?))
}

fn a_match(row: &Row<'_>) -> Result<Match, rusqlite::Error> {
    let id = row.get_ref(2)?.as_str()?.into();
    Ok(Match { row: row.get(0)?, queue: row.get(1)?, id, is_needed: row.get(3)? })
}

/// The index to use for the jobs, and its condition.
fn way_to(asked: &Bulk) -> (&'static str, &'static str) {
    match asked.state {
        _ if asked.group.is_some() => ("INDEXED BY job_group", "?1 IS NOT NULL AND failure_group = ?2"),
        JobState::Failed | JobState::Held | JobState::Canceled => {
            ("INDEXED BY job_odd", "?2 IS NULL AND state = ?1 AND state >= 5")
        }
        // Complete jobs have no index: the walk over all jobs finds them.
        JobState::Complete
        | JobState::Waiting
        | JobState::Delayed
        | JobState::Depends
        | JobState::Running
        | JobState::Canceling => ("NOT INDEXED", "?1 IS NOT NULL AND ?2 IS NULL"),
    }
}
