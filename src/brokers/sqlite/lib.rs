//! A store of jobs in a SQLite file: the default broker; in memory the reference for all brokers.
//!
//! # One thread writes, one thread waits for the disk
//!
//! The *store's thread* owns the connection. It takes all requests that wait, applies them in one transaction and commits
//! (group commit). Each request checks before it writes, so that a mistake in one needs no rollback; what SQLite itself
//! refuses (a full disk) is rolled back whole and tried again one by one. Fetches and renewals are answered at the commit:
//! a lease that is lost with the power is a job that waits again. All else is answered once it is on disk, and the
//! *syncer* waits for that: it takes all that is committed, calls `fdatasync` on the WAL once, and answers. Meanwhile the
//! store's thread goes on with the next batch, so a fetch does not wait for the disk. Settlements alone are synced
//! at most every 5 ms; anything a person waits for, at once and with them.
//!
//! # Why this keeps what `synchronous = FULL` promises
//!
//! FULL is NORMAL plus a sync of the WAL after each commit, before it returns. Here the same sync comes before the answer.
//! Between the commit and our sync, its frames are in one of three places, and all are covered:
//! * in the WAL: our `fdatasync` starts after the commit has written them, so it covers them. It is the same file: the WAL is
//!   made at the open and removed only when the last connection closes, and ours is open; a checkpoint cuts it (TRUNCATE,
//!   `journal_size_limit`), but does not replace it.
//! * in the main file, after a checkpoint: in NORMAL, SQLite syncs the WAL before it copies, and the main file after the
//!   last page, and only then counts the frames as copied. The WAL starts over (which overwrites them) only when all are.
//! * under a WAL that started over: that needs the checkpoint above to be whole, so they are durable in the main file. SQLite syncs
//!   the new header before frames follow it (NORMAL, too), so a torn restart cannot revive old frames.
//!
//! A prefix is never torn: frames carry chained checksums, and recovery stops at the first bad one; a later commit on disk
//! without an earlier one is not taken. SQLite syncs the directory at its own first sync of a new WAL, which would come late:
//! we do it at the open. Our descriptor on the WAL is harmless (SQLite's locks are on the main file and the `-shm`); one
//! on the main file would not be, as closing it drops them.
//!
//! # When the disk fails
//!
//! After a failed `fdatasync` the kernel takes the lost pages for clean; the next sync would succeed and lie. So all who asked
//! for something get an error (who waits for the end of a job goes on waiting), the store refuses what has to be durable and
//! gives no jobs, and tries (after 1 s, doubled up to 30 s) to checkpoint everything into the main file: that writes what is in
//! the WAL there and syncs it. Only then is anything promised again. What failed may be there afterwards or not: the caller
//! asks. (A power cut *during* that checkpoint can meet a WAL with
//! a hole; no program above a disk that loses writes can rule that out.)
//!
//! Files that are moved or removed while they are open (`place.rs`) are the same trouble until they are back.
//!
//! # When what was promised is gone
//!
//! If somebody cuts or removes the WAL of a closed store, the latest commits are gone, and SQLite reports the rest as
//! intact. So each commit raises a counter in a row that it writes anyway, and after each sync the syncer writes the
//! durable value into a file beside the store (`count.rs`). That costs a `pwrite` and no sync. After a power failure the
//! file may be behind: it can miss a loss, and never reports one that did not happen.
//!
//! # Time
//!
//! Times are milliseconds since boot plus a number fixed for this boot, so setting the wall clock moves no lease and no delay.
//! Only recurring jobs by cron look at the wall clock (`occur.rs`): the process that holds the store looks at least once a minute.
//!
//! # Schemas
//!
//! A program that opens a store of an older schema brings it up to date, in one transaction; a program that is older than the store
//! refuses it.
//!
//! # Several processes
//!
//! Every process may open the store; SQLite's locks order them, a doorbell (`notify_file.rs`) wakes them. Nobody polls, unless inotify is refused.
//! The counters in `queue` are the program's: who edits jobs with the `sqlite3` shell has to keep them.
//! In the store a job has one owner of its lease; an expired lease goes back unspent, counted as an interruption.

#![warn(unreachable_pub)]

mod adapter;
mod admin;
mod adopt;
mod advance;
mod broker;
mod bulk;
mod call;
mod cancel;
mod checkpoint;
mod class_figures;
mod columns;
mod count;
mod delivery;
mod depend;
mod edit;
mod empty_filter_cache;
mod expiry;
mod expiry_time;
mod failed;
mod figures;
mod forget;
mod gathered;
mod handle;
mod heard;
mod history;
mod in_force;
mod lapse;
mod learn;
mod lease;
mod leaseless;
mod list;
mod lost;
mod message;
mod needs;
mod news;
mod notify_file;
mod occur;
mod open;
mod options;
mod outbox;
mod place;
mod put;
mod read;
mod receives;
mod recurring;
mod recurring_row;
mod remove;
mod settle;
mod spread;
mod store;
mod syncer;
mod tally;
mod tasks;
mod thread;
mod transaction;
mod trouble;
mod unbegun;
mod unreadable;
mod verbs;
mod waiting;

pub use adapter::{InFile, InMemory};
pub use delivery::{Adopted, Delivery, Elsewhere, Handle, OpenReceive, Received};
pub use handle::Sqlite;
pub use options::{Options, World};
