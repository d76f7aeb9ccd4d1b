//! Opens a store. A file that is not ours is refused and stays as it is.

use std::fmt::{Display, Write};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::{AccessFlags, eaccess};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, params};

use super::lost::{self, beside};
use super::options::{Options, World};
use super::trouble::explain;
use broker::Error;

const SCHEMA: &str = include_str!("schema.sql");
const APPLICATION_ID: i64 = 0x7461_736b;
/// The second half of the schema, which came with version 4.
const MODEL: &str = include_str!("model.sql");
/// What came with schema 7.
const SCOPE: &str = include_str!("scope.sql");
const VERSION: i64 = 9;
/// The steps from one schema to the next, from 1 on.
const STEPS: [&str; 8] = [
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
    "ALTER TABLE job ADD COLUMN token TEXT;
     ALTER TABLE job ADD COLUMN pool TEXT;
     PRAGMA user_version = 5;",
    "CREATE TABLE class_day (day INTEGER NOT NULL, class TEXT NOT NULL, complete INTEGER NOT NULL,
         retries INTEGER NOT NULL, failed INTEGER NOT NULL, held INTEGER NOT NULL, ran INTEGER NOT NULL,
         longest INTEGER NOT NULL, measured INTEGER NOT NULL, cpu INTEGER NOT NULL, peak_rss INTEGER NOT NULL,
         PRIMARY KEY (day, class)) WITHOUT ROWID;
     PRAGMA user_version = 6;",
    concat!("ALTER TABLE job ADD COLUMN scope TEXT; PRAGMA user_version = 7;", include_str!("scope.sql")),
    "ALTER TABLE boot ADD COLUMN puts INTEGER NOT NULL DEFAULT 0;
     ALTER TABLE boot ADD COLUMN changes INTEGER NOT NULL DEFAULT 0;
     ALTER TABLE queue ADD COLUMN puts INTEGER NOT NULL DEFAULT 0;
     ALTER TABLE queue ADD COLUMN changes INTEGER NOT NULL DEFAULT 0;
     PRAGMA user_version = 8;",
    "CREATE TABLE unbegun (job INTEGER PRIMARY KEY REFERENCES job (id), at INTEGER NOT NULL);
     CREATE INDEX unbegun_at ON unbegun (at);
     CREATE TRIGGER unbegun_removed AFTER DELETE ON job BEGIN DELETE FROM unbegun WHERE job = old.id; END;
     PRAGMA user_version = 9;",
];
const NFS: i64 = 0x6969;
/// Larger files are not checked as a whole at each start.
const CHECKED_MAX: u64 = 16 << 20;
/// Size to which the WAL file is cut when it starts over, in bytes.
const WAL_KEPT: i64 = 16 << 20;

/// Opens the file's connection, ready for use.
pub(super) fn connect(path: &Path, options: &Options) -> Result<Connection, Error> {
    let file = path.display().to_string();
    lost::refuse_missing(path)?;
    prepare_place(path, &options.world)?;
    let opening = |error: rusqlite::Error| explain("open", &file, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let conn = Connection::open_with_flags(path, flags).map_err(opening)?;
    conn.busy_timeout(options.busy_timeout).map_err(opening)?;
    // Nothing is written until the file is known to be ours, not even the WAL of a killed writer into the file.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(opening)?;
    recognise(&conn, path)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).map_err(opening)?;
    let found = version(&conn).map_err(opening)?;
    if options.keeps_schema && (1..VERSION).contains(&found) {
        let why = format!(
            "its schema is {found}, that of another version of the supervisor here, which runs, and this program would change it \
             to {VERSION}; restart the supervisor with this program, or use the supervisor's own"
        );
        return Err(refused(path, why));
    }
    use_wal(&conn, options.busy_timeout).map_err(opening)?;
    settle_in(&conn).map_err(opening)?;
    Ok(conn)
}

/// Finds the errors of [`connect`] without a trace: makes, writes and locks nothing.
pub(super) fn look(path: &Path, world: &World) -> Result<(), Error> {
    lost::refuse_missing(path)?;
    if !is_there(path, world)? {
        return Ok(());
    }
    eaccess(path, AccessFlags::W_OK).map_err(|_| unwritable(path))?;
    let opening = |error: rusqlite::Error| explain("open", &path.display().to_string(), &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    // While the WAL is empty, no process is copying from it.
    let has_wal = || fs::metadata(beside(path, "-wal")).is_ok_and(|wal| wal.len() > 0);
    let had_wal = has_wal();
    let seen = Connection::open_with_flags(still(path), flags).map_err(opening);
    match seen.and_then(|conn| judge(&conn, path)) {
        // This read ignored the WAL, which may hold all tables of a new store; and the file may be half written by
        // others. Opening the store shows the whole.
        Err(Error::Failed(_) | Error::Disk(_) | Error::Lost(_)) if had_wal || has_wal() => Ok(()),
        seen => seen,
    }
}

/// The number of jobs that have not ended. If the WAL holds some, SQLite reads it, too.
pub(super) fn unfinished(path: &Path) -> Option<u64> {
    let has_wal = fs::metadata(beside(path, "-wal")).is_ok_and(|wal| wal.len() > 0);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = match has_wal {
        true => Connection::open_with_flags(path, flags),
        false => Connection::open_with_flags(still(path), flags | OpenFlags::SQLITE_OPEN_URI),
    };
    // The states that `JobState::has_ended` names.
    let count = "SELECT count(*) FROM job WHERE state NOT IN (4, 5, 6, 7)";
    conn.ok()?.query_row(count, [], |row| row.get::<_, i64>(0)).ok()?.try_into().ok()
}

/// A URI by which SQLite opens the file as one that never changes: then it makes no other file beside it.
fn still(path: &Path) -> String {
    let mut address = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        let _ = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                write!(address, "{}", *byte as char)
            }
            other => write!(address, "%{other:02X}"),
        };
    }
    address + "?immutable=1"
}

/// A store in memory.
pub(super) fn connect_memory() -> Result<Connection, Error> {
    let opening = |error: rusqlite::Error| explain("open", "in memory", &error);
    let conn = Connection::open_in_memory().map_err(opening)?;
    settle_in(&conn).map_err(opening)?;
    Ok(conn)
}

/// Makes the directory and the file, for this user alone. Never opens an existing file: closing it would release the
/// locks that SQLite holds on it in this process.
fn prepare_place(path: &Path, world: &World) -> Result<(), Error> {
    let directory = directory(path);
    if let Err(error) = DirBuilder::new().recursive(true).mode(0o700).create(&directory) {
        return Err(refused(path, format!("cannot make its directory {}: {error}", directory.display())));
    }
    if is_there(path, world)? {
        return Ok(());
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(refused(path, format!("cannot make it: {error}"))),
    }
}

/// Whether there is a file already. Fails if the file or its place cannot be a store.
fn is_there(path: &Path, world: &World) -> Result<bool, Error> {
    let refuse = |why: &str| Err(refused(path, why));
    if (world.fs_type)(&directory(path)).is_ok_and(|kind| kind == NFS) {
        return refuse("it is on NFS, where locks and fsync do not hold; give a path on a local disk");
    }
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => refuse("it is a directory; give the path of a file"),
        Ok(found) if !found.is_file() => refuse("it is not a regular file; give another path"),
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => refuse(&error.to_string()),
    }
}

fn refused(path: &Path, why: impl Display) -> Error {
    Error::Failed(format!("cannot open the store {}: {why}", path.display()))
}

fn unwritable(path: &Path) -> Error {
    refused(path, "this user may not write it; see its owner and mode")
}

fn directory(path: &Path) -> PathBuf {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned()
}

/// Fails if the file is neither empty nor a store that this program can use.
fn recognise(conn: &Connection, path: &Path) -> Result<(), Error> {
    let reading = |error: rusqlite::Error| explain("open", &path.display().to_string(), &error);
    match conn.is_readonly("main").map_err(reading)? {
        true => Err(unwritable(path)),
        false => judge(conn, path),
    }
}

/// The same check by the content of the file.
fn judge(conn: &Connection, path: &Path) -> Result<(), Error> {
    let reading = |error: rusqlite::Error| explain("open", &path.display().to_string(), &error);
    let was_open = lost::was_open(path);
    let (id, version, tables) = marks(conn).map_err(reading)?;
    if id == 0 && version == 0 && tables == 0 {
        return if was_open { Err(lost::blank(path)) } else { Ok(()) };
    }
    if id != APPLICATION_ID {
        return Err(refused(path, "it is the SQLite file of another program; give another path"));
    }
    if version > VERSION {
        let why = format!(
            "its schema is {version}, this program knows {VERSION}; use the newer taskvisor that made it"
        );
        return Err(refused(path, why));
    }
    check(conn, fs::metadata(path).map_or(0, |found| found.len())).map_err(reading)
}

/// The file's application id, its schema version, and its number of tables, all read at one moment: another process may
/// be making the store right now.
fn marks(conn: &Connection) -> Result<(i64, i64, i64), rusqlite::Error> {
    let moment = conn.unchecked_transaction()?;
    // When SQLite reads the first page, it compares the size noted there with the file's: so a file cut short is
    // noticed.
    let tables = moment.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let id = moment.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    Ok((id, version(&moment)?, tables))
}

/// Checks a small file completely, and only the small tables of a large one; other errors are found when the rows are
/// read.
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
            // The first line only names the database; the error is in the next.
            let wrong = verdict.lines().find(|line| !line.starts_with("***")).unwrap_or(&verdict);
            return Err(rusqlite::Error::SqliteFailure(code, Some(wrong.to_owned())));
        }
    }
    Ok(())
}

/// The switch needs the file alone for a moment, and SQLite does not wait for that.
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
        "PRAGMA synchronous = FULL; PRAGMA journal_size_limit = {WAL_KEPT}; PRAGMA foreign_keys = OFF;
         PRAGMA temp_store = MEMORY; PRAGMA cache_size = -2048; PRAGMA trusted_schema = OFF;"
    ))?;
    conn.set_prepared_statement_cache_capacity(64);
    // Otherwise SQLite plans a statement again whenever the value of its LIMIT changes.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    if version(conn)? < VERSION {
        conn.execute_batch("BEGIN IMMEDIATE")?;
        // Read again: another process may have been quicker.
        let version = usize::try_from(version(conn)?).unwrap_or(0);
        match version.checked_sub(1) {
            None => [SCHEMA, MODEL, SCOPE].iter().try_for_each(|half| conn.execute_batch(half))?,
            Some(done) => STEPS.iter().skip(done).try_for_each(|step| conn.execute_batch(step))?,
        }
        conn.execute_batch("COMMIT")?;
    }
    // Everything until here is synced: a store without its tables would count as lost. From here on our own thread
    // syncs.
    conn.execute_batch("PRAGMA synchronous = NORMAL")
}

/// The version of the schema; 0 while there is none.
fn version(conn: &Connection) -> Result<i64, rusqlite::Error> {
    conn.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// The numbers that turn time since boot into store time: the difference, and a store time known as reached. Within one
/// boot the difference is fixed, whatever happens to the wall clock; a new boot starts at the wall clock, but never
/// behind a time that was reached.
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
        "INSERT INTO boot (one, boot_id, ahead, seen) VALUES (1, ?1, ?2, ?3)
         ON CONFLICT (one) DO UPDATE SET boot_id = ?1, ahead = ?2, seen = ?3",
        params![boot, ahead, seen],
    )?;
    conn.execute_batch("COMMIT")?;
    Ok((ahead, seen))
}

/// Makes the names of the store's files durable. SQLite does this for the WAL at its own first sync, which here is
/// ours.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(directory(path))?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn read_only_look_opens_the_right_file_and_creates_none() {
        let dir = tempfile::tempdir().unwrap();
        let world = World::default();
        for name in [&b"store.db"[..], b"a b?mode=rw#%2e&c", b"\xff\xc3\xa9"] {
            let place = dir.path().join(OsStr::from_bytes(name));
            let path = place.join("store.db");
            look(&path, &world).unwrap();
            assert!(!place.exists());
            drop(connect(&path, &Options::default()).unwrap());
            look(&path, &world).unwrap();
            let header = fs::read(&path).unwrap();
            fs::write(&path, [&header[..60], &99u32.to_be_bytes(), &header[64..]].concat()).unwrap();
            let newer = look(&path, &world).unwrap_err().to_string();
            assert!(newer.contains("its schema is 99"), "{newer}");
            fs::write(&path, [b'x'; 5000]).unwrap();
            let garbage = look(&path, &world).unwrap_err().to_string();
            assert!(garbage.contains("it is not a SQLite file"), "{garbage}");
            fs::write(beside(&path, "-wal"), "what others write").unwrap();
            look(&path, &world).unwrap();
            assert_eq!(fs::read_dir(&place).unwrap().count(), 2);
        }
    }
}
