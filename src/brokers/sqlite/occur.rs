//! Fires recurring jobs. The process that holds the store puts the jobs and moves the schedule on in the same
//! transaction. So each occurrence fires once, whichever process looks, and even if one dies.
//!
//! Intervals go by the store's clock, cron by the wall clock. That can be set, so there is a look at least once a minute,
//! and what is a minute late is not missed. A schedule only moves on: a clock that is set back runs nothing twice, except
//! where it goes back by so much that it must have been wrong before.

use rusqlite::{OptionalExtension, params};

use super::columns::state;
use super::put;
use super::recurring_row::{self, IN_FORCE, InForce, in_force};
use super::store::Store;
use super::trouble::Trouble;
use broker::Error;
use common::recurring::{NET, NOT_PUT, PUT_OFF, WRONG, mended, occurrences, put_by};
use model::{Instant, JobState, LatestJob, Millis, NewJob, Overlap, Schedule, millis_up};

/// Two clocks count as read at the same moment if no more milliseconds lie between.
const AT_ONCE: i64 = 1000;
/// Limit of the recurring jobs in one transaction.
const BATCH: i64 = 256;

/// Whether a schedule goes by the wall clock.
pub(super) fn is_by_wall(schedule: &Schedule) -> bool {
    matches!(schedule, Schedule::Cron { .. })
}

impl Store {
    /// The wall clock at a moment of store time, in milliseconds since 1970.
    pub(super) fn wall_at(&self, moment: i64) -> i64 {
        loop {
            let before = self.time();
            let wall = (self.world.wall_millis)();
            // The host may have slept between the two readings.
            if self.time() - before < AT_ONCE {
                return wall - (before - moment);
            }
        }
    }
}

/// When to look next, in store time; None without recurring jobs. The first look is at once.
pub(super) fn next_look(store: &Store) -> Result<Option<i64>, rusqlite::Error> {
    if !store.serves {
        return Ok(None);
    }
    let put_off = put_off(store);
    let first = |by_wall: bool| {
        store
            .conn
            .prepare_cached(
                "SELECT min(next_at) FROM recurring WHERE by_wall = ?1 AND next_at IS NOT NULL AND paused_at IS NULL
                 AND id NOT IN (SELECT value FROM json_each(?2))",
            )?
            .query_row(params![by_wall, put_off], |row| row.get::<_, Option<i64>>(0))
    };
    let time = store.time();
    let by_wall = first(true)?.map(|next| time.saturating_add(next.saturating_sub(store.wall_at(time))));
    // A wrong clock may have made it never: whether it is right again is looked at, too.
    let has_never = store
        .conn
        .prepare_cached("SELECT 1 FROM recurring WHERE by_wall = 1 AND next_at IS NULL AND removed = 0")?
        .exists([])?;
    let never = has_never.then_some(i64::MAX);
    let next = [first(false)?, by_wall, never].into_iter().flatten().min();
    let latest = if store.wall_ahead.is_some() { time.saturating_add(millis_up(NET)) } else { time };
    let again = store.put_off.values().map(|(_, until)| *until).min();
    Ok(next.map(|next| next.min(latest)).into_iter().chain(again).min())
}

/// The rows that are tried again later, as JSON.
fn put_off(store: &Store) -> String {
    serde_json::json!(store.put_off.keys().collect::<Vec<_>>()).to_string()
}

/// A schedule has changed.
pub(super) fn expect(store: &mut Store) -> Result<(), rusqlite::Error> {
    // What could not be put may be another one now.
    store.put_off.values_mut().for_each(|(_, until)| *until = 0);
    if let Some(look) = next_look(store)? {
        store.expect(look);
    }
    Ok(())
}

/// Fires what is due.
pub(super) fn come_due(store: &mut Store, now: i64) -> Result<(), Trouble> {
    if !store.serves {
        return Ok(());
    }
    let wall = store.wall_at(now);
    mend(store, now, wall)?;
    let again: Vec<(String, i64)> =
        store.put_off.extract_if(.., |_, (_, until)| *until <= now).map(|(_, off)| off).collect();
    for by_wall in [false, true] {
        let clock =
            Clock { now: if by_wall { wall } else { now }, behind: if by_wall { now - wall } else { 0 } };
        for (row, found) in due(store, by_wall, clock.now)? {
            let done = found.and_then(|due| have(store, due, clock));
            match done {
                Ok(()) => {}
                Err(Trouble::Mine(error)) => try_later(store, row, now, &error)?,
                Err(error @ Trouble::Store(_)) => return Err(error),
            }
        }
    }
    // What was tried again and is not put off again works, or is removed or paused.
    for (name, _) in again {
        if !store.put_off.values().any(|(off, _)| *off == name) {
            store.notices.complaints.well_for(NOT_PUT, &name, (store.world.now)());
        }
    }
    Ok(())
}

/// The clock by which a schedule goes.
#[derive(Clone, Copy)]
struct Clock {
    now: i64,
    /// How far it is behind the store's clock, in milliseconds.
    behind: i64,
}

type Due = (i64, Result<InForce, Trouble>);

fn due(store: &Store, by_wall: bool, now: i64) -> Result<Vec<Due>, rusqlite::Error> {
    let mut statement = store.conn.prepare_cached(&format!(
        "SELECT {IN_FORCE} FROM recurring WHERE by_wall = ?1 AND next_at <= ?2 AND paused_at IS NULL
         AND id NOT IN (SELECT value FROM json_each(?3)) ORDER BY next_at LIMIT {BATCH}"
    ))?;
    let rows =
        statement.query_map(params![by_wall, now, put_off(store)], |row| Ok((row.get(0)?, in_force(row))))?;
    rows.collect()
}

/// Puts the jobs of a recurring job that is due, and moves it to its next occurrence.
fn have(store: &mut Store, mut due: InForce, clock: Clock) -> Result<(), Trouble> {
    let Some(first) = due.next_at else { return Ok(()) };
    let times = occurrences(&due.recurring, first, clock.now)?;
    let mut skipped = 0;
    for at in times.wanted {
        match due.recurring.overlap == Overlap::Skip && is_busy(store, &due)? {
            true => skipped += 1,
            false => put_one(store, &mut due, at.saturating_add(clock.behind), None)?,
        }
    }
    store
        .conn
        .prepare_cached(
            "UPDATE recurring SET next_at = ?2, skipped = skipped + ?3, missed_at = coalesce(?4, missed_at)
             WHERE id = ?1",
        )?
        .execute(params![due.row, times.next, skipped, times.missed])?;
    Ok(())
}

/// Whether its latest job has not ended yet.
fn is_busy(store: &Store, due: &InForce) -> Result<bool, rusqlite::Error> {
    let latest = store
        .conn
        .prepare_cached("SELECT state FROM job WHERE id = ?1 AND recurring = ?2")?
        .query_row(params![due.latest, due.row], |row| Ok(state(row.get(0)?)))
        .optional()?;
    Ok(latest.is_some_and(|state| !state.has_ended()))
}

/// Puts its next job, for a moment in store time. Skips ids that are taken.
fn put_one(store: &mut Store, due: &mut InForce, at: i64, by: Option<&str>) -> Result<(), Trouble> {
    let name = &due.recurring.name;
    let id = loop {
        due.count += 1;
        let id = format!("{name}-{}", due.count);
        let mut statement = store.conn.prepare_cached("SELECT 1 FROM job WHERE jid = ?1")?;
        if statement.query_row([&id], |_| Ok(())).optional()?.is_none() {
            break id;
        }
    };
    let job = NewJob { by: Some(put_by(name, by)), ..due.recurring.job.clone() };
    let row = put::insert(store, &job, &id.into(), (false, None), at)?;
    store.conn.prepare_cached("UPDATE job SET recurring = ?2 WHERE id = ?1")?.execute([row, due.row])?;
    store
        .conn
        .prepare_cached("UPDATE recurring SET count = ?2, latest = ?3 WHERE id = ?1")?
        .execute(params![due.row, due.count, row])?;
    due.latest = Some(row);
    Ok(())
}

/// Puts one of its jobs now, because a person asks for it.
pub(super) fn run(store: &mut Store, name: &str, by: &str, now: Instant) -> Result<LatestJob, Trouble> {
    let mut due = recurring_row::find(store, name)?.ok_or_else(|| Error::NoRecurring(name.into()))?;
    let at = store.millis(now);
    put_one(store, &mut due, at, Some(by))?;
    let id = format!("{name}-{}", due.count).into();
    let (_, _, state): (_, _, JobState) = store.place(&id)?;
    Ok(LatestJob { id, state, at: Millis(at) })
}

/// Defers a recurring job that cannot fire now, because its time zone is gone or its row comes from another version. It
/// stays due, is tried again, and does not block the others.
fn try_later(store: &mut Store, row: i64, now: i64, error: &Error) -> Result<(), Trouble> {
    let mut statement = store.conn.prepare_cached("SELECT name FROM recurring WHERE id = ?1")?;
    let name: String = statement.query_row([row], |row| row.get(0))?;
    drop(statement);
    let how = format!("'{name}': {error}");
    store.notices.complaints.wrong_for(NOT_PUT, &name, &how, (store.world.now)());
    store.put_off.insert(row, (name, now.saturating_add(millis_up(PUT_OFF))));
    Ok(())
}

/// After a wall clock that was far ahead is right again, corrects the next occurrences that it had moved.
fn mend(store: &mut Store, now: i64, wall: i64) -> Result<(), Trouble> {
    let ahead = wall - now;
    let before = store.wall_ahead.replace(ahead);
    if before.is_some_and(|before| before - ahead < millis_up(WRONG)) {
        return Ok(());
    }
    let mut statement = store
        .conn
        .prepare_cached(&format!("SELECT {IN_FORCE} FROM recurring WHERE by_wall = 1 AND removed = 0 AND (next_at > ?1 OR next_at IS NULL)"))?;
    let rows = statement.query_map([wall], |row| Ok(in_force(row)))?;
    // A row that cannot be read stays as it is.
    let later: Vec<InForce> =
        rows.filter_map(|row| row.map(Result::ok).transpose()).collect::<Result<_, _>>()?;
    drop(statement);
    for one in later {
        if let Ok(Some(right)) = mended(&one.recurring.schedule, one.next_at, wall) {
            let mut statement =
                store.conn.prepare_cached("UPDATE recurring SET next_at = ?2 WHERE id = ?1")?;
            statement.execute(params![one.row, right])?;
        }
    }
    Ok(())
}
