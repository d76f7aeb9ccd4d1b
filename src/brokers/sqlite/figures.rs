//! The statistics of queues. They are collected in memory and written with a later commit, at most once a second, so
//! that they cost a job no page. If the process is killed, the part not yet written is lost.

use rusqlite::{OptionalExtension, params};

use super::class_figures;
use super::gathered::{Figures, number};
use super::spread::Spread;
use super::store::Store;
use super::trouble::Trouble;
use model::verb::{ClassDay, ClassStats, QueueDay, Stats};
use model::{Day, Instant, Millis};

/// A failed job leaves that state: its failure is not counted any more.
pub(super) fn mended(store: &mut Store, row: i64, queue: i64) -> Result<(), Trouble> {
    let mut statement = store.conn.prepare_cached("SELECT coalesce(ended_at, 0) FROM job WHERE id = ?1")?;
    let failed_at = statement.query_row([row], |row| row.get(0))?;
    drop(statement);
    store.effects.figures.on(queue, failed_at).failed -= 1;
    Ok(())
}

/// Adds the collected statistics to the file. They stay in memory until the commit has succeeded.
pub(super) fn write(store: &Store) -> Result<(), rusqlite::Error> {
    for ((queue, day), figures) in &store.figures.queues {
        // Another process may have removed the queue.
        let exists = store.conn.prepare_cached("SELECT 1 FROM queue WHERE id = ?1")?.exists([queue])?;
        if !exists {
            continue;
        }
        for (kind, spread) in [(WAIT, &figures.wait), (RUN, &figures.run)] {
            if spread.count > 0 {
                let mut sum = spread_on_file(store, *queue, *day, kind)?;
                sum.merge(spread);
                write_spread(store, *queue, *day, kind, &sum)?;
            }
        }
        store
            .conn
            .prepare_cached(
                "INSERT INTO tally (queue, day, retries, failures, failed) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT DO UPDATE SET retries = retries + ?3, failures = failures + ?4, failed = failed + ?5",
            )?
            .execute(params![queue, day.0, figures.retries, figures.failures, figures.failed])?;
    }
    class_figures::write(store, &store.figures.classes)
}

const WAIT: i64 = 0;
const RUN: i64 = 1;

fn spread_on_file(store: &Store, queue: i64, day: Day, kind: i64) -> Result<Spread, rusqlite::Error> {
    let mut statement = store.conn.prepare_cached(
        "SELECT count, mean, m2, histogram FROM statistic WHERE queue = ?1 AND day = ?2 AND kind = ?3",
    )?;
    let found = statement.query_row([queue, day.0, kind], |row| {
        // A histogram that cannot be read is replaced by an empty one: it must not stop the jobs.
        let histogram = serde_json::from_str(row.get_ref(3)?.as_str()?).unwrap_or_default();
        Ok(Spread { count: row.get(0)?, mean: row.get(1)?, m2: row.get(2)?, histogram })
    });
    Ok(found.optional()?.unwrap_or_default())
}

fn write_spread(store: &Store, queue: i64, day: Day, kind: i64, sum: &Spread) -> Result<(), rusqlite::Error> {
    let histogram = serde_json::to_string(&sum.histogram).unwrap_or_default();
    store
        .conn
        .prepare_cached(
            "INSERT OR REPLACE INTO statistic (queue, day, kind, count, mean, m2, histogram)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![queue, day.0, kind, sum.count, sum.mean, sum.m2, histogram])?;
    Ok(())
}

/// The statistics of a queue on a day: those on file plus those collected.
pub(super) fn on_day(store: &Store, queue: i64, day: Day) -> Result<Figures, Trouble> {
    let (wait, run) = (spread_on_file(store, queue, day, WAIT)?, spread_on_file(store, queue, day, RUN)?);
    let mut statement = store
        .conn
        .prepare_cached("SELECT retries, failures, failed FROM tally WHERE queue = ?1 AND day = ?2")?;
    let tally = statement.query_row([queue, day.0], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    let (retries, failures, failed) = tally.optional()?.unwrap_or_default();
    let mut sum = Figures { wait, run, retries, failures, failed };
    if let Some(gathered) = store.figures.queues.get(&(queue, day)) {
        sum.merge(gathered);
    }
    Ok(sum)
}

/// The same in the form that is shown.
pub(super) fn of(store: &mut Store, asked: &Stats, now: Instant) -> Result<QueueDay, Trouble> {
    let found = store.queue_there(&asked.queue)?;
    let day = asked.day.unwrap_or(Day::of(Millis(store.millis(now))));
    let sum = on_day(store, found.id, day)?;
    Ok(QueueDay {
        queue: asked.queue.clone(),
        day,
        retries: number(sum.retries),
        failures: number(sum.failures),
        failed: number(sum.failed),
        wait: sum.wait.times(),
        run: sum.run.times(),
    })
}

/// Statistics of the jobs of each class.
pub(super) fn of_classes(store: &Store, asked: &ClassStats, now: Instant) -> Result<Vec<ClassDay>, Trouble> {
    class_figures::of(store, &store.figures.classes, asked, now)
}
