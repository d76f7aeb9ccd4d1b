//! Benchmarks of the reliable queue: `cargo bench --bench reliable` prints the table. Ratios are taken within one
//! run, in turns.
//!
//! `-- --only NAME…` selects some of: busy wake idle.

#[path = "support/python.rs"]
mod python;
#[path = "../tests/support/redis.rs"]
mod redis_server;
#[path = "../tests/support/sandbox.rs"]
mod sandbox;

mod support;

use std::time::{Duration, Instant};

use redis::Connection;
use redis_server::RedisServer;
use sandbox::{Running, Sandbox, Setting, is_up, wait_until, wait_within};
use support::{Figures, row};

/// Rounds of each figure.
const ROUNDS: usize = 5;
/// Jobs of a round: ours, and the tutorial's worker's.
const JOBS: (usize, usize) = (20_000, 2_000);
/// The data of a job: none.
const DATA: &str = "{}";

fn main() {
    support::table(&[("busy", busy), ("wake", wake), ("idle", idle)], "");
}

/// A server, and a taskvisor on it.
struct Scene {
    server: RedisServer,
    sandbox: Sandbox,
}

impl Scene {
    fn new() -> Scene {
        Scene { server: RedisServer::start(), sandbox: Sandbox::new(Setting::Root) }
    }

    fn start(&self, query: &str, args: &[&str]) -> Running<'_> {
        let url = format!("reliable+{}?{query}", self.server.url());
        let running = self.sandbox.start_raw(&[&["--broker", &url], args].concat());
        wait_until("all slots are up", || is_up(&self.sandbox.status()));
        running
    }
}

/// Puts many jobs in the way of the tutorial's producers.
fn put(redis: &mut Connection, jobs: usize, value: &str) {
    let put = "for i = 1, tonumber(ARGV[1]) do redis.call('HSET', 'values', ARGV[3] .. i, ARGV[2]) \
               redis.call('LPUSH', 'pending', ARGV[3] .. i) end";
    let name = uuid::Uuid::now_v7().to_string();
    redis::cmd("EVAL").arg(put).arg(0).arg(jobs).arg(value).arg(name).query::<()>(redis).expect("a put");
}

fn count(redis: &mut Connection) -> usize {
    redis::cmd("HLEN").arg("results").query(redis).expect("a count")
}

/// Empty jobs a second, by our workers and by the tutorial's worker.
fn busy() {
    let (mut over, mut rates, mut theirs) = (Figures::default(), Figures::default(), Figures::default());
    for _ in 0..ROUNDS {
        let (our, their) = (ours(), tutorial());
        rates.add(our);
        theirs.add(their);
        over.add(our / their);
    }
    row("jobs/s of a no-op, prefork, 2 Python processes, against the tutorial's worker", ">= 10", &over, "x");
    row("the same, jobs/s", "", &rates, "");
    row("the tutorial's worker, mended, jobs/s", "", &theirs, "");
}

fn ours() -> f64 {
    let scene = Scene::new();
    let root = env!("CARGO_MANIFEST_DIR");
    let path = format!("PYTHONPATH={root}/python:{root}/benches/support");
    let worker =
        ["-w", "2", "-m", "prefork", "--env", &path, "--", "python3", "-m", "taskvisor.worker", "app"];
    let _running = scene.start("class=nothing", &worker);
    let mut redis = scene.server.connect();
    // Every worker has finished its imports before the measurement.
    put(&mut redis, 200, DATA);
    wait_until("the workers run", || count(&mut redis) == 200);
    let begun = Instant::now();
    put(&mut redis, JOBS.0, DATA);
    wait_within(Duration::from_secs(120), "all are done", || count(&mut redis) == JOBS.0 + 200);
    JOBS.0 as f64 / begun.elapsed().as_secs_f64()
}

fn tutorial() -> f64 {
    let server = RedisServer::start();
    put(&mut server.connect(), JOBS.1, DATA);
    let client = python::path("tests/reliable/client.py").display().to_string();
    let output =
        python::peer("python", &[&client, "nothing", &server.url(), "30", &JOBS.1.to_string()]).output();
    let output = output.expect("the tutorial's worker");
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("jobs a second")
}

/// Time from a plain LPUSH, which publishes nothing, to the begin of the job.
fn wake() {
    let scene = Scene::new();
    let _running = scene.start("exec=yes", &["-w", "2"]);
    let mut redis = scene.server.connect();
    let mut times = Figures::default();
    for round in 0..50 {
        let file = scene.sandbox.work(&format!("at{round}"));
        let value = serde_json::json!({"class": "exec", "data": {"argv": ["/bin/touch", file]}});
        let done = count(&mut redis);
        let begun = Instant::now();
        put(&mut redis, 1, &value.to_string());
        wait_until("the job runs", || file.exists());
        times.add(begun.elapsed().as_secs_f64() * 1000.0);
        wait_until("it is done", || count(&mut redis) > done);
    }
    row("push to job, at rest", "<= 20", &times, "ms");
}

/// Redis commands of an idle supervisor.
fn idle() {
    let scene = Scene::new();
    let _running = scene.start("exec=yes", &["-w", "8"]);
    let mut redis = scene.server.connect();
    let mut calls = || -> u64 {
        let text: String = redis::cmd("INFO").arg("commandstats").query(&mut redis).expect("figures");
        let of = |name: &str| -> u64 {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:calls=")));
            line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
        };
        of("evalsha") + of("blmove")
    };
    let (before, begun) = (calls(), Instant::now());
    wait_until("ten seconds are over", || begun.elapsed() > Duration::from_secs(10));
    let rate = (calls() - before) as f64 / begun.elapsed().as_secs_f64();
    row("requests a second at rest, 8 slots", "<= 2", &Figures::of(rate), "");
}
