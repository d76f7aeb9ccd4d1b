//! Moves a job that is complete in its queue to another: the same job, as if it had been put there.

use rusqlite::params;

use super::history::{self, End};
use super::needs;
use super::store::Store;
use super::trouble::Trouble;
use super::unbegun;
use broker::Error;
use model::{Failure, Happened, JobState, Next, QueueName, Settlement, What, millis_up};

/// The row and the queue of a job.
pub(super) type Place = (i64, i64);

/// Why the job cannot go on there: then it is held for a person.
pub(super) fn fault(
    store: &Store,
    row: i64,
    job: &Settlement,
    next: &Next,
) -> Result<Option<Failure>, Trouble> {
    if let Some(fault) = next.fault() {
        return Ok(Some(next.refused(&fault)));
    }
    let checked = next
        .depends
        .iter()
        .try_for_each(|id| needs::must_be_waited_for(store, id).map(drop))
        .and_then(|()| needs::refuse_cycle(store, row, &job.job, &next.depends));
    match checked {
        Ok(()) => Ok(None),
        Err(Trouble::Mine(error @ (Error::Refused(_) | Error::NoneToNeed(_)))) => {
            Ok(Some(next.refused(&error.to_string())))
        }
        Err(trouble) => Err(trouble),
    }
}

/// Moves the job. What it leaves here goes into its history.
pub(super) fn go_on(
    store: &mut Store,
    (row, queue): Place,
    settlement: &Settlement,
    result: Option<&str>,
    next: &Next,
    now: i64,
) -> Result<(), Trouble> {
    let forensics = settlement.forensics.as_ref();
    history::attempt(store, row, now, End { forensics, ..End::new(JobState::Complete) })?;
    let from: String = store
        .conn
        .prepare_cached("SELECT name FROM queue WHERE id = ?1")?
        .query_row([queue], |row| row.get(0))?;
    history::note(store, row, now, Happened::advanced(QueueName::from(from), next.queue.clone(), result))?;
    let due = Some(now.saturating_add(millis_up(next.delay))).filter(|due| *due > now);
    let (to, due, not_before) = match due {
        due if needs::write(store, row, &next.depends)? => (JobState::Depends, None, due),
        Some(due) => (JobState::Delayed, Some(due), None),
        None => (JobState::Waiting, None, None),
    };
    let there = store.queue_made(&next.queue)?;
    store
        .conn
        .prepare_cached(
            // Each stage has all of its tries.
            "UPDATE job SET queue = ?2, state = ?3, due_at = ?4, not_before = ?5, attempt = 0, crashes = 0,
             interrupted = 0, unknown = 0, expires_at = NULL, instance = NULL, progress = NULL, result = NULL,
             failure = NULL, failure_group = NULL, forensics = NULL, ready_at = ?6 WHERE id = ?1",
        )?
        .execute(params![row, there, to as i64, due, not_before, now])?;
    unbegun::lift(store, row)?;
    store.advanced(queue, there, to);
    store.happened(&settlement.job, there, What::Advanced, to)?;
    if let Some(due) = due {
        store.expect(due);
    }
    Ok(())
}
