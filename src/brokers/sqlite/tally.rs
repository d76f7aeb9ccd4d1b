//! Counts of the jobs that a filter selects, from four columns: a quarter of the time that their records take.

use std::collections::VecDeque;

use rusqlite::Row;

use super::list::{self, Looked};
use super::read;
use super::store::Store;
use super::trouble::Trouble;
use model::{Counted, Cursor, Filter, JobCounts, JobId, Millis};

/// Number of rows to look at in one step: no longer for the store's thread than a page of a list.
const ROWS: u32 = 1_000;

/// Counts on among the next rows, up to the filter's limit, and gives where to go on.
pub(super) fn next(
    store: &mut Store,
    filter: &Filter,
    at: Option<Cursor>,
    mut counts: JobCounts,
    now: Millis,
) -> Result<(JobCounts, Option<Cursor>), Trouble> {
    // One row more shows whether there are others.
    let most = u64::from(filter.limit);
    let filter = &Filter { limit: filter.limit + 1, ..filter.clone() };
    let at = at.map_or_else(|| list::start(store, filter), Ok)?;
    let mut failures = VecDeque::new();
    let columns = Looked { columns: "job.id, jid, state, put_at, ended_at", rows: ROWS };
    let next = list::walk(store, filter, &columns, at, |row, _| {
        if counts.count() == most {
            counts.more = true;
            return Ok(false);
        }
        let counted = counted(row)?;
        if counted.has_failed() {
            // The first that were put come last, and their records are the ones that are kept.
            failures.truncate(JobCounts::FAILURES - 1);
            failures.push_front(JobId::from(row.get::<_, String>(1)?));
        }
        counts.add(&counted, now);
        Ok(true)
    })?;
    for id in failures.iter().rev() {
        counts.add_failure(&read::get(store, id)?);
    }
    let next = next.filter(|_| !counts.more);
    Ok((counts, next))
}

fn counted(row: &Row<'_>) -> Result<Counted, Trouble> {
    Ok(Counted {
        state: super::columns::state(row.get(2)?),
        put_at: Millis(row.get(3)?),
        ended_at: super::columns::moment(row, 4)?,
    })
}
