//! Benchmarks of the store and of lists: `cargo bench --bench store` prints the table. Ratios are taken within one run.
//!
//! `-- --only NAME…` selects some of: put clients cycle lists; `-- --jobs N` sets the size of the large store (a
//! million).

#[path = "../tests/support/sandbox.rs"]
mod sandbox;
#[path = "../tests/support/store.rs"]
#[allow(clippy::unwrap_used)]
mod scene;

mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::Broker;
use model::{Filter, NewJob, Payload};
use sandbox::{Sandbox, Setting};
use sqlite::{Options, Sqlite};
use support::{Figures, feed, row, rss};

/// Rounds of each ratio; its two sides take turns.
const ROUNDS: usize = 5;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let after = |flag: &str| args.iter().position(|arg| arg == flag).map(|at| &args[at + 1..]);
    let wanted = |name: &str| after("--only").is_none_or(|names| names.iter().any(|arg| arg == name));
    let many = after("--jobs").and_then(|rest| rest.first()?.parse().ok()).unwrap_or(1_000_000);
    println!("| what | to reach | median | p99 | note |\n|---|---|---|---|---|");
    if wanted("put") {
        puts();
    }
    if wanted("clients") {
        clients();
    }
    if !wanted("cycle") && !wanted("lists") {
        return;
    }
    let sandbox = Sandbox::new(Setting::Root);
    let (small, large) = (sandbox.path("small.db"), sandbox.path("state").join("store.db"));
    std::fs::create_dir(sandbox.path("state")).expect("a directory");
    fill(&small, 1_000);
    fill(&large, many);
    if wanted("cycle") {
        cycles(&small, &large, many);
    }
    if wanted("lists") {
        lists(&sandbox, &large, many);
    }
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work)
}

fn open(path: &Path) -> Broker {
    Sqlite::open(path, Options::default()).expect("a store").into()
}

fn job() -> NewJob {
    let payload = Payload::Data("{\"to\": \"someone@example.org\", \"template\": \"welcome\"}".into());
    NewJob { id: None, payload, ..scene::job("") }
}

fn fill(path: &Path, count: usize) {
    let store = open(path);
    run(async {
        for _ in 0..count / 1000 {
            store.put(vec![job(); 1000]).await.expect("a put");
        }
    });
}

/// Batches of 100, each durable before the next, against the same rows written by plain SQLite.
fn puts() {
    const BATCHES: usize = 200;
    let (mut ratios, mut rates) = (Figures::default(), Figures::default());
    for _ in 0..ROUNDS {
        let dir = tempfile::tempdir_in("target").expect("a directory");
        let (ours, raw) = (dir.path().join("ours.db"), dir.path().join("raw.db"));
        let store = open(&ours);
        let start = Instant::now();
        run(async {
            for _ in 0..BATCHES {
                store.put(vec![job(); 100]).await.expect("a put");
            }
        });
        let took = start.elapsed();
        drop(store);
        ratios.add(raw_inserts(&ours, &raw, BATCHES * 100).as_secs_f64() / took.as_secs_f64());
        rates.add((BATCHES * 100) as f64 / took.as_secs_f64());
    }
    row("put, 100 a batch, durable, against raw SQLite inserts of the same rows", ">= 0.3", &ratios, "x");
    row("the same, jobs/s", "", &rates, "");
}

/// Copies the rows of one store into another of the same schema: 100 per transaction, `synchronous=FULL`.
fn raw_inserts(from: &Path, to: &Path, count: usize) -> Duration {
    const COLUMNS: &str = "jid, queue, state, priority, put_at, class, kind, payload";
    type Row = (String, i64, i64, i64, i64, String, i64, Vec<u8>);
    drop(open(to));
    let from = rusqlite::Connection::open(from).expect("the rows");
    let mut rows = from.prepare(&format!("SELECT {COLUMNS} FROM job ORDER BY id")).expect("a query");
    let rows = rows.query_map([], |row| Row::try_from(row)).expect("rows");
    let rows: Vec<Row> = rows.map(|row| row.expect("a row")).collect();
    assert_eq!(rows.len(), count);
    let conn = rusqlite::Connection::open(to).expect("a file");
    conn.execute_batch("PRAGMA synchronous = FULL; INSERT INTO queue (name) VALUES ('q')")
        .expect("a setting");
    let insert = format!("INSERT INTO job ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)");
    let start = Instant::now();
    for batch in rows.chunks(100) {
        conn.execute_batch("BEGIN IMMEDIATE").expect("a transaction");
        let mut statement = conn.prepare_cached(&insert).expect("a statement");
        for (jid, queue, state, priority, put_at, class, kind, payload) in batch {
            let values = rusqlite::params![jid, queue, state, priority, put_at, class, kind, payload];
            statement.execute(values).expect("a row");
        }
        conn.execute("UPDATE queue SET waiting = waiting + 100", []).expect("a count");
        conn.execute_batch("COMMIT").expect("a commit");
    }
    start.elapsed()
}

/// 50 clients that put one job per call, against the same jobs in calls of 50, four at a time: the maximum with group
/// commits.
fn clients() {
    const TIMES: usize = 200;
    let (mut ratios, mut rates) = (Figures::default(), Figures::default());
    for _ in 0..ROUNDS {
        let dir = tempfile::tempdir_in("target").expect("a directory");
        let store = Arc::new(open(&dir.path().join("store.db")));
        let groups = crowd(&store, 4, TIMES / 4, 50);
        let singles = crowd(&store, 50, TIMES, 1);
        ratios.add(groups.as_secs_f64() / singles.as_secs_f64());
        rates.add((50 * TIMES) as f64 / singles.as_secs_f64());
    }
    row("put, 50 clients at once, one job each time, durable, against groups of 50", ">= 0.5", &ratios, "x");
    row("the same, jobs/s", "", &rates, "");
}

/// Time for `clients` concurrent clients to put their batches.
fn crowd(store: &Arc<Broker>, clients: usize, times: usize, batch: usize) -> Duration {
    run(async {
        let start = Instant::now();
        let client = |store: Arc<Broker>| async move {
            for _ in 0..times {
                store.put(vec![job(); batch]).await.expect("a put");
            }
        };
        let clients: Vec<_> = (0..clients).map(|_| tokio::spawn(client(store.clone()))).collect();
        for client in clients {
            client.await.expect("a client");
        }
        start.elapsed()
    })
}

/// Fetch and settle of ten jobs, each durable before the next, in a large and in a small store.
fn cycles(small: &Path, large: &Path, many: usize) {
    let (mut ratios, mut rates) = (Figures::default(), Figures::default());
    for _ in 0..ROUNDS {
        let (few, lots) = (cycle(small), cycle(large));
        ratios.add(lots / few);
        rates.add(lots);
    }
    let what = format!("fetch + settle, 10 at a time, durable, {many} jobs in the store against 1,000");
    row(&what, ">= 0.8", &ratios, "x");
    row("the same, jobs/s", "", &rates, "");
}

fn cycle(path: &Path) -> f64 {
    const TIMES: usize = 100;
    let store = open(path);
    run(async {
        let start = Instant::now();
        for _ in 0..TIMES {
            let fetched = store.fetch(scene::request(&["q"], 10)).await.expect("jobs");
            assert_eq!(fetched.len(), 10);
            let settle = fetched.iter().map(|one| scene::settlement(&one.lease, scene::complete()));
            store.settle(settle.collect()).await.expect("settled");
        }
        let took = start.elapsed();
        store.put(vec![job(); TIMES * 10]).await.expect("as many again");
        (TIMES * 10) as f64 / took.as_secs_f64()
    })
}

/// Lists of the large store: by the library, by the command without a supervisor, and through a supervisor.
fn lists(sandbox: &Sandbox, large: &Path, many: usize) {
    let store = open(large);
    let mut first = Figures::default();
    run(async {
        for _ in 0..20 {
            let start = Instant::now();
            let jobs = store.list(Filter::default()).await.expect("a list");
            first.add(start.elapsed().as_secs_f64() * 1e3);
            assert_eq!(jobs.len(), 100);
        }
    });
    drop(store);
    row(&format!("list of {many} jobs, first page of 100, the store alone"), "<= 50", &first, "ms");
    by_command(sandbox, many, "without a supervisor");
    let _running = sandbox.start(&["-w", "1", "-q", "nothing"]);
    let supervisor = sandbox.one("tv-supervisor");
    let before = rss(supervisor);
    by_command(sandbox, many, "through the supervisor");
    let grown = (rss(supervisor) as f64 - before as f64) / 1e3;
    row("growth of the supervisor by it", "<= 10", &Figures::of(grown), "MB");
}

fn by_command(sandbox: &Sandbox, many: usize, way: &str) {
    let mut first = Figures::default();
    for _ in 0..10 {
        let start = Instant::now();
        let page = feed(sandbox.command(&["job", "list", "-n", "100"]), "");
        first.add(start.elapsed().as_secs_f64() * 1e3);
        assert_eq!(page.stdout.split(|byte| *byte == b'\n').count(), 102);
    }
    row(&format!("`job list -n 100`, {way}"), "<= 50", &first, "ms");
    let start = Instant::now();
    let mut list = sandbox.command(&["job", "list", "-n", "0", "--json"]);
    let mut list = list.stdout(Stdio::piped()).spawn().expect("a list");
    let mut lines = BufReader::with_capacity(1 << 20, list.stdout.take().expect("lines"));
    let (mut count, mut line, mut early, mut late) = (0, Vec::new(), 0, 0);
    while lines.read_until(b'\n', &mut line).expect("a line") > 0 {
        line.clear();
        count += 1;
        if count == many / 10 {
            early = rss(list.id() as i32);
        } else if count == many / 10 * 9 {
            late = rss(list.id() as i32);
        }
    }
    assert!(list.wait().expect("its end").success());
    assert!(count >= many);
    row(&format!("`job list -n 0 --json`, {way}"), "", &Figures::of(start.elapsed().as_secs_f64()), "s");
    let growth = Figures::of(late as f64 / early as f64);
    row("its memory after nine tenths against that after one", "<= 1.2", &growth, "x");
}
