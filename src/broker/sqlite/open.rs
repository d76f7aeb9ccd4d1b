//! Opening a store: what is not ours is refused and left as it is.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, params};

use super::options::{Options, World};
use super::trouble::explain;
use crate::broker::Error;

const SCHEMA: &str = include_str!("schema.sql");
const APPLICATION_ID: i64 = 0x7461_736b;
/// Its second half, which came with schema 4.
const MODEL: &str = include_str!("model.sql");
const VERSION: i64 = 4;
/// The way from one schema to the next, from 1 on.
const STEPS: [&str; 3] = [
    "ALTER TABLE job ADD COLUMN unknown INTEGER NOT NULL DEFAULT 0;
     ALTER TABLE job ADD COLUMN progress TEXT;
     PRAGMA user_version = 2;",
    "ALTER TABLE job ADD COLUMN put_by TEXT;
     ALTER TABLE job ADD COLUMN renewals INTEGER NOT NULL DEFAULT 0;
     ALTER TABLE job ADD COLUMN renewed_at INTEGER;
     CREATE TABLE history (id INTEGER PRIMARY KEY, job INTEGER NOT NULL REFERENCES job (id),
         entry TEXT NOT NULL);
     CREATE INDEX history_job ON history (job, id);
     PRAGMA user_version = 3;",
    concat!(
        "ALTER TABLE queue ADD COLUMN depends INTEGER NOT NULL DEFAULT 0;
         ALTER TABLE job ADD COLUMN failure_group TEXT;
         ALTER TABLE job ADD COLUMN not_before INTEGER;
         ALTER TABLE job ADD COLUMN ready_at INTEGER;
         ALTER TABLE job ADD COLUMN recurring INTEGER;
         ALTER TABLE job ADD COLUMN grace INTEGER NOT NULL DEFAULT 0;
         UPDATE job SET failure_group = json_extract(failure, '$.group') WHERE state IN (5, 6);
         PRAGMA user_version = 4;",
        include_str!("model.sql"),
        "INSERT OR IGNORE INTO tag (tag, job) SELECT value, job.id FROM job, json_each(job.tags) WHERE tags IS NOT NULL;",
    ),
];
const NFS: i64 = 0x6969;
/// Larger files are not read through at each start.
const CHECKED_MAX: u64 = 16 << 20;
/// What the WAL file is cut to when it begins anew.
const WAL_KEPT: i64 = 16 << 20;

/// The file's connection, ready for use.
pub(super) fn connect(path: &Path, options: &Options) -> Result<Connection, Error> {
    let file = path.display().to_string();
    prepare_place(path, &options.world)?;
    let opening = |error: rusqlite::Error| explain("open", &file, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let conn = Connection::open_with_flags(path, flags).map_err(opening)?;
    conn.busy_timeout(options.busy_timeout).map_err(opening)?;
    // Until it is known to be ours, nothing is written: not even the WAL of a killed writer into the file.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(opening)?;
    recognise(&conn, path)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).map_err(opening)?;
    use_wal(&conn, options.busy_timeout).map_err(opening)?;
    settle_in(&conn).map_err(opening)?;
    Ok(conn)
}

/// A store in memory.
pub(super) fn connect_memory() -> Result<Connection, Error> {
    let opening = |error: rusqlite::Error| explain("open", "in memory", &error);
    let conn = Connection::open_in_memory().map_err(opening)?;
    settle_in(&conn).map_err(opening)?;
    Ok(conn)
}

/// Makes the directory and the file, for this user alone. Never opens a file that exists: closing it would take away
/// the locks that SQLite holds on it in this process.
fn prepare_place(path: &Path, world: &World) -> Result<(), Error> {
    let refuse =
        |why: String| Err(Error::Refused(format!("cannot open the store {}: {why}", path.display())));
    let directory = directory(path);
    if let Err(error) = DirBuilder::new().recursive(true).mode(0o700).create(&directory) {
        return refuse(format!("cannot make its directory {}: {error}", directory.display()));
    }
    if (world.fs_type)(&directory).is_ok_and(|kind| kind == NFS) {
        return refuse("it is on NFS, where locks and fsync do not hold; give a path on a local disk".into());
    }
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => refuse("it is a directory; give the path of a file".into()),
        Ok(found) if !found.is_file() => refuse("it is not a regular file; give another path".into()),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
                Ok(_) => Ok(()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                Err(error) => refuse(format!("cannot make it: {error}")),
            }
        }
        Err(error) => refuse(error.to_string()),
    }
}

fn directory(path: &Path) -> PathBuf {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned()
}

/// An error when the file is neither empty nor a store this program can use.
fn recognise(conn: &Connection, path: &Path) -> Result<(), Error> {
    let file = path.display();
    let reading = |error: rusqlite::Error| explain("open", &file.to_string(), &error);
    if conn.is_readonly("main").map_err(reading)? {
        return Err(Error::Refused(format!(
            "cannot open the store {file}: this user may not write it; see its owner and mode"
        )));
    }
    let (id, version, tables) = marks(conn).map_err(reading)?;
    if id == 0 && version == 0 && tables == 0 {
        return Ok(());
    }
    if id != APPLICATION_ID {
        return Err(Error::Refused(format!(
            "cannot open the store {file}: it is the SQLite file of another program; give another path"
        )));
    }
    if version > VERSION {
        return Err(Error::Refused(format!(
            "cannot open the store {file}: its schema is {version}, this program knows {VERSION}; use the newer \
             taskvisor that made it"
        )));
    }
    check(conn, fs::metadata(path).map_or(0, |found| found.len())).map_err(reading)
}

/// The file's application, its schema, and how many tables it has: all of one moment, for another process may be making
/// the store just now.
fn marks(conn: &Connection) -> Result<(i64, i64, i64), rusqlite::Error> {
    let moment = conn.unchecked_transaction()?;
    // Reading the first page, SQLite compares the size it tells with the file's: a file cut short is noticed.
    let tables = moment.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let id = moment.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    Ok((id, version(&moment)?, tables))
}

/// A whole check of a small file, of the small tables in a large one; the rest is found out when it is read.
fn check(conn: &Connection, size: u64) -> Result<(), rusqlite::Error> {
    let checks: &[&str] = if size <= CHECKED_MAX {
        &["PRAGMA quick_check(1)"]
    } else {
        &["PRAGMA quick_check('boot')", "PRAGMA quick_check('queue')"]
    };
    for check in checks {
        let verdict: String = conn.query_row(check, [], |row| row.get(0))?;
        if verdict != "ok" {
            let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
            return Err(rusqlite::Error::SqliteFailure(code, Some(verdict)));
        }
    }
    Ok(())
}

/// The switch needs the file alone for a moment, and SQLite does not wait for it.
fn use_wal(conn: &Connection, busy_timeout: Duration) -> Result<(), rusqlite::Error> {
    const STEP: Duration = Duration::from_millis(10);
    let mut tries = busy_timeout.as_millis() / STEP.as_millis();
    loop {
        match conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0)) {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && tries > 0 => {
                tries -= 1;
                std::thread::sleep(STEP);
            }
            Err(error) => return Err(error),
            Ok(_) => return Ok(()),
        }
    }
}

fn settle_in(conn: &Connection) -> Result<(), rusqlite::Error> {
    conn.execute_batch(&format!(
        "PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = {WAL_KEPT}; PRAGMA foreign_keys = OFF;
         PRAGMA temp_store = MEMORY; PRAGMA cache_size = -2048; PRAGMA trusted_schema = OFF;"
    ))?;
    conn.set_prepared_statement_cache_capacity(64);
    // Else a statement is planned anew whenever the bound of its LIMIT differs from the last one.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    if version(conn)? < VERSION {
        conn.execute_batch("BEGIN IMMEDIATE")?;
        // Asked again: another process may have been quicker.
        let version = usize::try_from(version(conn)?).unwrap_or(0);
        match version.checked_sub(1) {
            None => [SCHEMA, MODEL].iter().try_for_each(|half| conn.execute_batch(half))?,
            Some(done) => STEPS.iter().skip(done).try_for_each(|step| conn.execute_batch(step))?,
        }
        conn.execute_batch("COMMIT")?;
    }
    Ok(())
}

/// Which schema; 0 while there is none.
fn version(conn: &Connection) -> Result<i64, rusqlite::Error> {
    conn.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Turns time since boot into store time: (what to add, a store time known as reached). Within one boot the sum is fixed,
/// whatever happens to the wall clock; a new boot starts at the wall clock, but never behind a time that was reached.
pub(super) fn start_clock(conn: &Connection, world: &World) -> Result<(i64, i64), rusqlite::Error> {
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let boot = (world.boot_id)();
    let since_boot = i64::try_from((world.now)().as_millis()).unwrap_or(i64::MAX);
    let row = conn
        .query_row("SELECT boot_id, ahead, seen FROM boot", [], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        })
        .optional()?;
    let seen = row.as_ref().map_or(0, |row| row.2);
    let ahead = match row {
        Some((id, ahead, _)) if id == boot => ahead,
        Some(_) | None => (world.wall_millis)().max(seen) - since_boot,
    };
    let seen = seen.max(since_boot + ahead);
    conn.execute(
        "INSERT OR REPLACE INTO boot (one, boot_id, ahead, seen) VALUES (1, ?1, ?2, ?3)",
        params![boot, ahead, seen],
    )?;
    conn.execute_batch("COMMIT")?;
    Ok((ahead, seen))
}

/// Makes the names of the store's files durable: SQLite does it for the WAL at its own first sync, which is ours here.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(directory(path))?.sync_all()
}

/// The name of a file beside the store.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
