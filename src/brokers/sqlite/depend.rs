//! Makes jobs wait for others, or not wait any more, at a person's request.

use rusqlite::params;

use super::store::Store;
use super::trouble::Trouble;
use super::{edit, needs};
use broker::Error;
use model::verb::{DependOff, DependOn};
use model::{Instant, JobId, JobState};

pub(super) fn on(store: &mut Store, verb: &DependOn, by: &str, now: Instant) -> Result<JobState, Trouble> {
    let DependOn { job: id, jobs } = verb;
    let (row, queue, from) = store.place(id)?;
    if !matches!(from, JobState::Waiting | JobState::Delayed | JobState::Depends) {
        return Err(
            Error::WrongState { id: id.clone(), state: from, verb: "made to depend on others" }.into()
        );
    }
    let mut waits = false;
    // All are checked before the first is written, so that a refusal changes nothing.
    for needed in jobs {
        waits |= needs::must_be_waited_for(store, needed)?;
    }
    needs::refuse_cycle(store, row, id, jobs)?;
    if !waits {
        return Ok(from);
    }
    needs::write(store, row, jobs)?;
    if from != JobState::Depends {
        store
            .conn
            .prepare_cached("UPDATE job SET state = 8, not_before = due_at, due_at = NULL WHERE id = ?1")?
            .execute([row])?;
        store.moved(queue, Some(from), JobState::Depends);
    }
    edit::note(store, id, by, store.millis(now), format!("it depends on {}", listed(jobs)))?;
    Ok(JobState::Depends)
}

pub(super) fn off(store: &mut Store, verb: &DependOff, by: &str, now: Instant) -> Result<JobState, Trouble> {
    let DependOff { job: id, jobs } = verb;
    let (row, _, from) = store.place(id)?;
    if from != JobState::Depends {
        return Err(Error::WrongState {
            id: id.clone(),
            state: from,
            verb: "let off: it depends on nothing",
        }
        .into());
    }
    let now = store.millis(now);
    let what = match jobs {
        None => "all others".to_owned(),
        Some(jobs) => listed(jobs),
    };
    match jobs {
        None => drop(store.conn.execute("DELETE FROM dependency WHERE job = ?1", [row])?),
        Some(jobs) => {
            // An unknown id is refused before anything is removed.
            let rows = jobs.iter().map(|id| Ok(store.place(id)?.0)).collect::<Result<Vec<i64>, Trouble>>()?;
            for needed in rows {
                store
                    .conn
                    .prepare_cached("DELETE FROM dependency WHERE job = ?1 AND needs = ?2")?
                    .execute(params![row, needed])?;
            }
        }
    }
    edit::note(store, id, by, now, format!("it does not depend on {what} any more"))?;
    Ok(needs::set_free(store, row, now)?.unwrap_or(from))
}

fn listed(ids: &[JobId]) -> String {
    ids.iter().map(JobId::as_str).collect::<Vec<_>>().join(", ")
}
