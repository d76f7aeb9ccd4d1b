//! Requests of people, and of a supervisor that starts.

use rusqlite::params;
use tokio::sync::mpsc::UnboundedSender;

use super::lapse::{HELD_LEASE, HeldLease, held_lease, take_back};
use super::store::{Store, Waiter};
use super::trouble::Trouble;
use super::{figures, history, learn, leaseless, needs, unbegun};
use broker::{Error, JobEnd};
use model::{Fence, Happened, Instance, Instant, JobId, JobState, QueueName, What, WorkerId, name_fault};

pub(super) fn retry(store: &mut Store, id: &JobId, by: &str, now: Instant) -> Result<(), Trouble> {
    let (row, queue, from) = store.place(id)?;
    if !from.has_ended() {
        return Err(Error::WrongState { id: id.clone(), state: from, verb: "retried" }.into());
    }
    learn::forget_delivery(store, id)?;
    put_back(store, id, row, queue, from, by, store.millis(now))
}

/// Puts an ended job back to waiting.
pub(super) fn put_back(
    store: &mut Store,
    id: &JobId,
    row: i64,
    queue: i64,
    from: JobState,
    by: &str,
    now: i64,
) -> Result<(), Trouble> {
    if from == JobState::Complete {
        // The row is about to lose what it says of the attempt that completed the job.
        history::complete(store, row)?;
        // What waited for this job goes on: it does not wait for a second run.
        needs::release_rest(store, row, now)?;
    }
    history::note(store, row, now, Happened::Retried { by: by.into(), from })?;
    if from == JobState::Failed {
        figures::mended(store, row, queue)?;
    }
    // It may have been canceled before all jobs that it needs were complete.
    let to = if needs::any(store, row)? { JobState::Depends } else { JobState::Waiting };
    store
        .conn
        .prepare_cached(
            "UPDATE job SET state = ?2, attempt = 0, crashes = 0, interrupted = 0, unknown = 0, ended_at = NULL,
             due_at = NULL, progress = NULL, result = NULL, failure = NULL, failure_group = NULL, ready_at = ?3
             WHERE id = ?1",
        )?
        .execute(params![row, to as i64, now])?;
    unbegun::lift(store, row)?;
    store.moved(queue, Some(from), to);
    store.happened(id, queue, What::Retried, to)?;
    Ok(())
}

pub(super) fn pause(
    store: &mut Store,
    queue: &QueueName,
    by: &str,
    reason: Option<&str>,
    now: Instant,
) -> Result<(), Trouble> {
    if let Some(fault) = name_fault("a queue's name", queue.as_str()) {
        return Err(Error::Refused(fault).into());
    }
    let id = store.queue_made(queue)?;
    store.conn.execute(
        // Of two pauses the first says since when, the last by whom and why.
        "UPDATE queue SET paused_at = coalesce(paused_at, ?2), paused_by = ?3, reason = ?4 WHERE id = ?1",
        params![id, store.millis(now), by, reason],
    )?;
    store.queues.remove(queue);
    Ok(())
}

pub(super) fn resume(store: &mut Store, queue: &QueueName) -> Result<(), Trouble> {
    let found = store.queue_there(queue)?;
    store.conn.execute(
        "UPDATE queue SET paused_at = NULL, paused_by = NULL, reason = NULL WHERE id = ?1",
        [found.id],
    )?;
    store.queues.remove(queue);
    store.effects.wake.add(queue.clone().into());
    // Other processes have workers that wait for jobs of this queue.
    store.effects.ring = true;
    Ok(())
}

pub(super) fn recover(
    store: &mut Store,
    instance: &Instance,
    keep: &[(JobId, Fence)],
    now: Instant,
) -> Result<u64, Trouble> {
    let now = store.millis(now);
    leaseless::put_back(store, now)?;
    let mut statement = store.conn.prepare_cached(&format!(
        "SELECT {HELD_LEASE} FROM job INDEXED BY job_expiry WHERE expires_at IS NOT NULL AND instance = ?1"
    ))?;
    let held: Vec<_> = statement.query_map([instance.as_str()], held_lease)?.collect::<Result<_, _>>()?;
    drop(statement);
    let is_kept = |lease: &HeldLease| keep.contains(&(lease.job.clone(), lease.fence));
    let (kept, released): (Vec<_>, Vec<_>) = held.into_iter().partition(is_kept);
    store.effects.granted.extend(kept.into_iter().map(|lease| (lease.job, lease.fence)));
    // A job that ran alone is held after fewer deaths: no other can have caused them.
    let ran_alone = released.len() == 1;
    for lease in &released {
        take_back(store, lease, ran_alone, now)?;
        store.effects.given_up.push(lease.job.clone());
    }
    Ok(released.len() as u64)
}

pub(super) fn held_by(store: &Store, instance: &Instance) -> Result<Vec<(JobId, Fence, WorkerId)>, Trouble> {
    let mut statement = store.conn.prepare_cached(
        "SELECT jid, fence, worker FROM job INDEXED BY job_expiry WHERE expires_at IS NOT NULL AND instance = ?1 ORDER BY id",
    )?;
    let rows = statement.query_map([instance.as_str()], |row| {
        let worker = WorkerId::from_u64(row.get::<_, i64>(2)? as u64);
        Ok((row.get::<_, String>(0)?.into(), Fence(row.get(1)?), worker))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Tells how each of these jobs ends. If one has ended already, that may not be on disk yet: the answer still waits for
/// the disk. The first call takes `told`: one that is repeated, as its transaction was rolled back, adds no callers.
pub(super) fn tell_ends(
    store: &mut Store,
    jobs: &[JobId],
    told: &mut Option<UnboundedSender<JobEnd>>,
) -> Result<(), Trouble> {
    let told = told.take();
    for job in jobs {
        let waiter = told.clone().map(|told| Waiter { job: job.clone(), told });
        match store.place(job) {
            Ok((_, _, state)) if state.has_ended() => store.effects.ended.push((job.clone(), state)),
            Ok(_) => {}
            Err(Trouble::Mine(no)) => {
                waiter.into_iter().for_each(|waiter| waiter.tell(Err(no.clone())));
                continue;
            }
            Err(trouble) => return Err(trouble),
        }
        waiter.into_iter().for_each(|waiter| store.wait(waiter));
    }
    Ok(())
}
