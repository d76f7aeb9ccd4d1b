//! The transactions of the store's thread: what they read at the beginning and write at the end.

use super::count::Count;
use super::empty_filter_cache::Barren;
use super::store::{Effects, Store};
use super::{count, figures, occur, unbegun};

impl Store {
    /// Opens a transaction and drops caches that another process has made stale.
    pub(super) fn begin(&mut self, writes: bool) -> Result<(), rusqlite::Error> {
        // IMMEDIATE, as a reader cannot become a writer once another process has written.
        let begin = if writes { "BEGIN IMMEDIATE" } else { "BEGIN" };
        self.conn.prepare_cached(begin)?.execute([])?;
        if self.changed_elsewhere()? {
            self.foreign = true;
            self.queues.clear();
            self.options = None;
            self.barren = Barren::default();
            self.next_due = self.next_due_on_file()?;
            self.reached.count = count::on_file(&self.conn)?;
        }
        Ok(())
    }

    fn changed_elsewhere(&mut self) -> Result<bool, rusqlite::Error> {
        let version = self.conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        Ok(std::mem::replace(&mut self.data_version, version) != version)
    }

    /// Commits. The caller rolls back when it fails. `is_durable` says that somebody waits until it is on disk.
    pub(super) fn commit(&mut self, writes: bool, is_durable: bool) -> Result<(), rusqlite::Error> {
        if writes {
            self.write_counts()?;
            self.count_others(is_durable)?;
            self.write_seen()?;
            self.write_figures()?;
        }
        self.conn.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    /// Counts a change that moves no job, e.g. of an option, if there was one.
    fn count_others(&mut self, is_durable: bool) -> Result<(), rusqlite::Error> {
        let made = self.conn.total_changes();
        if is_durable && self.effects.counted == Count::default() && made != self.changes_made {
            self.conn.prepare_cached("UPDATE boot SET changes = changes + 1")?.execute([])?;
            self.effects.counted.changes = 1;
        }
        self.changes_made = self.conn.total_changes();
        Ok(())
    }

    pub(super) fn roll_back(&mut self) {
        if !self.conn.is_autocommit() {
            let _ = self.conn.execute_batch("ROLLBACK");
        }
        self.effects = Effects::default();
        self.queues.clear();
        self.options = None;
        self.barren = Barren::default();
        // It is not known whether that was handled.
        self.foreign = true;
        // What was due is due again.
        self.next_due = self.next_due_on_file().unwrap_or_else(|_| Some(self.time()));
        self.wall_ahead = None;
    }

    /// Now and then stores the time reached, so that a boot with a wrong wall clock does not start behind it.
    fn write_seen(&mut self) -> Result<(), rusqlite::Error> {
        const EVERY: i64 = 10_000;
        let time = self.time();
        if time - self.seen >= EVERY {
            self.conn.prepare_cached("UPDATE boot SET seen = max(seen, ?1)")?.execute([time])?;
            self.seen = time;
        }
        Ok(())
    }

    /// Writes the statistics, if they have waited long enough.
    fn write_figures(&mut self) -> Result<(), rusqlite::Error> {
        if self.figures_due.is_some_and(|due| due <= self.time()) {
            figures::write(self)?;
            self.effects.figures_written = true;
        }
        Ok(())
    }

    /// When the next delayed job, lease or recurring job is due.
    pub(super) fn next_due_on_file(&self) -> Result<Option<i64>, rusqlite::Error> {
        let jobs = self
            .conn
            .prepare_cached(
                "SELECT min(at) FROM (
                     SELECT * FROM (SELECT due_at AS at FROM job WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1)
                     UNION ALL
                     SELECT * FROM (SELECT expires_at FROM job WHERE expires_at IS NOT NULL AND ?1
                                    ORDER BY expires_at LIMIT 1))",
            )?
            .query_row([self.expires()], |row| row.get(0))?;
        Ok([jobs, unbegun::next(self)?, occur::next_look(self)?].into_iter().flatten().min())
    }
}
