//! Keeping the WAL small. The connection never checkpoints by itself; this does, between two turns, and never waits for a
//! reader. A reader in another process that keeps one transaction open pins the WAL: no writer can cut it then, SQLite has
//! no way to. Tries are spaced by the WAL's own growth, and then by time, so that they cost little, and it is said in the log,
//! in `concern` and in `wal_bytes`. Our own lists read in short pages, so they never do that.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::store::Store;

/// Pages (4 KiB) in the WAL before it is brought into the main file.
const PAGES: i32 = 1_000;
/// From here on the WAL is also started afresh by force, if nobody reads at that moment.
const PAGES_MANY: i32 = 4 * PAGES;
/// A WAL to warn of.
const PAGES_PINNED: i32 = 16 * PAGES;
/// The same in bytes.
pub(super) const LONG: u64 = PAGES_PINNED as u64 * 4096;
/// From one try to cut such a WAL to the next if it does not grow, in milliseconds.
const AGAIN: i64 = 2_000;

pub(super) struct Checkpoints {
    pub(super) busy_timeout: Duration,
    next: i32,
    latest: i32,
    /// From how many pages on the next warning is worth it; 0 = from the first that is too many.
    warn_at: i32,
    /// When to try again a WAL that does not grow, in store time.
    again: i64,
}

impl Checkpoints {
    pub(super) fn new(busy_timeout: Duration) -> Self {
        Checkpoints { busy_timeout, next: PAGES, latest: 0, warn_at: 0, again: i64::MAX }
    }

    /// A checkpoint, if one is due.
    pub(super) fn run(&mut self, store: &Store, file: &str) {
        let pages = store.wal_pages();
        if pages < self.latest {
            // The WAL has started over.
            self.next = PAGES;
        }
        self.latest = pages;
        let (grew, time) = (pages >= self.next, store.time());
        if !grew && time < self.again {
            return;
        }
        let mode = if pages < PAGES_MANY { "PASSIVE" } else { "TRUNCATE" };
        let whole = self.checkpoint(store, mode);
        self.next = pages + PAGES.max(pages / 4);
        let is_pinned = !whole && pages >= PAGES_MANY;
        self.again = if is_pinned { time.saturating_add(AGAIN) } else { i64::MAX };
        if whole {
            self.warn_at = 0;
        }
        // Also where it grew in small steps, between tries that came by themselves.
        if is_pinned && pages >= PAGES_PINNED.max(self.warn_at) {
            self.warn_at = pages + pages / 4;
            tracing::warn!(
                store = %file,
                pages,
                "the WAL is long and cannot be cut: another program keeps a read transaction open: end it, `fuser` shows which"
            );
        }
    }

    /// Brings everything into the main file and makes it durable. Says whether that worked.
    pub(super) fn whole(&mut self, store: &Store) -> bool {
        self.checkpoint(store, "TRUNCATE")
    }

    fn checkpoint(&self, store: &Store, mode: &str) -> bool {
        let _ = store.conn.busy_timeout(Duration::ZERO);
        let outcome = store.conn.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        });
        let _ = store.conn.busy_timeout(self.busy_timeout);
        match outcome {
            Ok((busy, pages, done)) => {
                let whole = busy == 0 && pages == done;
                if whole && mode == "TRUNCATE" {
                    store.wal_pages.store(0, Ordering::Relaxed);
                }
                whole
            }
            Err(error) => {
                tracing::warn!(%error, "cannot checkpoint the store");
                false
            }
        }
    }
}
