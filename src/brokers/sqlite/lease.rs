//! Leases: given by fetch, kept by renewal.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{OptionalExtension, params};

use super::columns::state;
use super::lapse;
use super::needs;
use super::occur;
use super::store::{STRETCH, Store};
use super::trouble::Trouble;
use super::unbegun;
use super::waiting::{self, Found};
use broker::{Fetch, Renewal};
use common::stored;
use model::{
    Fence, Fetched, Instant, Job, JobId, JobState, Lease, Progress, QueueName, Revocation, Take, What,
    WorkerId, millis_up,
};
use select::Turns;

pub(super) fn fetch(store: &mut Store, request: &Fetch, now: Instant) -> Result<Vec<Fetched>, Trouble> {
    let mut round = Round { request, now, workers: request.workers.iter(), fetched: Vec::new() };
    let mut turns = Turns::new(request.take, open_queues(store, &request.queues)?);
    // In order, one read takes all that a queue has for us.
    let at_once = match request.take {
        Take::InOrder => usize::MAX,
        Take::InTurn => 1,
    };
    while round.workers.len() > 0
        && let Some(queue) = turns.queue()
    {
        match round.take(store, queue, at_once)? {
            given if given == at_once => turns.gave(),
            _ => turns.had_none(),
        }
    }
    Ok(round.fetched)
}

/// The queues that exist and are not paused.
fn open_queues(store: &mut Store, names: &[QueueName]) -> Result<Vec<(i64, QueueName)>, Trouble> {
    let mut queues = Vec::with_capacity(names.len());
    for name in names {
        if let Some(queue) = store.queue(name)?.filter(|queue| !queue.paused) {
            queues.push((queue.id, name.clone()));
        }
    }
    Ok(queues)
}

/// The state of a fetch.
struct Round<'a> {
    request: &'a Fetch,
    now: Instant,
    /// Workers that have no job so far.
    workers: std::slice::Iter<'a, WorkerId>,
    fetched: Vec<Fetched>,
}

impl Round<'_> {
    /// Takes the first jobs of a queue, for as many workers as are left; gives how many.
    fn take(
        &mut self,
        store: &mut Store,
        (queue, name): &(i64, QueueName),
        most: usize,
    ) -> Result<usize, Trouble> {
        let most = most.min(self.workers.len()).min(store.room(*queue, name)?);
        if most == 0 {
            return Ok(0);
        }
        let filter = &self.request.filter;
        if store.barren.has(*queue, filter) {
            return Ok(0);
        }
        let Some(found) = waiting::first(store, *queue, &self.request.filter, most, self.now)? else {
            return Ok(0);
        };
        let count = found.len();
        if count < most {
            // The queue has given fewer than were asked for: it has no more that match.
            store.barren.note(*queue, filter);
        }
        for (found, worker) in found.into_iter().zip(self.workers.by_ref()) {
            let lease = grant(store, self.request, *queue, *worker, &found, self.now)?;
            store.moved(*queue, Some(JobState::Waiting), JobState::Running);
            let job = &found.job;
            store.happened_to(&job.id, (name, &job.class, &job.tags), What::Fetched, JobState::Running);
            let waited = found.ready.map(|since| store.waited(since, self.now));
            let job = Job { queue: name.clone(), ..found.job };
            self.fetched.push(Fetched { job: Arc::new(job), lease, waited });
        }
        Ok(count)
    }
}

pub(super) fn grant(
    store: &mut Store,
    request: &Fetch,
    queue: i64,
    worker: WorkerId,
    found: &Found,
    now: Instant,
) -> Result<Lease, rusqlite::Error> {
    let fence = Fence(found.fence + 1);
    let started = store.millis(now);
    let expires = started.saturating_add(millis_up(request.lease));
    store
        .conn
        .prepare_cached(
            "UPDATE job SET state = 2, attempt = ?2, fence = ?3, instance = ?4, worker = ?5, pool = ?8, started_at = ?6,
             expires_at = ?7, progress = NULL, renewals = 0, renewed_at = NULL, grace = 0 WHERE id = ?1",
        )?
        .execute(params![
            found.row,
            found.job.attempt,
            fence.0,
            request.instance.as_str(),
            worker.to_u64() as i64,
            started,
            expires,
            &*request.pool
        ])?;
    Ok(granted(store, request, (queue, found.ready), (&found.job.id, fence), now))
}

/// Notes a lease that was written, of a job of this queue that has waited since `ready`, if that is known.
pub(super) fn granted(
    store: &mut Store,
    request: &Fetch,
    (queue, ready): (i64, Option<i64>),
    (id, fence): (&JobId, Fence),
    now: Instant,
) -> Lease {
    let started = store.millis(now);
    store.expect(started.saturating_add(millis_up(request.lease)));
    if let Some(ready) = ready {
        store.effects.figures.on(queue, started).wait.add(started - ready);
    }
    store.effects.granted.push((id.clone(), fence));
    Lease { job: id.clone(), fence, expires_at: now + request.lease }
}

pub(super) fn renew(
    store: &mut Store,
    leases: &[Lease],
    by: Duration,
    now: Instant,
) -> Result<Vec<Renewal>, Trouble> {
    let now_millis = store.millis(now);
    let expires = now_millis.saturating_add(millis_up(by));
    let renew = |lease: &Lease| {
        let state = store
            .conn
            .prepare_cached(
                // Running or canceling: a canceled job keeps its lease until its processes are dead.
                "UPDATE job SET expires_at = ?3, renewals = renewals + 1, renewed_at = ?4, grace = 0
                 WHERE jid = ?1 AND fence = ?2 AND state BETWEEN 2 AND 3 RETURNING state",
            )?
            .query_row(params![lease.job.as_str(), lease.fence.0, expires, now_millis], |row| {
                Ok(state(row.get(0)?))
            })
            .optional()?;
        // A job whose loss was reported before is followed again.
        if state.is_some() && !store.leases.contains_key(&lease.job) {
            store.effects.granted.push((lease.job.clone(), lease.fence));
        }
        Ok(match state {
            Some(JobState::Running) => Renewal::Renewed(Lease { expires_at: now + by, ..lease.clone() }),
            Some(JobState::Canceling) => Renewal::Canceling(Lease { expires_at: now + by, ..lease.clone() }),
            _ => Renewal::Lost(Revocation::LockLost),
        })
    };
    leases.iter().map(renew).collect()
}

/// Stores the progress of running jobs.
pub(super) fn progress(store: &mut Store, notes: &[(JobId, Fence, Progress)]) -> Result<(), Trouble> {
    for (job, fence, progress) in notes {
        let text = stored::to_json(progress)?;
        store
            .conn
            .prepare_cached(
                "UPDATE job SET progress = ?3 WHERE jid = ?1 AND fence = ?2 AND state BETWEEN 2 AND 3",
            )?
            .execute(params![job.as_str(), fence.0, text])?;
    }
    Ok(())
}

/// Handles what has become due: delayed jobs, expired leases, and recurring jobs.
pub(super) fn come_due(store: &mut Store, now: i64) -> Result<(), Trouble> {
    if store.next_due.is_none_or(|due| due > now) {
        return Ok(());
    }
    // Before the others wait: what is late for a fetch that comes with its time must not be given out by it.
    unbegun::come_due(store, now)?;
    promote(store, now)?;
    if store.expires() {
        lapse::expire(store, now)?;
    }
    occur::come_due(store, now)?;
    store.next_due = store.next_due_on_file()?;
    Ok(())
}

/// Handles due jobs: delayed ones wait, and complete ones release more of their dependents. One part at a time; the
/// rest stays due.
fn promote(store: &mut Store, now: i64) -> Result<(), Trouble> {
    let mut statement = store
        .conn
        .prepare_cached("SELECT id, queue, state FROM job WHERE due_at <= ?1 ORDER BY due_at LIMIT ?2")?;
    let found = statement
        .query_map(params![now, STRETCH], |row| Ok((row.get(0)?, row.get(1)?, state(row.get(2)?))))?;
    let due: Vec<(i64, i64, JobState)> = found.collect::<Result<_, _>>()?;
    drop(statement);
    for (row, queue, from) in due {
        if from == JobState::Complete {
            // These come in parts of their own.
            return needs::release_more(store, row, now);
        }
        store
            .conn
            .prepare_cached("UPDATE job SET state = 0, ready_at = due_at, due_at = NULL WHERE id = ?1")?
            .execute([row])?;
        store.moved(queue, Some(from), JobState::Waiting);
    }
    Ok(())
}
