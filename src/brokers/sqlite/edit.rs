//! Changes that people make to a job: its priority, its tags, whether it is tracked, its removal.

use rusqlite::params;

use super::store::Store;
use super::trouble::Trouble;
use super::{history, needs, put, remove};
use broker::Error;
use model::verb::{Prioritize, SetData, Tag};
use model::{Fence, Happened, Instant, JobId, JobState, NewJob, PublishedEvent, What, tags_fault};

/// Adds a change to a job's history, and publishes it.
pub(super) fn note(store: &mut Store, id: &JobId, by: &str, now: i64, what: String) -> Result<(), Trouble> {
    let row = tell(store, id, &what)?;
    history::note(store, row, now, Happened::Edited { by: by.into(), what })
}

/// Publishes a change. Gives the row of the job.
fn tell(store: &mut Store, id: &JobId, what: &str) -> Result<i64, Trouble> {
    let (row, queue, state) = store.place(id)?;
    let news = store.news_of(id, queue, What::Edited, state)?;
    store.effects.news.extend(news.map(|news| PublishedEvent { why: Some(what.into()), ..news }));
    Ok(row)
}

/// The verb that is refused for an ended job: it may come back by `retry`, and get a priority then.
const PRIORITIZED: &str = "given another priority";

/// Changes the priority. Among jobs of the same priority, the job's place is that of its insertion.
pub(super) fn prioritize(
    store: &mut Store,
    verb: &Prioritize,
    by: &str,
    now: Instant,
) -> Result<(), Trouble> {
    let (row, _, state) = store.place(&verb.job)?;
    if state.has_ended() {
        return Err(Error::WrongState { id: verb.job.clone(), state, verb: PRIORITIZED }.into());
    }
    let before: i32 =
        store.conn.query_row("SELECT priority FROM job WHERE id = ?1", [row], |row| row.get(0))?;
    // A change that changes nothing is no entry in the history.
    if before == verb.priority {
        return Ok(());
    }
    store.conn.execute("UPDATE job SET priority = ?2 WHERE id = ?1", params![row, verb.priority])?;
    let what = format!("priority {}; it was {before}", verb.priority);
    note(store, &verb.job, by, store.millis(now), what)
}

/// Changes the data of a job, with which its next attempt begins. Only the holder of its lease may do this.
pub(super) fn set_data(store: &Store, verb: &SetData) -> Result<(), Trouble> {
    let (row, _, state) = store.place(&verb.job)?;
    if state != JobState::Running {
        return Err(Error::WrongState { id: verb.job.clone(), state, verb: "given other data" }.into());
    }
    let (fence, is_program): (u64, bool) =
        store.conn.query_row("SELECT fence, kind FROM job WHERE id = ?1", [row], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    let refused = |why: &str| Err(Error::Refused(format!("job '{}' {why}", verb.job)).into());
    match (Fence(fence) == verb.fence, is_program) {
        (false, _) => refused("is run by somebody else: its data is theirs to change"),
        (true, true) => refused("is a program, which has no data to change"),
        (true, false) if verb.data.0.len() > NewJob::DATA_MAX => refused(&format!(
            "cannot carry more than {} bytes: a worker could not be sent it",
            NewJob::DATA_MAX
        )),
        (true, false) => put::replace_data(store, row, &verb.data.0),
    }
}

/// Changes the tags of a job, and gives all tags that it has then.
pub(super) fn tag(store: &mut Store, verb: &Tag, by: &str, now: Instant) -> Result<Vec<String>, Trouble> {
    let (row, ..) = store.place(&verb.job)?;
    let text: Option<String> =
        store.conn.query_row("SELECT tags FROM job WHERE id = ?1", [row], |row| row.get(0))?;
    let before: Vec<String> = text.map_or_else(|| Ok(Vec::new()), |text| serde_json::from_str(&text))?;
    let tags = verb.applied(&before);
    if let Some(fault) = tags_fault(&tags) {
        return Err(Error::Refused(fault).into());
    }
    if tags == before {
        return Ok(tags);
    }
    let kept = (!tags.is_empty()).then(|| serde_json::to_string(&tags)).transpose()?;
    store.conn.execute("UPDATE job SET tags = ?2 WHERE id = ?1", params![row, kept])?;
    // The column has the tags of a job, the table has the jobs of a tag.
    untag(store, row, &before)?;
    put::write_tags(store, row, &tags)?;
    let what = if tags.is_empty() { "no tags".into() } else { format!("tags {}", tags.join(" ")) };
    note(store, &verb.job, by, store.millis(now), what)?;
    Ok(tags)
}

fn untag(store: &Store, row: i64, tags: &[String]) -> Result<(), Trouble> {
    for tag in tags {
        store
            .conn
            .prepare_cached("DELETE FROM tag WHERE tag = ?1 AND job = ?2")?
            .execute(params![tag, row])?;
    }
    Ok(())
}

pub(super) fn track(store: &mut Store, id: &JobId, now: Instant) -> Result<(), Trouble> {
    let (row, ..) = store.place(id)?;
    store.conn.execute(
        "INSERT OR IGNORE INTO tracked (job, at) VALUES (?1, ?2)",
        params![row, store.millis(now)],
    )?;
    tell(store, id, "tracked").map(drop)
}

pub(super) fn untrack(store: &mut Store, id: &JobId) -> Result<(), Trouble> {
    let (row, ..) = store.place(id)?;
    store.conn.execute("DELETE FROM tracked WHERE job = ?1", [row])?;
    tell(store, id, "not tracked any more").map(drop)
}

/// Removes a job that has ended and for which no job waits.
pub(super) fn discard(store: &mut Store, id: &JobId) -> Result<(), Trouble> {
    let (row, _, from) = store.place(id)?;
    if !from.has_ended() {
        return Err(Error::WrongState { id: id.clone(), state: from, verb: "discarded" }.into());
    }
    let by = needs::dependents(store, row, u32::MAX)?;
    if !by.is_empty() {
        return Err(Error::Needed { id: id.clone(), by, verb: "discarded" }.into());
    }
    remove::job(store, row)
}
