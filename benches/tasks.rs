//! Benchmarks of tasks (QuantumLeap's work queue): `cargo bench --bench tasks` prints the table. Ratios are taken within
//! one run.
//!
//! `-- --only NAME…` selects some of: embedded redis rq notify; `-- --jobs N` sets the size of the large store (a
//! million).

#[path = "../tests/support/redis.rs"]
mod redis_server;
#[path = "../tests/support/sandbox.rs"]
mod sandbox;

mod support;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use broker::Opening;
use model::{NewJob, Payload};
use redis_server::RedisServer;
use sandbox::{Running, Sandbox, Setting, is_up, wait_until, wait_within};
use support::{Api, Figures, boottime, row, rss};
use wq::TaskId;

/// Notifications of a round, and their rate per second.
const NOTIFICATIONS: (usize, u64) = (2_000, 200);
/// Rounds of notifications; the sides take turns.
const ROUNDS: usize = 3;
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn main() {
    let rows: &[(&str, fn())] =
        &[("embedded", embedded), ("redis", over_redis), ("rq", over_rq), ("notify", notify)];
    support::table(rows, "");
}

/// Jobs in the large stores.
fn many() -> usize {
    let args: Vec<String> = std::env::args().collect();
    let at = args.iter().position(|arg| arg == "--jobs");
    at.and_then(|at| args.get(at + 1)?.parse().ok()).unwrap_or(1_000_000)
}

/// A task of one of two tenants.
fn task(tenant: &str, unique: u128) -> NewJob {
    let data = r#"{"fiware_service":"t","fiware_service_path":"/","fiware_correlator":null,"payload":[{"id":"Room1","type":"Room","t":{"value":21.5,"type":"Number"}}]}"#;
    let id = TaskId { tenant: tenant.into(), service_path: "/".into(), correlator: String::new(), unique };
    let job = NewJob::new("default".into(), "Insert".into(), Payload::Data(data.into()));
    NewJob { id: Some(id.job_id().expect("an id")), ..job }
}

/// Puts tasks of one tenant, and a hundredth as many of another.
fn fill(url: &str, state_dir: &Path, count: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let broker =
        brokers::address(url).expect("an address").open(&Opening::passing(state_dir)).expect("a broker");
    runtime.block_on(async {
        for batch in 0..count / 1000 {
            let all = (0..1000).map(|n| task("t", (batch * 1000 + n) as u128));
            let others = (0..10).map(|n| task("other", (batch * 10 + n) as u128));
            broker.put(all.chain(others).collect()).await.expect("a put");
        }
    });
}

/// Starts a supervisor that runs none of the tasks.
fn start<'a>(sandbox: &'a Sandbox, broker: &str) -> Running<'a> {
    let args = ["-b", broker, "--wq", "enabled=true", "--wq", "class=Insert", "-w", "1", "-q", "nothing"];
    let running = sandbox.start_raw(&args);
    wait_within(Duration::from_secs(120), "the slot is up", || is_up(&sandbox.status()));
    running
}

fn embedded() {
    let sandbox = Sandbox::new(Setting::Root);
    let state = sandbox.path("state");
    std::fs::create_dir(&state).expect("a directory");
    let url = format!("sqlite:{}", state.join("store.db").display());
    fill(&url, &state, many());
    let _running = start(&sandbox, &url);
    lists(&sandbox, "embedded", many(), "<= 50", "<= 20");
    counts(&sandbox, "embedded", many(), "<= 20");
}

fn over_redis() {
    let (sandbox, server) = (Sandbox::new(Setting::Root), RedisServer::start());
    shared(&sandbox, "qless", &server.url());
}

fn over_rq() {
    let (sandbox, server) = (Sandbox::new(Setting::Root), RedisServer::start());
    shared(&sandbox, "RQ", &format!("rq+{}", server.url()));
}

/// A tenth of the jobs, because these brokers scan all of them.
fn shared(sandbox: &Sandbox, name: &str, url: &str) {
    let many = many() / 10;
    fill(url, &sandbox.path("state"), many);
    let _running = start(sandbox, url);
    lists(sandbox, name, many, "<= 50", "<= 20");
    counts(sandbox, name, many, "");
}

/// Sends a request; returns the stream.
fn request(sandbox: &Sandbox, path: &str) -> UnixStream {
    let mut stream = UnixStream::connect(sandbox.path("run/ctl.sock")).expect("a supervisor");
    write!(stream, "GET {path} HTTP/1.0\r\nhost: x\r\n\r\n").expect("a request");
    stream
}

/// Full lists of the large tenant: time to the first task, and the supervisor's memory meanwhile.
fn lists(sandbox: &Sandbox, name: &str, many: usize, early: &str, small: &str) {
    let mut first = Figures::default();
    for _ in 0..20 {
        let began = Instant::now();
        let mut stream = request(sandbox, "/v1/tasks?tenant=t");
        let (mut text, mut piece) = (Vec::<u8>::new(), [0; 4096]);
        while !text.windows(9).any(|part| part == b"\"runtime\"") {
            let read = stream.read(&mut piece).expect("a piece");
            assert!(read > 0, "the answer ends before its first task");
            text.extend(&piece[..read]);
        }
        first.add(began.elapsed().as_secs_f64() * 1e3);
    }
    row(&format!("list of {many} tasks by tenant, {name}: first task"), early, &first, "ms");
    let supervisor = sandbox.one("tv-supervisor");
    let idle = rss(supervisor);
    let (most, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let watch = {
        let (most, is_over) = (most.clone(), is_over.clone());
        std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                most.fetch_max(rss(supervisor), Ordering::Relaxed);
                std::thread::park_timeout(Duration::from_millis(20));
            }
        })
    };
    let began = Instant::now();
    let count = tasks_of(request(sandbox, "/v1/tasks?tenant=t"));
    let took = began.elapsed();
    is_over.store(true, Ordering::Relaxed);
    watch.join().expect("the watch");
    assert_eq!(count, many, "all of them are listed");
    let grown = most.load(Ordering::Relaxed).saturating_sub(idle) as f64 / 1e3;
    row("the supervisor's memory above idle while it sends all", small, &Figures::of(grown), "MB");
    row("all of it", "", &Figures::of(took.as_secs_f64()), "s");
}

/// The number of tasks in an answer.
fn tasks_of(mut stream: UnixStream) -> usize {
    const WORD: &[u8] = b"{\"runtime\":";
    let (mut count, mut piece, mut kept) = (0, vec![0; 1 << 16], Vec::<u8>::new());
    loop {
        let read = stream.read(&mut piece).expect("a piece");
        kept.extend(&piece[..read]);
        count += kept.windows(WORD.len()).filter(|part| *part == WORD).count();
        if read == 0 {
            return count;
        }
        kept.drain(..kept.len().saturating_sub(WORD.len() - 1));
    }
}

fn counts(sandbox: &Sandbox, name: &str, many: usize, goal: &str) {
    let mut times = Figures::default();
    for _ in 0..if goal.is_empty() { 3 } else { 100 } {
        let began = Instant::now();
        let mut answer = String::new();
        request(sandbox, "/v1/tasks/count?tenant=t&status=pending")
            .read_to_string(&mut answer)
            .expect("a count");
        times.add(began.elapsed().as_secs_f64() * 1e3);
        assert!(answer.ends_with(&format!("{{\"count\":{many}}}")), "{answer}");
    }
    row(&format!("count of {many} tasks by tenant and status, {name}"), goal, &times, "ms");
}

/// Time from a notification to its row, with our workers and with RQ's SimpleWorker.
fn notify() {
    let [mut half, mut late] = [Figures::default(), Figures::default()];
    let mut all = [[Figures::default(), Figures::default()], [Figures::default(), Figures::default()]];
    for _ in 0..ROUNDS {
        let sides = [ours(), theirs()];
        half.add(sides[0].0 / sides[1].0);
        late.add(sides[0].1 / sides[1].1);
        for ([half, late], side) in all.iter_mut().zip(sides) {
            half.add(side.0);
            late.add(side.1);
        }
    }
    let rate = NOTIFICATIONS.1;
    row(&format!("notification to row, {rate}/s, p50, against RQ's SimpleWorker"), "<= 0.5", &half, "x");
    row("the same, p99", "<= 0.5", &late, "x");
    for (name, [half, late]) in ["ours", "RQ's"].into_iter().zip(all) {
        row(&format!("{name}, p50"), "", &half, "ms");
        row(&format!("{name}, p99"), "", &late, "ms");
    }
}

/// Milliseconds from a notification to its row: median and 99th percentile.
fn times(rows: &Path) -> (f64, f64) {
    let text = std::fs::read_to_string(rows.with_extension("db.times")).unwrap_or_default();
    let mut times: Vec<f64> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(put, row)| row.parse::<f64>().expect("a time") - put.parse::<f64>().expect("a time"))
        .map(|nanos| nanos / 1e6)
        .collect();
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2], times[times.len() * 99 / 100])
}

fn is_done(rows: &Path) -> bool {
    let text = std::fs::read_to_string(rows.with_extension("db.times")).unwrap_or_default();
    text.lines().count() == NOTIFICATIONS.0
}

fn ours() -> (f64, f64) {
    let sandbox = Sandbox::new(Setting::Root);
    let rows = sandbox.work("rows.db");
    let env = [
        format!("PYTHONPATH={ROOT}/python:{ROOT}/benches/support"),
        format!("BENCH_ROWS={}", rows.display()),
    ];
    let settings =
        ["--wq", "enabled=true", "--wq", "class=Insert", "-w", "1", "--env", &env[0], "--env", &env[1]];
    let worker = ["--", "python3", "-m", "taskvisor.worker", "leap"];
    let _running = sandbox.start(&[&settings[..], &worker].concat());
    wait_until("the worker is ready", || !sandbox.status()["pools"].to_string().contains("starting"));
    let mut api = Api::connect(&sandbox);
    let began = Instant::now();
    for n in 0..NOTIFICATIONS.0 {
        let due = Duration::from_secs_f64(n as f64 / NOTIFICATIONS.1 as f64);
        std::thread::sleep(due.saturating_sub(began.elapsed()));
        let body = format!(r#"{{"data": [{{"id": "{}", "type": "Room"}}]}}"#, boottime());
        api.post("/v2/notify", &body);
    }
    wait_within(Duration::from_secs(120), "all rows are there", || is_done(&rows));
    times(&rows)
}

fn theirs() -> (f64, f64) {
    let (sandbox, server) = (Sandbox::new(Setting::Root), RedisServer::start());
    let rows = sandbox.work("rows.db");
    let mut worker = Theirs(leap(&rows, &["work", &server.url()]));
    wait_until("the worker is there", || {
        redis::cmd("SCARD").arg("rq:workers").query::<u64>(&mut server.connect()).expect("a count") == 1
    });
    let [count, rate] = [NOTIFICATIONS.0.to_string(), NOTIFICATIONS.1.to_string()];
    let mut put = Theirs(leap(&rows, &["put", &server.url(), &count, &rate]));
    assert!(put.0.wait().expect("its end").success());
    wait_within(Duration::from_secs(120), "all rows are there", || is_done(&rows));
    worker.0.kill().expect("to end it");
    times(&rows)
}

/// A process that ends with this value.
struct Theirs(Child);

impl Drop for Theirs {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The script, with RQ in its PYTHONPATH.
fn leap(rows: &Path, args: &[&str]) -> Child {
    let mut site = Command::new("python3");
    site.args(["-c", "import rq_installed; print(rq_installed.site('2.12.0'))"]);
    let site = site.env("PYTHONPATH", format!("{ROOT}/python/tests")).output().expect("python3").stdout;
    let site = String::from_utf8(site).expect("a path");
    let mut command = Command::new("python3");
    command.arg(format!("{ROOT}/benches/support/leap.py")).args(args);
    command.env("PYTHONPATH", format!("{}:{ROOT}/benches/support", site.trim())).env("BENCH_ROWS", rows);
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("RQ's side")
}
