//! Keeps the WAL small. The connection never checkpoints by itself; this does, between two turns, and never waits for a
//! reader. A reader in another process that keeps one transaction open pins the WAL: then SQLite has no way to cut it.
//! Tries are spaced by the growth of the WAL, and then by time, so that they cost little. The log, `concern` and
//! `wal_bytes` report a long WAL. Our own lists read in short pages, so they never pin it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::store::Store;

/// Pages (4 KiB) in the WAL before it is brought into the main file.
const PAGES: i32 = 1_000;
/// From this size on the WAL is also restarted by force, if there is no reader at that moment.
const PAGES_MANY: i32 = 4 * PAGES;
/// Size of a WAL for which to warn.
const PAGES_PINNED: i32 = 16 * PAGES;
/// The same in bytes.
pub(super) const LONG: u64 = PAGES_PINNED as u64 * 4096;
/// Time between two tries to cut such a WAL if it does not grow, in milliseconds.
const AGAIN: i64 = 2_000;

pub(super) struct Checkpoints {
    pub(super) busy_timeout: Duration,
    next: i32,
    latest: i32,
    /// Size in pages for the next warning; 0 = warn at [`PAGES_PINNED`].
    warn_at: i32,
    /// When to try again if the WAL does not grow, in store time.
    again: i64,
}

impl Checkpoints {
    pub(super) fn new(busy_timeout: Duration) -> Self {
        Checkpoints { busy_timeout, next: PAGES, latest: 0, warn_at: 0, again: i64::MAX }
    }

    /// Makes a checkpoint, if one is due.
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
        // In proportion to its length, so that a WAL which cannot be cut costs few tries.
        self.next = pages + PAGES.max(pages / 4);
        let is_pinned = !whole && pages >= PAGES_MANY;
        self.again = if is_pinned { time.saturating_add(AGAIN) } else { i64::MAX };
        if whole {
            self.warn_at = 0;
        }
        // This also catches a WAL that grew in small steps.
        if is_pinned && pages >= PAGES_PINNED.max(self.warn_at) {
            self.warn_at = pages + pages / 4;
            tracing::warn!(
                store = %file,
                pages,
                "the WAL is long and cannot be cut: another program keeps a read transaction open: end it, `fuser` shows which"
            );
        }
    }

    /// Copies everything into the main file and makes it durable. Gives whether that worked.
    pub(super) fn whole(&mut self, store: &Store) -> bool {
        self.checkpoint(store, "TRUNCATE")
    }

    fn checkpoint(&self, store: &Store, mode: &str) -> bool {
        // A wait for a reader would hold up every request.
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
