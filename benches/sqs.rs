//! Benchmarks of Amazon SQS, on the fake of the tests: `cargo bench --bench sqs` prints the table.
//!
//! `-- --only NAME…` selects some of: busy idle wake killed shares kale. The last needs Python with pip: an emulator and
//! the peer are installed below `target`. With NDKALE=FOLDER, a clone of Nextdoor/ndkale, and Python 3.9 the row `shares`
//! has the real kale beside it.

#[path = "../tests/support/sandbox.rs"]
mod sandbox;
#[path = "../tests/support/sqs/mod.rs"]
mod sqs;

#[path = "support/kale.rs"]
mod kale;
mod support;

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use sandbox::{Running, Sandbox, Setting, is_up, kill, wait_until, wait_within};
use serde_json::{Value, json};
use sqs::FakeSqs;
use support::{Figures, row};

fn main() {
    let rows: &[(&str, fn())] = &[
        ("busy", busy),
        ("idle", idle),
        ("wake", wake),
        ("killed", killed),
        ("shares", shares),
        ("kale", beside_kale),
    ];
    support::table(rows, "");
}

/// A fake SQS and a taskvisor on it.
struct Scene {
    fake: FakeSqs,
    sandbox: Sandbox,
}

impl Scene {
    fn new() -> Scene {
        Scene { fake: FakeSqs::start(), sandbox: Sandbox::new(Setting::Root) }
    }

    fn url(&self) -> String {
        format!("sqs://eu-west-1?endpoint={}&create=yes&exec=yes", self.fake.endpoint())
    }

    fn start(&self, slots: &str, queues: &[&str], worker: &[&str]) -> Running<'_> {
        let queues: Vec<&str> = queues.iter().flat_map(|queue| ["-q", queue]).collect();
        self.start_with(&[&["-w", slots], &queues[..], worker].concat())
    }

    fn start_with(&self, args: &[&str]) -> Running<'_> {
        let url = self.url();
        let args = [&["--broker", &url], args].concat();
        let running = self.sandbox.start_with(&args, |command| {
            command.env("AWS_ACCESS_KEY_ID", "bench").env("AWS_SECRET_ACCESS_KEY", "bench");
        });
        wait_until("all slots are up", || is_up(&self.sandbox.status()));
        running
    }

    /// Puts jobs directly into the fake, so that only the program's own calls are counted.
    fn send(&self, queue: &str, bodies: &[Value]) {
        self.fake.put(queue, bodies.iter().map(Value::to_string));
    }

    fn shell(&self, script: &str) -> Value {
        let cwd = self.sandbox.path("work");
        json!({"class": "exec", "data": {"argv": ["/bin/sh", "-c", script], "cwd": cwd}})
    }
}

/// Calls for a thousand empty tasks.
fn busy() {
    const TASKS: usize = 2000;
    let scene = Scene::new();
    let root = env!("CARGO_MANIFEST_DIR");
    let path = format!("PYTHONPATH={root}/python:{root}/benches/support");
    let worker = ["-m", "prefork", "--env", &path, "--", "python3", "-m", "taskvisor.worker", "app"];
    let _running = scene.start("12", &["q"], &worker);
    scene.send("q", &vec![json!({"class": "nothing", "data": null}); TASKS]);
    scene.fake.forget_calls();
    let ledger = ledger_cpu(&scene);
    let begun = Instant::now();
    wait_within(Duration::from_secs(300), "all are deleted", || scene.fake.bodies("q").is_empty());
    let took = begun.elapsed();
    let calls: u64 = scene.fake.calls().values().sum();
    let each = calls as f64 / TASKS as f64 * 1000.0;
    row("API calls for 1,000 no-op tasks, 12 slots (kale 220 to 240)", "<= 220", &Figures::of(each), "");
    let rate = TASKS as f64 / took.as_secs_f64();
    row("no-op tasks a second, 12 Python workers", "", &Figures::of(rate), "/s");
    let each = support::micros(ledger_cpu(&scene) - ledger) / TASKS as f64;
    row("CPU of the ledger's threads for a task", "<= 60", &Figures::of(each), "us");
}

/// CPU time so far of the ledger's threads: the store's thread and the sync thread.
fn ledger_cpu(scene: &Scene) -> Duration {
    let threads = support::threads(scene.sandbox.one("tv-supervisor"));
    threads.iter().filter(|(name, _)| name.starts_with("store")).map(|(_, thread)| thread.cpu).sum()
}

/// Calls of an idle host.
fn idle() {
    let scene = Scene::new();
    let names: Vec<String> = (0..12).map(|n| format!("q{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let _running = scene.start("8", &names, &[]);
    let polls = || scene.fake.calls().get("ReceiveMessage").copied().unwrap_or(0);
    // The `status` calls that waited for the slots make SQS count the jobs of each queue; they are over by the second
    // poll.
    wait_within(Duration::from_secs(60), "all queues are polled twice", || polls() >= 24);
    scene.fake.forget_calls();
    let begun = Instant::now();
    wait_within(Duration::from_secs(90), "they are polled again three times", || polls() >= 36);
    let (calls, took) = (scene.fake.calls(), begun.elapsed().as_secs_f64());
    let rate = |calls: u64| Figures::of(calls as f64 / took);
    row(
        "API calls a second at rest, 12 queues, 8 workers (kale 20 to 100)",
        "<= 0.7",
        &rate(calls.values().sum()),
        "/s",
    );
    for (name, count) in calls {
        row(&format!("of it {name}"), "", &rate(count), "/s");
    }
}

/// Time from a message to the begin of its job.
fn wake() {
    let scene = Scene::new();
    let names: Vec<String> = (0..12).map(|n| format!("q{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let _running = scene.start("8", &names, &[]);
    let mut times = Figures::default();
    for round in 0..30 {
        let file = format!("at{round}");
        let begun = Instant::now();
        scene.send(names[round % 12], &[scene.shell(&format!(": >{file}"))]);
        wait_until("the job runs", || scene.sandbox.work(&file).exists());
        times.add(begun.elapsed().as_secs_f64() * 1000.0);
    }
    row("message to job, 12 queues at rest (kale 4,300)", "<= 100", &times, "ms");
}

/// Time from the death of a worker to the next run of its job.
fn killed() {
    let scene = Scene::new();
    let _running = scene.start("1", &["q"], &["--retries", "20"]);
    scene.send("q", &[scene.shell("echo $$ >>pids; exec sleep 600")]);
    let pids = || fs::read_to_string(scene.sandbox.work("pids")).unwrap_or_default();
    wait_until("it runs", || pids().lines().count() == 1);
    let pid = pids().trim().parse().expect("a pid");
    let hidden = || scene.fake.calls().get("ChangeMessageVisibilityBatch").copied().unwrap_or(0);
    let before = hidden();
    let begun = Instant::now();
    kill(pid, "KILL");
    wait_until("its message is visible again, or soon", || hidden() > before);
    let took = begun.elapsed().as_secs_f64() * 1000.0;
    row("worker killed to its message given back (kale 600,000)", "<= 200", &Figures::of(took), "ms");
}

/// The order of queues: how many of the first jobs come from each of three queues with a backlog, of the priorities 100,
/// 40 and 5.
fn shares() {
    const JOBS: usize = 250;
    const QUEUES: [&str; 3] = ["high", "mid", "low"];
    let orders = [
        ("strict_priority", None),
        ("highest_priority_first", Some("HighestPriorityFirst")),
        ("reduced_lottery", Some("ReducedLottery")),
    ];
    for (order, selector) in orders {
        let scene = Scene::new();
        let pool = format!(
            "pools:\n- name: p\n  workers: 4\n  order: {order}\n  queues: [low, mid, high]\n  queue_priorities: {{high: \
             100, mid: 40, low: 5}}\n"
        );
        let settings = scene.sandbox.work("pools.yaml");
        fs::write(&settings, pool).expect("the settings");
        for queue in QUEUES {
            scene.send(queue, &vec![scene.shell(&format!("echo {queue} >>out")); JOBS]);
        }
        let _running = scene.start_with(&["-c", &settings.display().to_string()]);
        let said = || fs::read_to_string(scene.sandbox.work("out")).unwrap_or_default();
        wait_within(Duration::from_secs(300), "so many have run", || said().lines().count() >= JOBS);
        let said = said();
        let count = |queue| said.lines().take(JOBS).filter(|line| *line == queue).count().to_string();
        let ours = QUEUES.map(count).join("/");
        let kales =
            selector.map_or_else(|| "it has no such order".into(), |selector| of_kale(selector, JOBS));
        println!(
            "| first {JOBS} of {} jobs from high/mid/low, {order} | | {ours} | | kale: {kales} |",
            3 * JOBS
        );
    }
}

/// The same of the real kale, one process with batches of ten, if its folder is given.
fn of_kale(selector: &str, tasks: usize) -> String {
    if std::env::var_os("NDKALE").is_none() {
        return "not given by NDKALE".into();
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/run-ndkale");
    let ran = Command::new(script).args(["shares", selector, &tasks.to_string()]).output().expect("a shell");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).trim().replace(' ', "/")
}

/// Tasks of kale on an emulator: our two workers and two processes of a kale-like worker, in turns.
fn beside_kale() {
    const TASKS: usize = 3000;
    let (mut ratio, mut ours, mut cpu) = (Figures::default(), Figures::default(), Figures::default());
    for _ in 0..3 {
        let (we, they) = (kale::round(kale::Who::Ours, TASKS), kale::round(kale::Who::Peer, TASKS));
        ratio.add(we.rate / they.rate);
        ours.add(we.rate);
        cpu.add(we.cpu / they.cpu);
    }
    row(
        "tasks of kale a second, 2 workers, against a worker as kale has it, 2 processes",
        ">= 0.9",
        &ratio,
        "x",
    );
    row("the same, ours", "", &ours, "/s");
    row("CPU for a task against its", "", &cpu, "x");
}
