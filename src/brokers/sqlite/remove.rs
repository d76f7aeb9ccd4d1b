//! Removes a job with everything stored for it. Its output is removed by the quota of the logs.

use rusqlite::{OptionalExtension, params};

use super::columns::{self, state};
use super::store::Store;
use super::trouble::Trouble;
use model::{JobState, PublishedEvent, What};

/// A condition: whether other jobs wait for the `job` of a statement.
pub(super) const IS_NEEDED: &str =
    "EXISTS (SELECT 1 FROM dependency JOIN job AS other ON other.id = dependency.job
    WHERE needs = job.id AND other.state = 8)";

/// Removes one job completely. The caller has made sure that no other job needs it and that it does not run.
pub(super) fn job(store: &mut Store, row: i64) -> Result<(), Trouble> {
    let found = store
        .conn
        .prepare_cached(
            "DELETE FROM job WHERE id = ?1 RETURNING queue, state, tags, recurring, coalesce(ended_at, 0),
             jid",
        )?
        .query_row([row], |found| {
            // Tags that cannot be read have no index rows.
            let tags: Option<Vec<String>> = columns::json(found, 2).ok().flatten();
            let recurring: Option<i64> = found.get(3)?;
            Ok((
                found.get(0)?,
                state(found.get(1)?),
                tags,
                recurring,
                found.get(4)?,
                found.get::<_, String>(5)?,
            ))
        })
        .optional()?;
    let Some((queue, from, tags, recurring, ended_at, id)) = found else { return Ok(()) };
    for table in ["body", "history", "tracked", "dependency"] {
        store.conn.prepare_cached(&format!("DELETE FROM {table} WHERE job = ?1"))?.execute([row])?;
    }
    store.conn.prepare_cached("DELETE FROM dependency WHERE needs = ?1")?.execute([row])?;
    let tags = tags.unwrap_or_default();
    for tag in &tags {
        let mut statement = store.conn.prepare_cached("DELETE FROM tag WHERE tag = ?1 AND job = ?2")?;
        statement.execute(params![tag, row])?;
    }
    if let Some(recurring) = recurring {
        let forget = "UPDATE recurring SET latest = NULL WHERE id = ?1 AND latest = ?2";
        store.conn.prepare_cached(forget)?.execute([recurring, row])?;
    }
    store.gone(queue, from);
    let news = store.news_of(&id.into(), queue, What::Removed, from)?;
    store.effects.news.extend(news.map(|news| PublishedEvent { tags, ..news }));
    if from == JobState::Failed {
        store.effects.figures.on(queue, ended_at).failed -= 1;
    }
    Ok(())
}
