//! Leases: given by fetch, kept by renewal, ended by time.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{OptionalExtension, Row, params};

use super::columns::state;
use super::history::{self, End};
use super::needs;
use super::occur;
use super::settle::group;
use super::store::{STRETCH, Store};
use super::trouble::Trouble;
use super::unbegun;
use super::waiting::{self, Found};
use broker::{Fetch, Renewal};
use common::stored;
use model::{
    Count, Failure, Fence, Fetched, Instant, Job, JobId, JobState, Lease, OptionName, Progress, QueueName,
    Revocation, Take, What, WorkerId, millis_up,
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
            store.happened(&found.job.id, *queue, What::Fetched, JobState::Running)?;
            let waited = Some(store.waited(found.ready, self.now));
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

/// Notes a lease that was written, of a job of this queue that has waited since `since`.
pub(super) fn granted(
    store: &mut Store,
    request: &Fetch,
    (queue, ready): (i64, i64),
    (id, fence): (&JobId, Fence),
    now: Instant,
) -> Lease {
    let started = store.millis(now);
    store.expect(started.saturating_add(millis_up(request.lease)));
    store.effects.figures.on(queue, started).wait.add(started - ready);
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
        expire(store, now)?;
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

/// A lease that a process holds.
pub(super) struct HeldLease {
    pub(super) row: i64,
    pub(super) queue: i64,
    pub(super) job: JobId,
    pub(super) fence: Fence,
    pub(super) state: JobState,
    pub(super) interrupted: u32,
}

/// The columns [`held_lease`] reads.
pub(super) const HELD_LEASE: &str = "id, queue, jid, fence, state, interrupted";

pub(super) fn held_lease(row: &Row<'_>) -> Result<HeldLease, rusqlite::Error> {
    Ok(HeldLease {
        row: row.get(0)?,
        queue: row.get(1)?,
        job: row.get_ref(2)?.as_str().unwrap_or_default().into(),
        fence: Fence(row.get(3)?),
        state: state(row.get(4)?),
        interrupted: row.get(5)?,
    })
}

/// An end of a lease that is noticed later than this says that nobody could renew it: the machine was paused, this
/// process was stopped, or the disk has failed.
const LATE: i64 = 1_000;
/// The least grace after that.
const SETTLING: Duration = Duration::from_secs(10);

/// An expired lease is lost, and its holder is notified. For a short time no one else gets the job: the holder may be
/// ending it, and may yet renew or settle. That time begins when the end is noticed: what keeps this process from
/// looking keeps the holder from renewing. If it is noticed late, that time is long enough for each holder to come first,
/// and the holder gets no revocation: it asks.
fn expire(store: &mut Store, now: i64) -> Result<(), Trouble> {
    let mut statement = store
        .conn
        .prepare_cached(&format!("SELECT {HELD_LEASE}, expires_at, grace FROM job WHERE expires_at <= ?1"))?;
    let expired: Vec<(HeldLease, i64, bool)> = statement
        .query_map([now], |row| Ok((held_lease(row)?, row.get(6)?, row.get(7)?)))?
        .collect::<Result<_, _>>()?;
    drop(statement);
    for (lease, at, in_grace) in expired {
        let is_late = now.saturating_sub(at) >= LATE;
        let grace = grace(store, lease.queue)?.max(if is_late { SETTLING } else { Duration::ZERO });
        let end = if in_grace { at } else { now.saturating_add(millis_up(grace)) };
        let is_over = end <= now;
        if is_over {
            // Its holder may have had other jobs; that is not known any more.
            take_back(store, &lease, false, now)?;
        } else {
            store
                .conn
                .prepare_cached("UPDATE job SET grace = 1, expires_at = ?2 WHERE id = ?1")?
                .execute([lease.row, end])?;
            store.expect(end);
        }
        if is_over || !is_late {
            store.effects.revoked.push((lease.job, lease.fence, Revocation::LockLost));
        }
    }
    Ok(())
}

/// Ends leases that their broker says are lost, each with what its end counts as. A ledger does not know it by itself:
/// its broker may be silent.
pub(super) fn lose(store: &mut Store, lost: &[(JobId, Fence, Count)], now: i64) -> Result<(), Trouble> {
    for (job, fence, counts) in lost {
        let held = store
            .conn
            .prepare_cached(&format!(
                "SELECT {HELD_LEASE} FROM job WHERE jid = ?1 AND fence = ?2 AND state BETWEEN 2 AND 3"
            ))?
            .query_row(params![job.as_str(), fence.0], held_lease)
            .optional()?;
        match held {
            // The broker does not tell whether its holder had other jobs.
            Some(lease) if *counts == Count::Interrupted => take_back(store, &lease, false, now)?,
            Some(lease) => give_up(store, &lease, now)?,
            None => {}
        }
    }
    Ok(())
}

fn grace(store: &mut Store, queue: i64) -> Result<Duration, rusqlite::Error> {
    let mut statement = store.conn.prepare_cached("SELECT name FROM queue WHERE id = ?1")?;
    let queue: String = statement.query_row([queue], |row| row.get(0))?;
    drop(statement);
    Ok(store.options()?.length(Some(&queue.as_str().into()), OptionName::Grace))
}

/// Ends a lease whose holder is dead or out of time: the attempt is not spent, the interruption is counted. `ran_alone`
/// says whether the holder is known to have had no other job.
pub(super) fn take_back(
    store: &mut Store,
    lease: &HeldLease,
    ran_alone: bool,
    now: i64,
) -> Result<(), Trouble> {
    let failure = Job::held_after(lease.interrupted + 1, ran_alone);
    end(store, lease, Count::Interrupted, failure, now)
}

/// Ends a lease whose holder lives, and whose broker gives the job to others: the attempt is not spent, and nothing is
/// counted.
pub(super) fn give_up(store: &mut Store, lease: &HeldLease, now: i64) -> Result<(), Trouble> {
    end(store, lease, Count::Stopped, None, now)
}

fn end(
    store: &mut Store,
    lease: &HeldLease,
    counts: Count,
    failure: Option<Failure>,
    now: i64,
) -> Result<(), Trouble> {
    let interrupted = lease.interrupted + u32::from(counts == Count::Interrupted);
    // Somebody wants the job canceled: nobody needs to look at it.
    let failure = failure.filter(|_| lease.state != JobState::Canceling);
    let to = match (lease.state, &failure) {
        (JobState::Canceling, _) => JobState::Canceled,
        (_, Some(_)) => JobState::Held,
        (_, None) => JobState::Waiting,
    };
    history::attempt(
        store,
        lease.row,
        now,
        End { counts: Some(counts), failure: failure.as_ref(), ..End::new(to) },
    )?;
    let group = group(to, failure.as_ref()).map(str::to_owned);
    let ready = (to == JobState::Waiting).then_some(now);
    let failure = failure.as_ref().map(stored::to_json).transpose()?;
    store
        .conn
        .prepare_cached(
            // Unspent: the attempt that the fetch has counted is taken off.
            "UPDATE job SET state = ?2, expires_at = NULL, instance = NULL, attempt = max(attempt - 1, 0),
             interrupted = ?3, ended_at = ?4, failure = coalesce(?5, failure), failure_group = ?6,
             ready_at = ?7 WHERE id = ?1",
        )?
        .execute(params![
            lease.row,
            to as i64,
            interrupted,
            to.has_ended().then_some(now),
            failure,
            group,
            ready
        ])?;
    // It may have begun: not to know is no proof.
    unbegun::lift(store, lease.row)?;
    store.moved(lease.queue, Some(lease.state), to);
    let what = if to == JobState::Waiting { What::LockLost } else { What::of_end(to) };
    store.happened(&lease.job, lease.queue, what, to)?;
    if to.has_ended() {
        store.ended(lease.job.clone(), to);
    }
    Ok(())
}
