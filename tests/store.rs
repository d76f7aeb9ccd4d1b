//! The SQLite store with other programs, bad files, bad disks and kill -9.
#![allow(clippy::unwrap_used, clippy::wildcard_enum_match_arm, clippy::too_many_lines)]

#[path = "support/store.rs"]
mod support;

#[path = "store/disk.rs"]
mod disk;
#[path = "store/losses.rs"]
mod losses;
#[path = "store/place.rs"]
mod moved;
#[path = "store/wakes.rs"]
mod wakes;
#[path = "store/wal.rs"]
mod wal;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use broker::{Broker, Error, Notice, Renewal};
use model::verb::SetOption;
use model::*;
use outbox::Outbox;
use rusqlite::Connection;
use sqlite::{Options, Sqlite, World};
use support::*;

fn open(path: &Path) -> Result<Broker, Error> {
    let options = Options { busy_timeout: Duration::from_millis(100), ..Options::default() };
    Sqlite::open(path, options).map(Broker::from)
}

fn refusal(path: &Path) -> String {
    open(path).err().expect("refused").to_string()
}

fn place() -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    (directory, path)
}

#[test]
fn new_store_is_private_to_its_user() {
    let (directory, _) = place();
    let path = directory.path().join("new/store.db");
    let _store = open(&path).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    for suffix in ["", "-wal", "-shm", "-bell", "-count"] {
        let path = directory.path().join(format!("new/store.db{suffix}"));
        assert_eq!(mode(&path), 0o600, "{suffix}");
    }
}

/// SQLite runs a trigger for each row that changes, which costs a job without a tenant a third of its writes. The one of
/// each store is for removals.
#[tokio::test]
async fn only_a_store_with_tasks_has_triggers() {
    let (_directory, path) = place();
    let store = open(&path).unwrap();
    let count = |table: &str| -> i64 {
        let look = Connection::open(&path).unwrap();
        look.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    let triggers = || count("sqlite_schema WHERE type = 'trigger'");
    store.put(vec![job("a"), job("b")]).await.unwrap();
    assert_eq!((triggers(), count("scope")), (1, 0));
    let id =
        wq::TaskId { tenant: "t".into(), service_path: "/".into(), correlator: String::new(), unique: 1 };
    let task = NewJob { id: Some(id.job_id().unwrap()), ..job("c") };
    store.put(vec![job("d"), task]).await.unwrap();
    assert_eq!((triggers(), count("scope WHERE count = 1")), (4, 1));
    drop(store);
    open(&path).unwrap().put(vec![job("e")]).await.unwrap();
    assert_eq!((triggers(), count("scope")), (4, 1));
}

#[tokio::test]
async fn damaged_or_foreign_store_files_are_refused_and_left_unchanged() {
    let (directory, path) = place();
    let store = open(&path).unwrap();
    store.put((0..100).map(|n| job(&n.to_string())).collect()).await.unwrap();
    drop(store);
    let good = fs::read(&path).unwrap();
    let mut damaged = good.clone();
    damaged[4096..8192].fill(0xaa);
    let mut newer = good.clone();
    newer[60..64].copy_from_slice(&10u32.to_be_bytes());
    let mut foreign = good.clone();
    foreign[68..72].copy_from_slice(&7u32.to_be_bytes());
    let cases = [
        ("text", b"this is a text file, not a database; it is longer than a header of one hundred bytes, quite a bit".to_vec(), "not a SQLite file"),
        ("cut", good[..good.len() / 2].to_vec(), "damaged"),
        ("damaged", damaged, "damaged"),
        ("newer", newer, "its schema is 10, this program knows 9"),
        ("foreign", foreign, "another program"),
    ];
    for (name, content, why) in cases {
        let path = directory.path().join(name);
        fs::write(&path, &content).unwrap();
        let error = refusal(&path);
        assert!(error.contains(why) && error.contains(path.to_str().unwrap()), "{name}: {error}");
        assert!(fs::read(&path).unwrap() == content, "{name} was changed");
    }
}

/// The schemas of earlier versions.
const OLD: [&str; 8] = [
    include_str!("support/schema_1.sql"),
    include_str!("support/schema_2.sql"),
    include_str!("support/schema_3.sql"),
    include_str!("support/schema_4.sql"),
    include_str!("support/schema_5.sql"),
    include_str!("support/schema_6.sql"),
    include_str!("support/schema_7.sql"),
    include_str!("support/schema_8.sql"),
];

/// A store of an old schema, with the job `N` in each state `N`.
fn old_store(path: &Path, schema: &str) {
    let conn = Connection::open(path).unwrap();
    conn.execute_batch(schema).unwrap();
    conn.execute_batch(
        "INSERT INTO boot (one, boot_id, ahead, seen) VALUES (1, 'an earlier one', 5, 1000);
         INSERT INTO queue (id, name, waiting, delayed, running, canceling, complete, failed, held, canceled)
         VALUES (1, 'q', 1, 1, 1, 1, 1, 1, 1, 1);
         WITH RECURSIVE n (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 7)
         INSERT INTO job (jid, queue, state, priority, fence, attempt, put_at, due_at, expires_at, instance, ended_at,
             class, kind, payload, result, tags)
         SELECT n, 1, n, 0, 3, 2, 900, iif(n = 1, 1 << 60, NULL), iif(n IN (2, 3), 1 << 60, NULL),
             iif(n IN (2, 3), 'me', NULL), iif(n > 3, 950, NULL), 'work', 0, CAST('{}' AS BLOB), iif(n = 4, '7', NULL),
             iif(n < 2, json_array('old', 'x', 'old'), NULL)
         FROM n;
         UPDATE job SET worker = 281479271677953 WHERE jid = '7';",
    )
    .unwrap();
    if schema.contains("CREATE TABLE tag") {
        let tags = "INSERT OR IGNORE INTO tag (tag, job) SELECT value, job.id FROM job, json_each(job.tags) WHERE tags IS NOT NULL";
        conn.execute(tags, []).unwrap();
    }
}

#[tokio::test]
async fn store_of_an_old_schema_is_upgraded_with_all_its_jobs() {
    for schema in OLD {
        goes_on(schema).await;
    }
}

async fn goes_on(schema: &str) {
    let (_directory, path) = place();
    old_store(&path, schema);
    let store = open(&path).unwrap();
    for state in JobState::ALL.into_iter().filter(|state| *state != JobState::Depends) {
        let n = state as usize;
        let job = store.get(n.to_string().as_str().into()).await.unwrap().unwrap();
        assert_eq!((job.state, job.attempt, job.unknown, job.progress), (state, 2, 0, None));
        assert_eq!((job.renewals, job.put_by, job.history), (0, None, vec![]));
        // An old row knows only the number of its pool.
        assert_eq!(job.worker.map(|worker| worker.to_string()), (n == 7).then(|| "#1.1#1".into()));
    }
    assert_eq!(store.counts().await.unwrap()[&"q".into()].jobs.values().sum::<u64>(), 8);
    let old = store.list(Filter { tag: Some("old".into()), ..Filter::default() }).await.unwrap();
    assert_eq!(old.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), ["1", "0"]);
    assert_eq!(store.recover("me".into(), vec![]).await, Ok(2));
    store.retry("4".into(), "uid 7".into()).await.unwrap();
    let taken = store.fetch(request(&["q"], 9)).await.unwrap();
    assert_eq!(ids(&taken), ["0", "2", "4"]);
    let far = Progress { fraction: Some(0.5), message: None };
    store.progress(vec![("0".into(), taken[0].lease.fence, far.clone())]).await.unwrap();
    store.settle(vec![settlement(&taken[1].lease, complete())]).await.unwrap();
    store.settle(vec![settlement(&taken[2].lease, retry_after(Duration::ZERO))]).await.unwrap();
    // Complete, then put back, then not complete.
    assert_eq!(store.get("4".into()).await.unwrap().unwrap().history.len(), 3);
    drop(store);
    let store = open(&path).unwrap();
    assert_eq!(store.get("0".into()).await.unwrap().unwrap().progress, Some(far));
    assert_eq!(store.get("2".into()).await.unwrap().unwrap().state, JobState::Complete);
}

/// A process that knows only an earlier schema may go on with the store that it has open, and ids are used again.
#[tokio::test]
async fn removed_job_takes_its_time_to_begin_along_whoever_removes_it() {
    for old in [None, Some(OLD[7])] {
        let (_directory, path) = place();
        if let Some(schema) = old {
            old_store(&path, schema);
        }
        let store = open(&path).unwrap();
        store.put(vec![NewJob { expires: Some(Duration::from_secs(60)), ..job("a") }]).await.unwrap();
        drop(store);
        let conn = Connection::open(&path).unwrap();
        let kept = || conn.query_row("SELECT count(*) FROM unbegun", [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(kept(), 1);
        conn.execute("DELETE FROM job WHERE jid = 'a'", []).unwrap();
        assert_eq!(kept(), 0);
    }
}

#[test]
fn one_of_two_programs_that_open_an_old_store_upgrades_it() {
    for _ in 0..5 {
        let (_directory, path) = place();
        old_store(&path, OLD[0]);
        let start = |id: &str| helper("put", &path, &[]).env("STORE_JOB", id).stdout(Stdio::piped()).spawn();
        let both = [start("a").unwrap(), start("b").unwrap()];
        for (child, id) in both.into_iter().zip(["a", "b"]) {
            let said = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
            assert!(said.contains(&format!("put {id}")), "{said}");
        }
        let conn = Connection::open(&path).unwrap();
        let version: i64 = conn.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
        let jobs: i64 = conn.query_row("SELECT count(unknown) FROM job", [], |row| row.get(0)).unwrap();
        assert_eq!((version, jobs), (9, 10));
    }
}

/// Each process sees the file empty, half made or complete, and never mistakes it for a file of another program.
#[test]
fn concurrent_opens_of_a_new_store_all_succeed() {
    for _ in 0..100 {
        let (_directory, path) = place();
        let start = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            let opened: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        start.wait();
                        Sqlite::open(&path, Options::default()).map(drop)
                    })
                })
                .collect();
            opened.into_iter().for_each(|one| one.join().unwrap().unwrap());
        });
    }
}

#[test]
fn a_directory_is_refused() {
    let (directory, _) = place();
    assert!(refusal(directory.path()).contains("it is a directory"));
}

#[test]
fn nfs_is_refused() {
    let (_directory, path) = place();
    let world = World { fs_type: Arc::new(|_| Ok(0x6969)), ..World::default() };
    let error = Sqlite::open(&path, Options { world, ..Options::default() }).err().unwrap().to_string();
    assert!(error.contains("NFS") && error.contains("local disk"), "{error}");
    assert!(!path.exists());
}

#[tokio::test]
async fn lock_of_another_program_is_reported_and_the_store_recovers() {
    let (_directory, path) = place();
    let store = open(&path).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let error = store.put(vec![job("a")]).await.unwrap_err().to_string();
    assert!(error.contains("fuser") && error.contains("store.db"), "{error}");
    assert_eq!(store.get("a".into()).await, Ok(None));
    other.execute_batch("ROLLBACK").unwrap();
    store.put(vec![job("a")]).await.unwrap();
}

#[tokio::test]
async fn put_by_one_process_wakes_the_other() {
    let (_directory, path) = place();
    let (supervisor, cli) = (open(&path).unwrap(), open(&path).unwrap());
    cli.put(vec![job("a")]).await.unwrap();
    assert!(matches!(supervisor.next_notice().await, Notice::Wake(_)));
    let a = supervisor.fetch(request(&["q"], 1)).await.unwrap().pop().unwrap();
    assert_eq!(cli.cancel("a".into(), "uid 7".into()).await, Ok(JobState::Canceling));
    let revoked = loop {
        let notice = supervisor.next_notice().await;
        if !matches!(notice, Notice::Wake(_)) {
            break notice;
        }
    };
    assert_eq!(revoked, Notice::Revoked { job: "a".into(), fence: a.lease.fence, why: Revocation::Canceled });
    let settle = supervisor.settle(vec![settlement(&a.lease, Verdict::Canceled)]);
    let (ended, _) = tokio::join!(cli.ended("a".into()), settle);
    assert_eq!(ended, Ok(JobState::Canceled));
}

#[tokio::test]
async fn a_delayed_job_wakes_at_its_time() {
    let (_directory, path) = place();
    let store = open(&path).unwrap();
    store.put(vec![NewJob { delay: Duration::from_millis(20), ..job("a") }]).await.unwrap();
    assert_eq!(store.next_notice().await, Notice::Wake(QueueName::from("q").into()));
    assert!(!store.fetch(request(&["q"], 1)).await.unwrap().is_empty());
}

#[tokio::test]
async fn wall_clock_changes_do_not_move_times_within_a_boot_nor_backwards_over_one() {
    let (_directory, path) = place();
    let (wall, boot, now) =
        (Arc::new(AtomicI64::new(1_000_000)), Arc::new(AtomicU64::new(1)), Clock::default());
    let reopen = || {
        let (wall, boot) = (wall.clone(), boot.clone());
        let world = World {
            wall_millis: Arc::new(move || wall.load(Ordering::SeqCst)),
            boot_id: Arc::new(move || boot.load(Ordering::SeqCst).to_string()),
            ..now.world()
        };
        Broker::from(Sqlite::open(&path, Options { world, ..Options::default() }).unwrap())
    };
    let put_at = async |store: &Broker, id: &str| {
        store.put(vec![job(id)]).await.unwrap();
        store.get(id.into()).await.unwrap().unwrap().put_at.0
    };
    assert_eq!(put_at(&reopen(), "a").await, 1_000_000);
    wall.store(9_000_000, Ordering::SeqCst);
    now.forward(Duration::from_secs(20));
    assert_eq!(put_at(&reopen(), "b").await, 1_020_000);
    wall.store(5, Ordering::SeqCst);
    boot.store(2, Ordering::SeqCst);
    assert_eq!(put_at(&reopen(), "c").await, 1_020_000);
    wall.store(7_000_000, Ordering::SeqCst);
    boot.store(3, Ordering::SeqCst);
    assert_eq!(put_at(&reopen(), "d").await, 7_000_000);
}

#[tokio::test]
async fn a_fetch_does_not_wait_for_the_disk_and_a_put_does() {
    let (_directory, path) = place();
    let (go, gate) = std::sync::mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let sync = move |_: &fs::File| {
        gate.lock().unwrap().recv().unwrap();
        Ok(())
    };
    let world = World { sync: Arc::new(sync), ..World::default() };
    let store = Broker::from(Sqlite::open(&path, Options { world, ..Options::default() }).unwrap());
    let mut put = Box::pin(store.put(vec![job("a")]));
    let a = tokio::select! {
        biased;
        _ = &mut put => panic!("answered before it was on disk"),
        notice = store.next_notice() => {
            assert!(matches!(notice, Notice::Wake(_)));
            store.fetch(request(&["q"], 1)).await.unwrap().pop().unwrap()
        }
    };
    go.send(()).unwrap();
    assert_eq!(put.await.unwrap(), ["a".into()]);
    let mut settle = Box::pin(store.settle(vec![settlement(&a.lease, complete())]));
    tokio::select! {
        biased;
        _ = &mut settle => panic!("answered before it was on disk"),
        notice = async { store.fetch(request(&["q"], 1)).await } => assert_eq!(notice, Ok(vec![])),
    }
    go.send(()).unwrap();
    settle.await.unwrap();
}

#[test]
fn full_disk_refuses_a_put_that_does_not_fit_and_accepts_smaller_ones() {
    let (_directory, path) = place();
    let said = helper("full", &path, &[]).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains("big: refused") && said.contains("small: put"), "{said}");
}

#[test]
fn put_is_answered_only_after_its_fsync() {
    let (directory, path) = place();
    let trace = directory.path().join("trace");
    let strace =
        ["strace", "-f", "-o", trace.to_str().unwrap(), "-e", "trace=fdatasync,write,pwrite64", "-y"];
    let ran = helper("put", &path, &strace).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let trace = fs::read_to_string(&trace).unwrap();
    let line = |what: &str| {
        trace.lines().position(|line| line.contains(what)).unwrap_or_else(|| panic!("{what}: {trace}"))
    };
    let last = |to: usize, is_it: &dyn Fn(&str) -> bool| {
        trace.lines().take(to).collect::<Vec<_>>().iter().rposition(|line| is_it(line))
    };
    let answered = line("\"put a");
    let written =
        last(answered, &|line| line.contains("pwrite64") && line.contains("store.db-wal>")).unwrap();
    let synced = last(answered, &|line| line.contains("fdatasync") && line.contains("-wal")).unwrap();
    assert!(written < synced && synced < answered, "{trace}");
}

#[test]
fn kill_9_loses_no_acknowledged_write() {
    let (_directory, path) = place();
    for round in 1..6 {
        let mut child = helper("churn", &path, &[]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said: Vec<String> = lines.by_ref().take(40 * round).map(|line| line.unwrap()).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        said.extend(lines.map_while(Result::ok));
        let conn = Connection::open(&path).unwrap();
        for line in said.iter().filter(|line| line.starts_with("put ") || line.starts_with("done ")) {
            let Some((verb, id)) = line.split_once(' ').filter(|(_, id)| id.len() == 32) else { continue };
            let state: i64 =
                conn.query_row("SELECT state FROM job WHERE jid = ?1", [id], |row| row.get(0)).unwrap();
            assert!(verb == "put" || state == JobState::Complete as i64, "{line}: {state}");
        }
        let check: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok");
        let wrong = "SELECT count(*) FROM queue WHERE complete <> (SELECT count(*) FROM job WHERE state = 4)";
        assert_eq!(conn.query_row(wrong, [], |row| row.get::<_, i64>(0)), Ok(0));
    }
}

/// Runs this test binary as the helper process that `what` names.
fn helper(what: &str, path: &Path, wrapper: &[&str]) -> Command {
    let me = std::env::current_exe().unwrap();
    let mut command = match wrapper.split_first() {
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments).arg(me);
            command
        }
        None => Command::new(me),
    };
    command.args(["--exact", "helper_process", "--nocapture", "--test-threads=1"]);
    command.env("STORE_HELPER", what).env("STORE_PATH", path);
    command
}

/// Not a test: the other tests run it as a process.
#[tokio::test]
async fn helper_process() {
    let Ok(what) = std::env::var("STORE_HELPER") else { return };
    let path = std::env::var("STORE_PATH").unwrap();
    match what.as_str() {
        "put" => {
            // As patient as the program: another process may be upgrading the store.
            let store = Sqlite::open(Path::new(&path), Options::default()).map(Broker::from).unwrap();
            let id = std::env::var("STORE_JOB").unwrap_or("a".into());
            let id = store.put(vec![job(&id)]).await.unwrap().remove(0);
            say(&format!("put {id}"));
        }
        "full" => full(path.as_ref()).await,
        "churn" => churn(path.as_ref()).await,
        _ => panic!("{what}"),
    }
}

async fn full(path: &Path) {
    use nix::sys::resource::{Resource, setrlimit};
    use nix::sys::signal::{SigSet, Signal};
    let mut ignored = SigSet::empty();
    ignored.add(Signal::SIGXFSZ);
    // Threads made from here on inherit the mask: the write fails with EFBIG.
    ignored.thread_block().unwrap();
    let store = open(path).unwrap();
    store.put(vec![job("first")]).await.unwrap();
    setrlimit(Resource::RLIMIT_FSIZE, 1 << 20, 1 << 20).unwrap();
    let big = NewJob { payload: Payload::Data(Bytes(vec![1; 4 << 20])), ..job("big") };
    let (big, small) = tokio::join!(store.put(vec![big]), store.put(vec![job("small")]));
    say(&match big {
        Err(Error::Disk(why)) if why.contains("store.db") => "big: refused".to_owned(),
        other => format!("big: {other:?}"),
    });
    say(&match small {
        Ok(_) => "small: put".to_owned(),
        Err(error) => format!("small: {error}"),
    });
}

async fn churn(path: &Path) {
    let store = open(path).unwrap();
    store.recover("me".into(), vec![]).await.unwrap();
    loop {
        let ids =
            store.put(vec![NewJob { id: None, ..job("") }, NewJob { id: None, ..job("") }]).await.unwrap();
        ids.iter().for_each(|id| say(&format!("put {id}")));
        for fetched in store.fetch(request(&["q"], 1)).await.unwrap() {
            store.settle(vec![settlement(&fetched.lease, complete())]).await.unwrap();
            say(&format!("done {}", fetched.job.id));
        }
    }
}

/// One write for one line.
fn say(line: &str) {
    use std::io::Write;
    let line = format!("{line}\n");
    let _ = std::io::stdout().lock().write_all(line.as_bytes());
}
