//! Leases that end without a verdict: their time is over, or their holder is dead or has lost them.

use std::time::Duration;

use rusqlite::{OptionalExtension, Row, params};

use super::columns::state;
use super::history::{self, End};
use super::settle::group;
use super::store::Store;
use super::trouble::Trouble;
use super::unbegun;
use common::stored;
use model::{Count, Failure, Fence, Job, JobId, JobState, OptionName, Revocation, What, millis_up};

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

/// What the holder of an expired lease has been given, as the column `grace` says it.
const NOTHING: i64 = 0;
/// Its last time to come.
const LAST: i64 = 1;
/// A time to come that is given once more.
const FIRST: i64 = 2;

/// An expired lease is lost, and its holder is notified. For a short time no one else gets the job: the holder may be
/// ending it, and may yet renew or settle. That time begins when the end is noticed: what keeps this process from
/// looking keeps the holder from renewing. If it is noticed late, or the disk has just refused a renewal, that time is long
/// enough for each holder to come first, and the holder gets no revocation: it asks. That time may pass while nobody can
/// look, so the holder gets a second one, and no third one: it may be dead. If the end of the first is noticed at once, a
/// pause may still have ended just now: then the second is short.
pub(super) fn expire(store: &mut Store, now: i64) -> Result<(), Trouble> {
    let mut statement = store
        .conn
        .prepare_cached(&format!("SELECT {HELD_LEASE}, expires_at, grace FROM job WHERE expires_at <= ?1"))?;
    let expired: Vec<(HeldLease, i64, i64)> = statement
        .query_map([now], |row| Ok((held_lease(row)?, row.get(6)?, row.get(7)?)))?
        .collect::<Result<_, _>>()?;
    drop(statement);
    // A disk that is nearly full may take these few bytes, and not those of a renewal.
    let refused = store.refused_at.map_or(i64::MIN, |at| at.saturating_add(millis_up(SETTLING)));
    for (lease, at, given) in expired {
        let is_refused = refused > now;
        let is_late = now.saturating_sub(at) >= LATE || is_refused;
        let gives = match given {
            NOTHING => Some(if is_late { FIRST } else { LAST }),
            FIRST if !is_refused => Some(LAST),
            _ => None,
        };
        let is_first = given == NOTHING;
        let grace = match (is_late, is_first) {
            (true, _) => grace(store, lease.queue)?.max(SETTLING),
            (false, true) => grace(store, lease.queue)?,
            (false, false) => Duration::from_millis(LATE as u64),
        };
        let end = if gives.is_some() { now.saturating_add(millis_up(grace)) } else { at }.max(refused);
        let is_over = end <= now;
        if is_over {
            // Its holder may have had other jobs; that is not known any more.
            take_back(store, &lease, false, now)?;
        } else {
            store
                .conn
                .prepare_cached("UPDATE job SET grace = ?3, expires_at = ?2 WHERE id = ?1")?
                .execute(params![lease.row, end, gives.unwrap_or(given)])?;
            store.expect(end);
        }
        if is_over || is_first && !is_late {
            store.effects.revoked.push((lease.job, lease.fence, Revocation::LockLost));
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
            "UPDATE job SET state = ?2, expires_at = NULL, attempt = max(attempt - 1, 0),
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
