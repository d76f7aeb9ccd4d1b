//! Ended jobs are kept for a while, then they go, a few at a time and between other requests: complete and canceled ones
//! when they are old or too many, failed ones when they are old. What is held waits for a person.
//!
//! No index tells which they are, for it would cost every job a page to write. But rows ascend with the time of the put, and
//! what was put of late cannot have ended long ago: so a walk from the oldest row on stops early, and the next one goes on
//! from there. What it has passed by, because it had not ended or others needed it, is looked at again once a day.

use rusqlite::Row;

use super::call::{Call, Kind};
use super::columns::state;
use super::expiry_time::{Expiry, SECOND};
use super::remove::{self, IS_NEEDED};
use super::store::Store;
use super::trouble::Trouble;
use crate::broker::Error;
use crate::model::verb::ClassStats;
use crate::model::{Day, JobState, Millis, OptionName};

/// Between two stretches of a look.
const BREATH: i64 = 10;
/// Between two looks at everything.
const ALL: i64 = 24 * 3_600 * SECOND;
/// The same when there are too many, but not where the walk was.
const ALL_SOON: i64 = 600 * SECOND;
/// Statistics of earlier days are forgotten.
const DAYS: i64 = ClassStats::DAYS_KEPT;

/// Rows looked at in one stretch, and removed.
const LOOKED_AT: usize = 500;
const REMOVED: usize = 50;

/// The next stretch of a look, as a request that nobody waits for.
pub(super) struct Look;

impl Call for Look {
    fn kind(&self) -> Kind {
        Kind::Lease
    }

    fn apply(&mut self, store: &mut Store) -> Result<(), rusqlite::Error> {
        match step(store) {
            Ok(()) => Ok(()),
            Err(Trouble::Store(error)) => Err(error),
            Err(Trouble::Mine(error)) => {
                tracing::error!(%error, "jobs that have been kept for long enough cannot be removed");
                Ok(())
            }
        }
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
    Ok(())
}

/// Before this they must have ended; never, if they are kept for ever.
fn limit(store: &mut Store, option: OptionName, now: i64) -> Result<i64, Trouble> {
    let kept = i64::try_from(store.options()?.length(None, option).as_millis()).unwrap_or(i64::MAX);
    Ok(if kept == 0 { i64::MIN } else { now.saturating_sub(kept) })
}

/// Through all jobs, for those that are complete or canceled. Of jobs that wait a ledger does not hear what became of them
/// elsewhere: it keeps them for as long. Says whether this look is over.
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

/// Through the failed jobs. Says whether this look is over.
fn walk_failed(store: &mut Store, expiry: &mut Expiry, now: i64) -> Result<bool, Trouble> {
    let limit = limit(store, OptionName::KeepFailed, now)?;
    // SQLite takes the index if the condition says what that of the index says.
    let way = "INDEXED BY job_odd WHERE state = 5 AND state >= 5 AND";
    let mut failed = Walk { way, states: &[JobState::Failed], limit, surplus: 0 };
    failed.go_on(store, &mut expiry.places[1])
}

/// A way through the jobs, and which of them go.
struct Walk<'a> {
    /// Index and condition, in SQL.
    way: &'static str,
    states: &'a [JobState],
    /// Those that had ended by then.
    limit: i64,
    /// And so many that had not.
    surplus: u64,
}

impl Walk<'_> {
    /// Removes some of those behind `place`, and brings it forward. Says whether there are no more.
    fn go_on(&mut self, store: &mut Store, place: &mut i64) -> Result<bool, Trouble> {
        let passed = self.next(store, *place)?;
        let mut removed = 0;
        for job in &passed {
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

    /// The next jobs on the way.
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

/// How many more complete and canceled jobs there are than are kept. Those that somebody follows do not count.
fn surplus(store: &mut Store) -> Result<u64, Trouble> {
    let kept = store.options()?.count(None, OptionName::KeepCompleteCount);
    if kept == 0 {
        return Ok(0);
    }
    store.write_counts()?;
    let mut statement = store.conn.prepare_cached(
        "SELECT coalesce(sum(complete + canceled), 0) - (SELECT count(*) FROM tracked) FROM queue",
    )?;
    let there: i64 = statement.query_row([], |row| row.get(0))?;
    Ok(u64::try_from(there).unwrap_or(0).saturating_sub(kept))
}

/// A job on the way.
struct Passed {
    row: i64,
    state: JobState,
    put_at: i64,
    /// When it ended, or since when it waits.
    at: i64,
}

/// Whether nobody needs the job or follows it, and it is not what a recurring job made last.
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
    fn a_store_in_which_nothing_happens_is_let_alone_after_the_first_look() {
        let mut expiry = Expiry::new(1_000);
        assert!(!expiry.begin(5_999));
        assert!(expiry.begin(6_000));
        // As a look leaves it that is over.
        (expiry.looked, expiry.due) = (6_000, None);
        assert!(!expiry.begin(i64::MAX));
        expiry.stir(7_000);
        assert_eq!(expiry.due, Some(66_000));
        expiry.stir(65_000);
        assert!(!expiry.begin(65_999));
        assert!(expiry.begin(66_000));
        // That look failed: the next one is later, not at once.
        assert_eq!(expiry.due, Some(126_000));
        (expiry.looked, expiry.due) = (126_000, None);
        expiry.stir(9_999_999);
        assert_eq!(expiry.due, Some(9_999_999));
    }
}
