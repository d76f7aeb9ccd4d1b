//! Keeps the WAL small. The connection never checkpoints by itself; this does, between two turns, and never waits for a
//! reader. A reader in another process that keeps one transaction open pins the WAL: then SQLite has no way to cut it.
//! Tries are spaced by the growth of the WAL, and then by time, so that they cost little. The log, `concern` and
//! `wal_bytes` report a long WAL. Our own lists read in short pages, so they never pin it. A checkpoint that fails (the
//! disk does not take what goes into the main file) is a complaint until one succeeds.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::store::Store;
use super::trouble::explain;

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
/// What fails, in complaints.
pub(super) const UNCUT: &str = "the write-ahead log cannot be cut";

pub(super) struct Checkpoints {
    busy_timeout: Duration,
    /// Path of the store, for messages.
    file: String,
    /// Whether the last try failed, which a reader's lock is not.
    is_failing: bool,
    next: i32,
    latest: i32,
    /// Size in pages for the next warning; 0 = warn at [`PAGES_PINNED`].
    warn_at: i32,
    /// When to try again if the WAL does not grow, in store time.
    again: i64,
}

impl Checkpoints {
    pub(super) fn new(busy_timeout: Duration, file: String) -> Self {
        let (next, again) = (PAGES, i64::MAX);
        Checkpoints { busy_timeout, file, is_failing: false, next, latest: 0, warn_at: 0, again }
    }

    /// When to try again a checkpoint that failed, in store time, even if nobody asks anything of the store.
    pub(super) fn retry_at(&self) -> Option<i64> {
        self.is_failing.then_some(self.again)
    }

    /// Makes a checkpoint, if one is due.
    pub(super) fn run(&mut self, store: &Store) {
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
        let is_pinned = !whole && !self.is_failing && pages >= PAGES_MANY;
        self.again = if is_pinned || self.is_failing { time.saturating_add(AGAIN) } else { i64::MAX };
        if whole {
            self.warn_at = 0;
        }
        // This also catches a WAL that grew in small steps.
        if is_pinned && pages >= PAGES_PINNED.max(self.warn_at) {
            self.warn_at = pages + pages / 4;
            tracing::warn!(
                store = %self.file,
                pages,
                "the WAL is long and cannot be cut: another program keeps a read transaction open: end it, `fuser` shows which"
            );
        }
    }

    /// Copies everything into the main file and makes it durable. Gives whether that worked.
    pub(super) fn whole(&mut self, store: &Store) -> bool {
        self.checkpoint(store, "TRUNCATE")
    }

    fn checkpoint(&mut self, store: &Store, mode: &str) -> bool {
        // A wait for a reader would hold up every request.
        let _ = store.conn.busy_timeout(Duration::ZERO);
        let outcome = store.conn.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        });
        let _ = store.conn.busy_timeout(self.busy_timeout);
        let (complaints, now) = (&store.notices.complaints, (store.world.now)());
        self.is_failing = outcome.is_err();
        match outcome {
            Ok((busy, pages, done)) => {
                complaints.well(UNCUT, now);
                let whole = busy == 0 && pages == done;
                if whole && mode == "TRUNCATE" {
                    store.wal_pages.store(0, Ordering::Relaxed);
                }
                whole
            }
            Err(error) => {
                complaints.wrong(UNCUT, &explain("copy it into", &self.file, &error), now);
                false
            }
        }
    }
}
