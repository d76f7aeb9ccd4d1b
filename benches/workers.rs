//! The figures of the worker modes, with the Python package: `cargo bench --bench workers` prints the table. Ratios are taken
//! within one run, in turns.
//!
//! `-- --only NAME…` takes some of: prefork fork coroutine memory latency leak; `-- --long` adds the leak.

#[path = "../tests/support/sandbox.rs"]
mod sandbox;

mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use sandbox::{Running, Sandbox, Setting, kill, wait_until, wait_within};
use support::{Api, Figures, Thread, feed, micros, pss, row, threads, tree};

const HUEY: &str = "huey==3.5.4";
const ROUNDS: usize = 3;

fn main() {
    let rows: &[(&str, fn())] = &[
        ("prefork", prefork),
        ("fork", fork),
        ("coroutine", coroutine),
        ("memory", memory),
        ("latency", latency),
        ("leak", leak),
    ];
    support::table(rows, "leak");
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Where Python finds the package, the jobs and the peers.
fn python_path() -> String {
    format!("{}:{}", path("python").display(), path("benches/support").display())
}

fn temporary(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// A program of the Python environment that all rows use; made on first use.
fn python(program: &str) -> String {
    static BIN: OnceLock<PathBuf> = OnceLock::new();
    let bin = BIN.get_or_init(|| {
        let place = temporary("workers-venv");
        let run = |command: &mut Command| {
            let done = command.stdout(Stdio::null()).status().is_ok_and(|status| status.success());
            assert!(done, "{command:?} failed: the Python environment of this bench cannot be made");
        };
        if !place.join("bin/huey_consumer").exists() {
            run(Command::new("python3").args(["-m", "venv"]).arg(&place));
            run(Command::new(place.join("bin/python")).args(["-m", "pip", "install", "-q", HUEY]));
        }
        place.join("bin")
    });
    bin.join(program).display().to_string()
}

/// A program in the same Python, with the same modules to be found.
fn peer(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(python(program));
    command
        .args(args)
        .env("PYTHONPATH", python_path())
        .env("PYTHONPYCACHEPREFIX", temporary("pycache"))
        .stdin(Stdio::null());
    command
}

/// `start` with workers in Python.
fn start<'a>(sandbox: &'a Sandbox, args: &[&str]) -> Running<'a> {
    let path = format!("PYTHONPATH={}", python_path());
    let cache = format!("PYTHONPYCACHEPREFIX={}", temporary("pycache").display());
    let python = python("python");
    let app = if args.contains(&"coroutine") { "naps" } else { "app" };
    let rest = ["--env", &path, "--env", &cache, "--", &python, "-m", "taskvisor.worker", app];
    sandbox.start(&[args, &rest].concat())
}

/// What one round used.
struct Round {
    wall: Duration,
    /// Of keeper and supervisor, per thread.
    own: BTreeMap<String, Thread>,
    jobs: usize,
}

impl Round {
    fn rate(&self) -> f64 {
        self.jobs as f64 / self.wall.as_secs_f64()
    }

    /// Microseconds of CPU and context switches per job of one thread.
    fn of(&self, thread: &str) -> (f64, f64) {
        let used = self.own.get(thread).copied().unwrap_or_default();
        (micros(used.cpu) / self.jobs as f64, used.switches as f64 / self.jobs as f64)
    }

    fn cpu(&self) -> f64 {
        self.own.values().map(|used| micros(used.cpu)).sum::<f64>() / self.jobs as f64
    }
}

/// Runs jobs of a class that were put beforehand: from the moment the queue is opened until all are complete.
fn round(class: &str, jobs: usize, args: &[&str]) -> Round {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = start(&sandbox, args);
    sandbox.ok(&["queue", "pause", "default"]);
    let put = feed(sandbox.command(&["put", "default", class, "--lines"]), &"{}\n".repeat(jobs));
    let ids = String::from_utf8(put.stdout).expect("text");
    let last = ids.lines().last().expect("ids").to_owned();
    let pids = [sandbox.one("taskvisor"), sandbox.one("tv-supervisor")];
    let look = || pids.into_iter().flat_map(threads).collect::<BTreeMap<_, _>>();
    let mut api = Api::connect(&sandbox);
    let (before, start) = (look(), Instant::now());
    api.resume("default");
    // The last one says when it is time to look: nothing polls while the others run.
    api.get(&format!("/v1/jobs/{last}/wait"));
    let mut complete = || api.get("/v1/queues")["default"]["jobs"]["complete"].as_u64() == Some(jobs as u64);
    wait_until("all jobs are complete", &mut complete);
    let wall = start.elapsed();
    let since = |(name, now): (String, Thread)| {
        let then = before.get(&name).copied().unwrap_or_default();
        (name, Thread { cpu: now.cpu - then.cpu, switches: now.switches - then.switches })
    };
    let own = look().into_iter().map(since).collect();
    sandbox.ok(&["stop"]);
    Round { wall, own, jobs }
}

/// Figures of several rounds, by what they are of.
#[derive(Default)]
struct Split(BTreeMap<String, (Figures, Figures)>);

const THREADS: [(&str, &str); 6] = [
    ("taskvisor", "keeper"),
    ("tv-supervisor", "loop"),
    ("store", "store"),
    ("store syncer", "syncer"),
    ("store bell", "bell"),
    ("tv-logs", "logs"),
];

impl Split {
    fn add(&mut self, round: &Round) {
        for (thread, name) in THREADS {
            let (cpu, switches) = round.of(thread);
            let figures = self.0.entry(name.to_owned()).or_default();
            figures.0.add(cpu);
            figures.1.add(switches);
        }
    }

    fn print(&self) {
        for (_, name) in THREADS {
            let (cpu, switches) = &self.0[name];
            if cpu.median() >= 0.1 {
                row(&format!("&nbsp; of it: {name}"), "", cpu, "us");
                row(&format!("&nbsp; {name}, context switches per job"), "", switches, "");
            }
        }
    }
}

/// Huey on the same file system, durable: jobs per second from its first job to its last.
fn huey(jobs: usize, processes: &str) -> f64 {
    let sandbox = Sandbox::new(Setting::Root);
    let store = sandbox.path("huey.db");
    let (script, count) = (path("benches/support/peer.py").display().to_string(), jobs.to_string());
    let filled = peer("python", &[&script, "fill", &count]).env("BENCH_STORE", &store).status();
    assert!(filled.is_ok_and(|status| status.success()), "Huey's queue is filled");
    let args = ["peer.huey", "-k", "process", "-w", processes, "-q"];
    let mut consumer = peer("huey_consumer", &args);
    // Its processes may wait for the lock of its store so long that they give up and say so.
    let mut consumer = consumer.env("BENCH_STORE", &store).stderr(Stdio::null()).spawn().expect("a consumer");
    let stamp = |name: &str| {
        let file = sandbox.path(&format!("huey.db.{name}"));
        std::fs::read_to_string(file).ok().and_then(|text| text.parse::<u64>().ok())
    };
    wait_until("Huey is done", || stamp("last").is_some());
    for pid in tree(consumer.id() as i32) {
        kill(pid, "KILL");
    }
    consumer.wait().ok();
    let nanos = stamp("last").expect("the last") - stamp("first").expect("the first");
    jobs as f64 / (nanos as f64 / 1e9)
}

/// A Python function that does nothing, 2 processes, durable, against Huey on SQLite.
fn prefork() {
    const JOBS: usize = 5000;
    let (mut ratio, mut alone_ratio) = (Figures::default(), Figures::default());
    let (mut ours, mut theirs, mut alone) = (Figures::default(), Figures::default(), Figures::default());
    let (mut cpu, mut split) = (Figures::default(), Split::default());
    for _ in 0..ROUNDS {
        let (two, one) = (huey(JOBS, "2"), huey(JOBS, "1"));
        let own = round("nothing", JOBS, &["-m", "prefork", "-w", "2"]);
        ratio.add(own.rate() / two);
        alone_ratio.add(own.rate() / one);
        ours.add(own.rate());
        theirs.add(two);
        alone.add(one);
        cpu.add(own.cpu());
        split.add(&own);
    }
    row(
        "jobs/s of a Python no-op, prefork -w 2, durable, against Huey on SQLite, 2 processes",
        ">= 1.5",
        &ratio,
        "x",
    );
    row("&nbsp; against Huey with 1 process, which fights with nobody for the lock", "", &alone_ratio, "x");
    row("&nbsp; taskvisor", "", &ours, "/s");
    row("&nbsp; Huey, 2 processes", "", &theirs, "/s");
    row("&nbsp; Huey, 1 process", "", &alone, "/s");
    row("supervisor + keeper CPU per job", "<= 40", &cpu, "us");
    split.print();
}

/// The same, each in a child of a template, against nothing but forks of the same interpreter.
fn fork() {
    const JOBS: usize = 1500;
    let (mut ratio, mut ours, mut theirs) = (Figures::default(), Figures::default(), Figures::default());
    let (mut volatile, mut cpu, mut split) = (Figures::default(), Figures::default(), Split::default());
    for _ in 0..ROUNDS {
        let script = path("benches/support/forks.py").display().to_string();
        let output = peer("python", &[&script, &JOBS.to_string()]).output().expect("Python runs");
        let seconds = String::from_utf8_lossy(&output.stdout).trim().parse::<f64>().expect("seconds");
        let peer = JOBS as f64 / seconds;
        let own = round("nothing", JOBS, &["-m", "fork", "-w", "2"]);
        let quick = round("nothing", JOBS, &["-m", "fork", "-w", "2", "-b", "memory:"]);
        ratio.add(own.rate() / peer);
        volatile.add(quick.rate() / peer);
        ours.add(own.rate());
        theirs.add(peer);
        cpu.add(own.cpu());
        split.add(&own);
    }
    row("jobs/s of a Python no-op, fork -w 2, durable, against bare forks", ">= 0.85", &ratio, "x");
    row("&nbsp; the same with `memory:`", "", &volatile, "x");
    row("&nbsp; taskvisor", "", &ours, "/s");
    row("&nbsp; bare forks", "", &theirs, "/s");
    row("&nbsp; supervisor + keeper CPU per job", "", &cpu, "us");
    split.print();
}

/// A coroutine that sleeps 10 ms, 2 x 100 at a time: 20,000 a second if nothing cost anything.
fn coroutine() {
    const JOBS: usize = 20_000;
    let (mut rate, mut cpu, mut split) = (Figures::default(), Figures::default(), Split::default());
    for _ in 0..ROUNDS {
        let args = ["-m", "coroutine", "-w", "2", "--concurrency", "100", "-b", "memory:"];
        let own = round("nap", JOBS, &args);
        rate.add(own.rate());
        cpu.add(own.cpu());
        split.add(&own);
    }
    row("jobs/s of `await asyncio.sleep(0.01)`, coroutine -w 2 x 100, `memory:`", ">= 10000", &rate, "/s");
    row("&nbsp; supervisor + keeper CPU per job", "", &cpu, "us");
    split.print();
}

/// What 8 idle slots weigh, with everything below the keeper.
fn memory() {
    let weigh = |mode: &str, processes: usize| {
        let sandbox = Sandbox::new(Setting::Root);
        let running = start(&sandbox, &["-m", mode, "-w", "8"]);
        let all = || tree(running.child.id() as i32);
        sandbox.ok(&["job", "wait", &Api::connect(&sandbox).put_class("nothing")]);
        wait_until("all processes are there", || all().len() == processes);
        std::thread::park_timeout(Duration::from_secs(3));
        let all = all();
        assert_eq!(all.len(), processes);
        Figures::of(all.into_iter().map(pss).sum::<u64>() as f64 / 1e3)
    };
    row("8 idle Python slots on one template: PSS of the tree", "<= 35", &weigh("fork", 11), "MB");
    row("&nbsp; 8 idle Python slots, prefork", "", &weigh("prefork", 10), "MB");
}

/// From just before the put to the first line of the function.
fn latency() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = start(&sandbox, &["-m", "prefork", "-w", "1"]);
    let mut figures = Figures::default();
    for _ in 0..200 {
        std::thread::park_timeout(Duration::from_millis(20));
        let mut api = Api::connect(&sandbox);
        let sent = support::boottime();
        let id = api.put_class("stamp");
        api.get(&format!("/v1/jobs/{id}/wait"));
        let job = api.get(&format!("/v1/jobs/{id}"));
        let stamp = job["result"].to_string().trim_matches('"').parse::<u64>();
        figures.add((stamp.unwrap_or_else(|_| panic!("a stamp in {job}")) - sent) as f64 / 1e6);
    }
    row("put -> Python function called, idle prefork worker", "<= 3", &figures, "ms");
}

/// Jobs that leak 10 MB each, each in its own child: nobody else grows.
fn leak() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = start(&sandbox, &["-m", "fork", "-w", "2"]);
    let template = sandbox.json(&["status", "--json"])["pools"][0]["template"]["process"]["pid"].as_i64();
    let template = template.expect("a template") as i32;
    let pids = [template, sandbox.one("tv-supervisor"), sandbox.one("taskvisor")];
    let mut done = 0;
    let mut run_to = |target: u64| {
        let lines = "{}\n".repeat((target - done) as usize);
        feed(sandbox.command(&["put", "default", "leak", "--lines"]), &lines);
        done = target;
        let mut api = Api::connect(&sandbox);
        let complete = || api.get("/v1/queues")["default"]["jobs"]["complete"].as_u64() == Some(target);
        wait_within(Duration::from_secs(300), "all are complete", complete);
        pids.map(|pid| support::rss(pid) as f64)
    };
    let (early, late) = (run_to(200), run_to(2000));
    for (n, name) in ["template", "supervisor", "keeper"].into_iter().enumerate() {
        let what = format!("RSS of the {name} after 2,000 jobs that leak 10 MB each, against 200");
        row(&what, "<= 1.2", &Figures::of(late[n] / early[n]), "x");
        row(&format!("&nbsp; {name} after 2,000"), "", &Figures::of(late[n] / 1e3), "MB");
    }
}
