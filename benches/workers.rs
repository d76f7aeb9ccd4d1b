//! Benchmarks of the worker modes with the Python package: `cargo bench --bench workers` prints the table. Ratios are
//! taken within one run, in turns.
//!
//! `-- --only NAME…` selects some of: prefork fork coroutine memory latency leak; `-- --long` adds the leak.

#[path = "support/python.rs"]
mod python;
#[path = "../tests/support/sandbox.rs"]
mod sandbox;

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use python::{Round, path, peer, round, start};
use sandbox::{Sandbox, Setting, wait_until, wait_within};
use support::{Api, Figures, feed, pss, row, tree};

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

/// Figures of several rounds, by name.
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

/// An empty Python function in 2 processes, durable, against Huey on SQLite.
fn prefork() {
    const JOBS: usize = 5000;
    let (mut ratio, mut alone_ratio) = (Figures::default(), Figures::default());
    let (mut ours, mut theirs, mut alone) = (Figures::default(), Figures::default(), Figures::default());
    let (mut cpu, mut split) = (Figures::default(), Split::default());
    for _ in 0..ROUNDS {
        let (two, one) = (python::huey(JOBS, "2", None), python::huey(JOBS, "1", None));
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
        ">= 5",
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

/// The same, each job in a child of a template, against plain forks of the same interpreter.
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
    row("jobs/s of a Python no-op, fork -w 2, durable, against bare forks", ">= 0.8", &ratio, "x");
    row("&nbsp; the same with `memory:`", "", &volatile, "x");
    row("&nbsp; taskvisor", "", &ours, "/s");
    row("&nbsp; bare forks", "", &theirs, "/s");
    row("&nbsp; supervisor + keeper CPU per job", "", &cpu, "us");
    split.print();
}

/// A coroutine that sleeps 10 ms, 2 x 100 at a time: 20,000 a second without any overhead.
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

/// Memory of 8 idle slots, with all processes below the keeper.
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

/// Time from just before the put to the first line of the function.
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

/// Jobs that leak 10 MB each in their own child: no other process may grow.
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
