//! Lists, page by page, with other requests in between: a list of a million jobs delays no fetch.

use rusqlite::{Row, params};

use super::read::{RECORD, payload, record, title};
use super::store::Store;
use super::trouble::Trouble;
use super::{history, recurring};
use model::{Cursor, Filter, JobId, JobRecord, JobState, Page, Payload, QueueName};

/// Number of rows to look at in one page: a limit on how long it blocks the store's thread.
const ROWS: u32 = 500;

/// Limit of the bytes of a page, without its last job: results may be large.
const BYTES: usize = 1 << 20;

/// Longest payload that is looked into.
const SHOWN: i64 = Payload::SHOWN as i64;

/// The matching jobs among the next rows.
pub(super) fn page(store: &mut Store, filter: &Filter, at: Option<Cursor>) -> Result<Page, Trouble> {
    let at = at.map_or_else(|| start(store, filter), Ok)?;
    let columns = format!(
        "{RECORD}, kind, CASE WHEN length(payload) <= {} THEN payload END",
        if filter.whole { i64::MAX } else { SHOWN }
    );
    let (store, mut jobs, mut bytes) = (&*store, Vec::new(), 0);
    let next = walk(store, filter, &Looked { columns: &columns, rows: ROWS }, at, |row, column| {
        let mut job = record(row)?;
        job.title = title(store, row, column - 2, &job.class);
        bytes += job.result.as_ref().map_or(0, String::len);
        if filter.whole {
            bytes += complete(store, &mut job, row, column - 2)?;
        }
        jobs.push(job);
        Ok(bytes < BYTES)
    })?;
    Ok(Page { jobs, next, cut: None })
}

/// What is read of the rows of a list.
pub(super) struct Looked<'a> {
    /// The columns. The first two are `job.id, jid`.
    pub columns: &'a str,
    /// Limit of the rows that are looked at.
    pub rows: u32,
}

/// Looks at the next rows of a list. `take` gets each that matches and the number of the column behind the asked ones, and
/// says whether it takes another. Returns where to go on.
pub(super) fn walk(
    store: &Store,
    filter: &Filter,
    looked: &Looked<'_>,
    at: Cursor,
    mut take: impl FnMut(&Row<'_>, usize) -> Result<bool, Trouble>,
) -> Result<Option<Cursor>, Trouble> {
    let Cursor { place, id, mut left, .. } = at;
    let mut statement = store.conn.prepare_cached(&query(filter, looked))?;
    let queue = filter.queue.as_ref().map(QueueName::as_str);
    let class = filter.class.as_ref().map(|class| class.as_str());
    let matches = statement.column_count() - 1;
    let Filter { group, recurring, tag, tracked, .. } = filter;
    let (since, until) = (filter.since.map(|at| at.0), filter.until.map(|at| at.0));
    let begins = filter.id_prefix.as_deref();
    // No id with this beginning sorts behind it with the greatest character added.
    let before = id
        .as_ref()
        .map(JobId::as_str)
        .map(str::to_owned)
        .or(begins.map(|begins| format!("{begins}{}", char::MAX)));
    let asked = params![place, queue, class, group, recurring, tag, tracked, since, until, begins, before];
    let mut found = statement.query(asked)?;
    let (mut seen, mut last, mut last_id, mut takes) = (0, place, id, true);
    while left > 0
        && takes
        && let Some(row) = found.next()?
    {
        (seen, last) = (seen + 1, row.get(0)?);
        if begins.is_some() {
            last_id = Some(row.get::<_, String>(1)?.into());
        }
        // For an empty column the condition is neither true nor false.
        if row.get::<_, Option<bool>>(matches)? == Some(true) {
            takes = take(row, matches)?;
            left -= 1;
        }
    }
    let goes_on = left > 0 && (seen == looked.rows || !takes);
    Ok(goes_on.then_some(Cursor { place: last, id: last_id, left, ..Cursor::default() }))
}

/// The next rows of a list, each with the asked columns and whether it matches.
fn query(filter: &Filter, looked: &Looked<'_>) -> String {
    // CROSS JOIN makes SQLite look at the jobs first, in their order, and then at the queue of each.
    let order = if filter.id_prefix.is_some() { "jid" } else { "id" };
    format!(
        "SELECT {}, {} AND (?2 IS NULL OR queue.name = ?2) AND (?3 IS NULL OR class = ?3)
         AND (?4 IS NULL OR failure_group = ?4)
         AND (?5 IS NULL OR job.recurring = (SELECT id FROM recurring WHERE name = ?5))
         AND (?8 IS NULL OR coalesce(ended_at, put_at) >= ?8) AND (?9 IS NULL OR coalesce(ended_at, put_at) < ?9)
         AND (?6 IS NULL OR EXISTS (SELECT 1 FROM tag WHERE tag.tag = ?6 AND tag.job = job.id))
         AND (?10 IS NULL OR jid < ?11) AND (NOT ?7 OR EXISTS (SELECT 1 FROM tracked WHERE tracked.job = job.id))
         FROM job CROSS JOIN queue ON queue.id = job.queue
         WHERE job.id IN (SELECT id FROM ({}) ORDER BY {order} DESC LIMIT {}) ORDER BY job.{order} DESC",
        looked.columns,
        is_in(&filter.states),
        rows(filter, looked.rows),
        looked.rows,
    )
}

/// Adds data and history, and gives the size of the data. Data that cannot be read is left out.
fn complete(store: &Store, job: &mut JobRecord, row: &Row<'_>, column: usize) -> Result<usize, Trouble> {
    let place = row.get(0)?;
    let Ok(payload) = payload(store, place, row, column) else { return Ok(0) };
    let bytes = match &payload {
        Payload::Data(data) => data.0.len(),
        Payload::Exec(_) => 0,
    };
    job.history = history::of(store, place)?;
    job.payload = Some(payload);
    Ok(bytes)
}

/// The place where a list begins: behind the job that it is to follow. A queue or a recurring job in the filter must
/// exist: otherwise a misspelled name would give an empty list.
pub(super) fn start(store: &mut Store, filter: &Filter) -> Result<Cursor, Trouble> {
    if let Some(queue) = &filter.queue {
        store.queue_there(queue)?;
    }
    if let Some(name) = &filter.recurring {
        recurring::must_have_been(store, name)?;
    }
    let place = match &filter.after {
        Some(id) => store.place(id)?.0,
        None => i64::MAX,
    };
    let left = if filter.limit == 0 { u64::MAX } else { filter.limit.into() };
    Ok(Cursor { place, id: filter.after.clone(), left, ..Cursor::default() })
}

/// Whether a row is in one of the states.
fn is_in(states: &[JobState]) -> String {
    let numbers: Vec<_> = states.iter().map(|state| (*state as usize).to_string()).collect();
    if numbers.is_empty() { "TRUE".into() } else { format!("state IN ({})", numbers.join(", ")) }
}

/// The rows to look at that are older than a place, by the best index: by id; else by tag, by failure group or among
/// tracked jobs; else by the indices of the states, if each has one.
fn rows(filter: &Filter, most: u32) -> String {
    const ALL: &str = "SELECT id FROM job NOT INDEXED WHERE id < ?1";
    if filter.id_prefix.is_some() {
        return "SELECT id, jid FROM job INDEXED BY sqlite_autoindex_job_1 WHERE jid >= ?10 AND jid < ?11"
            .into();
    }
    if filter.tag.is_some() {
        return "SELECT job AS id FROM tag WHERE tag = ?6 AND job < ?1".into();
    }
    if filter.group.is_some() {
        return "SELECT id FROM job INDEXED BY job_group WHERE failure_group = ?4 AND id < ?1".into();
    }
    if filter.tracked {
        return "SELECT job AS id FROM tracked WHERE job < ?1".into();
    }
    let ways: Option<Vec<String>> = filter.states.iter().map(|state| way_to(*state, most)).collect();
    ways.filter(|ways| !ways.is_empty()).map_or_else(|| ALL.into(), |ways| ways.join(" UNION "))
}

/// The next rows in a state that has an index. Jobs in the common states have none: the walk over all jobs finds them.
fn way_to(state: JobState, most: u32) -> Option<String> {
    let (index, condition) = match state {
        JobState::Waiting | JobState::Delayed | JobState::Complete => return None,
        JobState::Running | JobState::Canceling => ("job_expiry", "expires_at IS NOT NULL"),
        JobState::Depends | JobState::Failed | JobState::Held | JobState::Canceled => {
            ("job_odd", "state >= 5")
        }
    };
    let state = state as usize;
    Some(format!(
        "SELECT id FROM (SELECT id FROM job INDEXED BY {index} WHERE state = {state} AND {condition} AND id < ?1
         ORDER BY id DESC LIMIT {most})"
    ))
}
