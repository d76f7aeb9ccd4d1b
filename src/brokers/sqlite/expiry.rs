//! Removes ended jobs after a while, a few at a time and between other requests: complete and canceled ones when they
//! are old or too many, failed ones when they are old. Held jobs wait for a person.
//!
//! No index lists these jobs, as it would cost each job one more page to write. But rows ascend with the time of the
//! put, and a job put recently cannot have ended long ago. So a walk from the oldest row on can stop early, and the
//! next walk goes on from there. Jobs that it had to leave, because they had not ended or others needed them, are
//! looked at again once a day.

use rusqlite::Row;

use super::call::{Call, Kind};
use super::columns::state;
use super::expiry_time::{Expiry, SECOND};
use super::remove::{self, IS_NEEDED};
use super::store::Store;
use super::trouble::Trouble;
use broker::Error;
use model::verb::ClassStats;
use model::{Day, JobState, Millis, OptionName};

/// Pause between two parts of a walk, in milliseconds.
const BREATH: i64 = 10;
/// Time between two walks from the start.
const ALL: i64 = 24 * 3_600 * SECOND;
/// The same when there are too many jobs, but none where the walk was.
const ALL_SOON: i64 = 600 * SECOND;
/// Number of days for which statistics are kept.
const DAYS: i64 = ClassStats::DAYS_KEPT;
/// How long a ledger keeps a delivery, and the id of an ended message: no broker keeps a message for longer.
const DELIVERIES: i64 = 14 * 24 * 3_600 * SECOND;

/// Number of rows to look at in one part of a walk, and to remove.
const LOOKED_AT: usize = 500;
const REMOVED: usize = 200;

/// The next part of a walk, as a request without a receiver.
pub(super) struct Look;

impl Call for Look {
    fn kind(&self) -> Kind {
        Kind::Lease
    }

    fn apply(&mut self, store: &mut Store) -> Result<(), rusqlite::Error> {
        const WHAT: &str = "jobs that have been kept for long enough cannot be removed";
        let done = match step(store) {
            Ok(()) => Ok(()),
            Err(Trouble::Store(error)) => return Err(error),
            Err(Trouble::Mine(error)) => Err(error),
        };
        store.notices.complaints.note(WHAT, &done, (store.world.now)());
        Ok(())
    }

    fn answer(self: Box<Self>, _: Result<(), Error>) {}
}

fn step(store: &mut Store) -> Result<(), Trouble> {
    let now = store.time();
    let mut expiry = store.expiry;
    if expiry.all_again <= now {
        (expiry.all_again, expiry.places) = (now.saturating_add(ALL), [i64::MIN; 2]);
        forget_days(store, now)?;
    }
    let is_over = walk_all(store, &mut expiry, now)? && walk_failed(store, &mut expiry, now)?;
    (expiry.looked, expiry.due) = (now, (!is_over).then(|| now.saturating_add(BREATH)));
    store.effects.expiry = Some(expiry);
    Ok(())
}

fn forget_days(store: &Store, now: i64) -> Result<(), Trouble> {
    for table in ["statistic", "tally", "class_day"] {
        let mut statement = store.conn.prepare_cached(&format!("DELETE FROM {table} WHERE day < ?1"))?;
        statement.execute([Day::of(Millis(now)).0 - DAYS])?;
    }
    if store.is_ledger {
        store.conn.execute("DELETE FROM delivery WHERE at < ?1", [now - DELIVERIES])?;
        store.conn.execute("DELETE FROM ended_message WHERE at < ?1", [now - DELIVERIES])?;
    }
    Ok(())
}

/// Jobs that ended before this are removed; none, if they are kept for ever.
fn limit(store: &mut Store, option: OptionName, now: i64) -> Result<i64, Trouble> {
    let kept = i64::try_from(store.options()?.length(None, option).as_millis()).unwrap_or(i64::MAX);
    Ok(if kept == 0 { i64::MIN } else { now.saturating_sub(kept) })
}

/// Walks over all jobs, for those that are complete or canceled. A ledger does not learn what becomes of its waiting
/// jobs elsewhere: it removes them after the same time. Gives whether this walk is over.
fn walk_all(store: &mut Store, expiry: &mut Expiry, now: i64) -> Result<bool, Trouble> {
    let limit = limit(store, OptionName::KeepComplete, now)?;
    let states = [JobState::Complete, JobState::Canceled, JobState::Waiting, JobState::Delayed];
    let states = if store.is_ledger { &states[..] } else { &states[..2] };
    let mut all = Walk { way: "NOT INDEXED WHERE", states, limit, surplus: surplus(store)? };
    let is_over = all.go_on(store, &mut expiry.places[0])?;
    if is_over && all.surplus > 0 {
        expiry.all_again = expiry.all_again.min(now.saturating_add(ALL_SOON));
    }
    Ok(is_over)
}

/// Walks over the failed jobs. Gives whether this walk is over.
fn walk_failed(store: &mut Store, expiry: &mut Expiry, now: i64) -> Result<bool, Trouble> {
    let limit = limit(store, OptionName::KeepFailed, now)?;
    // SQLite uses the index only if the condition repeats that of the index.
    let way = "INDEXED BY job_odd WHERE state = 5 AND state >= 5 AND";
    let mut failed = Walk { way, states: &[JobState::Failed], limit, surplus: 0 };
    failed.go_on(store, &mut expiry.places[1])
}

/// A walk over jobs, and which of them to remove.
struct Walk<'a> {
    /// The index and the condition, in SQL.
    way: &'static str,
    states: &'a [JobState],
    /// Remove those that had ended by then.
    limit: i64,
    /// And this many of the others.
    surplus: u64,
}

impl Walk<'_> {
    /// Removes some of those behind `place`, and moves it forward. Gives whether there are no more.
    fn go_on(&mut self, store: &mut Store, place: &mut i64) -> Result<bool, Trouble> {
        let passed = self.next(store, *place)?;
        let mut removed = 0;
        for job in &passed {
            // Later rows were put later, so none of them has ended before the limit.
            if self.surplus == 0 && job.put_at > self.limit {
                return Ok(true);
            }
            *place = job.row;
            let is_surplus = self.surplus > 0 && job.state.has_ended();
            let goes = self.states.contains(&job.state) && (job.at <= self.limit || is_surplus);
            if goes && is_free(store, job.row)? {
                remove::job(store, job.row)?;
                self.surplus = self.surplus.saturating_sub(u64::from(job.state.has_ended()));
                removed += 1;
            }
            if removed == REMOVED {
                return Ok(false);
            }
        }
        Ok(passed.len() < LOOKED_AT)
    }

    /// The next jobs of the walk.
    fn next(&self, store: &Store, after: i64) -> Result<Vec<Passed>, Trouble> {
        let passed = |row: &Row<'_>| {
            let state = state(row.get(1)?);
            Ok(Passed { row: row.get(0)?, state, put_at: row.get(2)?, at: row.get(3)? })
        };
        let mut statement = store.conn.prepare_cached(&format!(
            "SELECT id, state, put_at, coalesce(ended_at, due_at, ready_at, put_at) FROM job {} id > ?1
             ORDER BY id LIMIT {LOOKED_AT}",
            self.way
        ))?;
        let found = statement.query_map([after], passed)?;
        Ok(found.collect::<Result<_, _>>()?)
    }
}

/// How many complete and canceled jobs there are beyond the number to keep. Tracked jobs do not count.
fn surplus(store: &mut Store) -> Result<u64, Trouble> {
    let kept = store.options()?.count(None, OptionName::KeepCompleteCount);
    if kept == 0 {
        return Ok(0);
    }
    // The table lacks what this transaction has changed so far.
    store.write_counts()?;
    let mut statement = store.conn.prepare_cached(
        "SELECT coalesce(sum(complete + canceled), 0) - (SELECT count(*) FROM tracked) FROM queue",
    )?;
    let there: i64 = statement.query_row([], |row| row.get(0))?;
    Ok(u64::try_from(there).unwrap_or(0).saturating_sub(kept))
}

/// A job that the walk passes.
struct Passed {
    row: i64,
    state: JobState,
    put_at: i64,
    /// When it ended, or since when it waits.
    at: i64,
}

/// Whether the job may be removed: no other job needs it, it is not tracked, and it is not the latest of a recurring
/// job.
fn is_free(store: &Store, row: i64) -> Result<bool, Trouble> {
    let mut statement = store.conn.prepare_cached(&format!(
        "SELECT NOT {IS_NEEDED} AND NOT EXISTS (SELECT 1 FROM tracked WHERE tracked.job = job.id)
         AND NOT EXISTS (SELECT 1 FROM recurring WHERE recurring.id = job.recurring AND latest = job.id AND NOT removed)
         FROM job WHERE id = ?1"
    ))?;
    Ok(statement.query_row([row], |row| row.get(0))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_store_is_scanned_once_an_hour_after_the_first_look() {
        let mut expiry = Expiry::new(1_000);
        assert!(!expiry.begin(5_999));
        assert!(expiry.begin(6_000));
        // The state after a finished look.
        (expiry.looked, expiry.due) = (6_000, None);
        let (hour, first) = (3_600_000, expiry);
        assert_eq!(expiry.next(), 6_000 + hour);
        assert!(!expiry.begin(5_999 + hour));
        assert!(expiry.begin(6_000 + hour));
        expiry = first;
        expiry.stir(7_000);
        assert_eq!(expiry.due, Some(66_000));
        expiry.stir(65_000);
        assert!(!expiry.begin(65_999));
        assert!(expiry.begin(66_000));
        // That look failed: the next one follows later, not at once.
        assert_eq!(expiry.due, Some(126_000));
        (expiry.looked, expiry.due) = (126_000, None);
        expiry.stir(9_999_999);
        assert_eq!(expiry.due, Some(9_999_999));
    }

    #[test]
    fn walk_does_not_wait_for_its_minute_after_5_000_ends() {
        let mut expiry = Expiry { looked: 6_000, due: Some(66_000), ..Expiry::new(1_000) };
        expiry.count_ended(4_999, 7_000);
        assert_eq!(expiry.due, Some(66_000));
        expiry.count_ended(1, 7_000);
        assert_eq!(expiry.due, Some(7_000));
        (expiry.looked, expiry.due) = (7_000, None);
        expiry.count_ended(4_999, 8_000);
        assert_eq!(expiry.due, None);
    }
}
