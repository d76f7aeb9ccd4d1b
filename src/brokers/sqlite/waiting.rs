//! Finds the jobs of a queue that a fetch can take.

use rusqlite::Row;

use super::columns;
use super::read;
use super::store::{STRETCH, Store};
use super::trouble::Trouble;
use super::unreadable::{self, Unreadable};
use model::{Class, ClassFilter, Instant, Job, QueueSet};

/// A waiting job, with the columns that a lease on it needs.
pub(super) struct Found {
    pub(super) row: i64,
    pub(super) fence: u64,
    /// Since when the job has waited, in store time, if that is known.
    pub(super) ready: Option<i64>,
    pub(super) job: Job,
}

/// The first jobs of a queue that the filter allows. Jobs that cannot be read are held on the way. `None` when these
/// are more than [`STRETCH`], as other requests would wait: the next fetch goes on.
pub(super) fn first(
    store: &mut Store,
    queue: i64,
    filter: &ClassFilter,
    most: usize,
    now: Instant,
) -> Result<Option<Vec<Found>>, Trouble> {
    let mut held = 0;
    while held < STRETCH {
        let (found, unreadable) = look(store, queue, filter, most, store.millis(now))?;
        if unreadable.is_empty() {
            return Ok(Some(found));
        }
        held += unreadable.len();
        for one in unreadable {
            unreadable::hold(store, queue, one, store.millis(now))?;
        }
    }
    store.effects.wake = QueueSet::All;
    Ok(None)
}

fn look(
    store: &Store,
    queue: i64,
    filter: &ClassFilter,
    most: usize,
    now: i64,
) -> Result<(Vec<Found>, Vec<Unreadable>), Trouble> {
    // Jobs that were to begin by now fail in parts: the rest of them must not begin meanwhile.
    let mut statement = store.conn.prepare_cached(&format!(
        "SELECT id, fence, jid, class, priority, attempt, crashes, interrupted, tags, retries, delay_ns, cap_ns,
         limit_ns, kind, payload, unknown, coalesce(ready_at, put_at) FROM job WHERE state = 0 AND queue = ?1
         AND NOT (attempt = 0 AND EXISTS (SELECT 1 FROM unbegun WHERE unbegun.job = job.id AND at <= ?3)){} ORDER BY priority DESC, id LIMIT ?2",
        condition(filter)
    ))?;
    statement.raw_bind_parameter(1, queue)?;
    statement.raw_bind_parameter(2, i64::try_from(most).unwrap_or(i64::MAX))?;
    statement.raw_bind_parameter(3, now)?;
    for (n, name) in filter.only.iter().chain(&filter.except).enumerate() {
        let name = name.as_str();
        statement.raw_bind_parameter(4 + n, name.strip_suffix('*').unwrap_or(name))?;
    }
    let mut rows = statement.raw_query();
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next()? {
        match read_found(store, row) {
            Ok(one) => found.push(one),
            Err(trouble) => match unreadable::fault(&trouble) {
                Some(why) => unreadable.push((row.get(0)?, why)),
                None => return Err(trouble),
            },
        }
    }
    Ok((found, unreadable))
}

/// The condition of [`ClassFilter::matches`] in SQL, with the names as parameters from 4 on; empty for a filter that
/// allows all. No index covers it: the index gives the order, and other classes are skipped.
fn condition(filter: &ClassFilter) -> String {
    let mut parameters = 4..;
    let mut any_of = |names: &[Class]| -> String {
        let each =
            names.iter().zip(parameters.by_ref()).map(|(name, n)| match name.as_str().ends_with('*') {
                // Neither LIKE nor GLOB: a class may contain their wildcards.
                true => format!("substr(class, 1, length(?{n})) = ?{n}"),
                false => format!("class = ?{n}"),
            });
        each.collect::<Vec<_>>().join(" OR ")
    };
    let (only, except) = (any_of(&filter.only), any_of(&filter.except));
    let mut condition = String::new();
    if !only.is_empty() {
        condition += &format!(" AND ({only})");
    }
    if !except.is_empty() {
        condition += &format!(" AND NOT ({except})");
    }
    condition
}

fn read_found(store: &Store, row: &Row<'_>) -> Result<Found, Trouble> {
    let id: i64 = row.get(0)?;
    let job = Job {
        id: row.get_ref(2)?.as_str().unwrap_or_default().into(),
        // The caller knows the name.
        queue: "".into(),
        class: row.get_ref(3)?.as_str().unwrap_or_default().into(),
        priority: row.get(4)?,
        attempt: row.get::<_, u32>(5)?.saturating_add(1),
        crashes: row.get(6)?,
        interrupted: row.get(7)?,
        unknown: row.get(15)?,
        tags: columns::json(row, 8)?.unwrap_or_default(),
        retry: columns::retry(row, 9)?,
        time_limit: columns::duration(row, 12)?,
        payload: read::payload(store, id, row, 13)?,
    };
    Ok(Found { row: id, fence: row.get(1)?, ready: row.get(16)?, job })
}
