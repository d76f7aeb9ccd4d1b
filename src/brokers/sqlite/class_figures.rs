//! The statistics of classes, collected and written as those of queues are (see `figures.rs`).

use rusqlite::params;

use super::gathered::ClassFigures;
use super::store::Store;
use super::trouble::Trouble;
use model::verb::{ClassDay, ClassStats, ClassSums};
use model::{Day, Instant, Millis};

/// Adds the collected statistics to the file.
pub(super) fn write(store: &Store, gathered: &ClassFigures) -> Result<(), rusqlite::Error> {
    for (day, class, sums) in gathered.rows() {
        let mut look = store.conn.prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM class_day WHERE day = ?1 AND class = ?2)
                 OR (SELECT count(*) FROM class_day WHERE day = ?1 AND class <> '') < ?3",
        )?;
        let most = i64::try_from(ClassSums::CLASSES_MAX).unwrap_or(i64::MAX);
        let has_room: bool = look.query_row(params![day.0, class, most], |row| row.get(0))?;
        // Anybody may put any class, so those beyond the limit are counted together.
        let class = if has_room { class } else { "" };
        store
            .conn
            .prepare_cached(
                "INSERT INTO class_day (day, class, complete, retries, failed, held, ran, longest, measured, cpu, peak_rss)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
                 ON CONFLICT DO UPDATE SET complete = complete + ?3, retries = retries + ?4, failed = failed + ?5,
                     held = held + ?6, ran = ran + ?7, longest = max(longest, ?8), measured = measured + ?9,
                     cpu = cpu + ?10, peak_rss = max(peak_rss, ?11)",
            )?
            .execute(params![
                day.0, class, sums.complete, sums.retries, sums.failed, sums.held, sums.ran, sums.longest,
                sums.measured, sums.cpu, sums.peak_rss,
            ])?;
    }
    Ok(())
}

/// The statistics on file plus those collected, as they are shown.
pub(super) fn of(
    store: &Store,
    gathered: &ClassFigures,
    asked: &ClassStats,
    now: Instant,
) -> Result<Vec<ClassDay>, Trouble> {
    let (first, last) = asked.span(Day::of(Millis(store.millis(now))));
    let mut statement = store.conn.prepare_cached(
        "SELECT day, class, complete, retries, failed, held, ran, longest, measured, cpu, peak_rss
         FROM class_day WHERE day BETWEEN ?1 AND ?2",
    )?;
    let rows = statement.query_map([first.0, last.0], |row| {
        let sums = ClassSums {
            complete: row.get(2)?,
            retries: row.get(3)?,
            failed: row.get(4)?,
            held: row.get(5)?,
            ran: row.get(6)?,
            longest: row.get(7)?,
            measured: row.get(8)?,
            cpu: row.get(9)?,
            peak_rss: row.get(10)?,
        };
        Ok((Day(row.get(0)?), row.get::<_, String>(1)?, sums))
    })?;
    let mut all = ClassFigures::default();
    for row in rows {
        let (day, class, sums) = row?;
        all.add(day, &class, &sums);
    }
    for (day, class, sums) in gathered.rows().filter(|(day, ..)| (first..=last).contains(day)) {
        all.add(day, class, sums);
    }
    Ok(asked.told(all.into_rows().collect()))
}
