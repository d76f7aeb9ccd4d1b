//! Benchmarks of the core: `cargo bench --bench heart` prints the table. Ratios are taken within one run.
//!
//! `-- --only NAME…` selects some of: nothing profile latency cancel slots death idle million; `-- --long` adds the million.

#[path = "../tests/support/sandbox.rs"]
mod sandbox;

mod support;

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use sandbox::{Sandbox, Setting, kill, wait_until};
use support::profile::Profile;
use support::{Api, Figures, children, cpu_of, cpu_of_children, feed, micros, pss, row, switches};

const JOBS: usize = 5000;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "--stamp") {
        return support::stamp(&args[at + 1]);
    }
    let rows: &[(&str, fn())] = &[
        ("nothing", nothing_jobs),
        ("profile", profile),
        ("latency", put_to_main),
        ("cancel", cancels),
        ("slots", slots),
        ("death", supervisor_killed),
        ("idle", idle),
        ("million", million),
    ];
    support::table(rows, "million");
}

fn cancels() {
    for setting in [Setting::RootCgroup, Setting::Root] {
        cancel(setting);
        cancel_crowd(setting);
    }
}

fn lines(count: usize) -> String {
    (0..count).map(|n| format!("{n}\n")).collect()
}

/// A program that does nothing, durable, 2 and 8 at a time, against `xargs`.
fn nothing_jobs() {
    for width in [2, 8] {
        let (mut rates, mut cpus, mut overhead) =
            (Figures::default(), Figures::default(), Figures::default());
        for _ in 0..3 {
            let xargs = by_xargs(width);
            let (wall, cpu, own) = by_slots(Setting::Root, width, |_| ());
            rates.add(xargs.0.as_secs_f64() / wall.as_secs_f64());
            cpus.add(cpu.as_secs_f64() / xargs.1.as_secs_f64());
            overhead.add(micros(own) / JOBS as f64);
        }
        row(&format!("jobs/s of `true`, {width} at a time, against xargs -P{width}"), ">= 0.9", &rates, "x");
        row("CPU per job against xargs (all processes, clients too)", "<= 1.2", &cpus, "x");
        row("supervisor + keeper CPU per job", "<= 60", &overhead, "us");
    }
}

/// Time and CPU time of the programs by xargs.
fn by_xargs(width: usize) -> (Duration, Duration) {
    let mut xargs = Command::new("xargs");
    xargs.args([&format!("-P{width}"), "-n1", "/bin/true"]);
    let (before, start) = (cpu_of_children(), Instant::now());
    feed(xargs, &lines(JOBS));
    (start.elapsed(), cpu_of_children() - before)
}

/// CPU time and page faults of a program by process and function, clients too, 2 at a time, with cgroups where there are
/// some.
fn profile() {
    let setting = if sandbox::cgroups().is_some() { Setting::RootCgroup } else { Setting::Root };
    let dir = tempfile::tempdir().expect("a directory");
    let Some(profile) = Profile::begin(dir.path()) else {
        return eprintln!("no profile: there is no perf, or it may not look at all processes");
    };
    let mut names: BTreeSet<String> =
        ["true", "tv-spawner", "tv-starting", "taskvisor", "tv-supervisor"].map(str::to_owned).into();
    by_slots(setting, 2, |pid| names.extend(support::threads(pid).into_keys()));
    profile.end(JOBS, &names);
}

/// Time of the programs by slots, CPU time of all processes, and CPU time of keeper and supervisor. Shows the pid of the
/// supervisor when all has run.
fn by_slots(setting: Setting, width: usize, look: impl FnOnce(i32)) -> (Duration, Duration, Duration) {
    let sandbox = Sandbox::new(setting);
    sandbox.ok(&["queue", "pause", "default"]);
    let put = feed(sandbox.command(&["put", "--lines", "--", "/bin/true", "{}"]), &lines(JOBS));
    let last = String::from_utf8(put.stdout).expect("text").lines().last().expect("ids").to_owned();
    let before = cpu_of_children();
    let mut running = sandbox.start(&["-w", &width.to_string()]);
    let pids = [sandbox.one("taskvisor"), sandbox.one("tv-supervisor")];
    let own = pids.map(cpu_of);
    let start = Instant::now();
    sandbox.ok(&["queue", "resume", "default"]);
    // The last job signals the end, so that nothing polls while the others run.
    let mut api = Api::connect(&sandbox);
    api.get(&format!("/v1/jobs/{last}/wait"));
    let mut complete = || api.get("/v1/queues")["default"]["jobs"]["complete"].as_u64();
    wait_until("all jobs are done", || complete() == Some(JOBS as u64));
    let wall = start.elapsed();
    look(pids[1]);
    let ours = pids.into_iter().zip(own).map(|(pid, before)| cpu_of(pid) - before).sum();
    sandbox.ok(&["stop"]);
    running.wait();
    (wall, cpu_of_children() - before, ours)
}

fn put_to_main() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "8"]);
    let exe = std::env::current_exe().expect("this program").display().to_string();
    let measure = |count: usize, pause: Duration| {
        let mut figures = Figures::default();
        for n in 0..count {
            std::thread::park_timeout(pause);
            let file = sandbox.work(&format!("stamp{n}"));
            std::fs::remove_file(&file).ok();
            let mut api = Api::connect(&sandbox);
            let sent = support::boottime();
            let jid = api.put(&[&exe, "--stamp", &file.display().to_string()]);
            sandbox.ok(&["job", "wait", &jid, "--timeout", "10s"]);
            let stamp: u64 =
                std::fs::read_to_string(&file).expect("a stamp").trim().parse().expect("a number");
            figures.add((stamp - sent) as f64 / 1e6);
        }
        figures
    };
    row("put -> program's main(), idle slot", "<= 2", &measure(60, Duration::from_millis(30)), "ms");
    row("the same after a minute of idling", "<= 2", &measure(3, Duration::from_secs(60)), "ms");
}

fn cancel(setting: Setting) {
    let sandbox = Sandbox::new(setting);
    let _running = sandbox.start(&["-w", "2", "--grace", "100ms"]);
    let measure = |argv: &[&str]| {
        let mut figures = Figures::default();
        for _ in 0..40 {
            std::fs::remove_file(sandbox.work("begun")).ok();
            let jid = Api::connect(&sandbox).put(argv);
            wait_until("it runs", || sandbox.work("begun").exists());
            std::thread::park_timeout(Duration::from_millis(5));
            figures.add(Api::connect(&sandbox).cancel(&jid));
        }
        figures
    };
    let small = measure(&["sh", "-c", "touch begun; exec sleep 1000"]);
    row(&format!("cancel -> dead and said so, one process ({setting:?})"), "<= 1.5", &small, "ms");
    let stubborn = measure(&["sh", "-c", "trap '' TERM; touch begun; while :; do sleep 1000; done"]);
    row(&format!("the same, ignores TERM, grace 100 ms ({setting:?})"), "<= 102", &stubborn, "ms");
}

fn cancel_crowd(setting: Setting) {
    let others: Vec<_> = (0..2000).filter_map(|_| Command::new("sleep").arg("1000").spawn().ok()).collect();
    let sandbox = Sandbox::new(setting);
    let _running = sandbox.start(&["-w", "2"]);
    let mut figures = Figures::default();
    for _ in 0..20 {
        std::fs::remove_file(sandbox.work("begun")).ok();
        let crowd = "i=0; while [ $i -lt 49 ]; do sleep 1000 & i=$((i+1)); done; touch begun; wait";
        let jid = Api::connect(&sandbox).put(&["sh", "-c", crowd]);
        wait_until("it runs", || sandbox.work("begun").exists());
        std::thread::park_timeout(Duration::from_millis(50));
        figures.add(Api::connect(&sandbox).cancel(&jid));
    }
    row(
        &format!("cancel of a tree of 50, {} others on the host ({setting:?})", others.len()),
        "<= 8",
        &figures,
        "ms",
    );
    for mut other in others {
        other.kill().ok();
        other.wait().ok();
    }
}

fn slots() {
    let spawner = |keeper: i32| children(keeper).into_iter().find(|pid| support::comm(*pid) == "tv-spawner");
    let (mut up, mut replaced) = (Figures::default(), Figures::default());
    for _ in 0..10 {
        let sandbox = Sandbox::new(Setting::Root);
        let start = Instant::now();
        let running = sandbox.start_raw(&["-w", "8"]);
        let keeper = running.child.id() as i32;
        let mut there = None;
        while there.is_none() {
            std::thread::yield_now();
            assert!(start.elapsed() < Duration::from_secs(10), "no spawner: {}", sandbox.stderr());
            there = spawner(keeper);
        }
        up.add(start.elapsed().as_secs_f64() * 1e3);
        let start = Instant::now();
        kill(there.expect("a spawner"), "KILL");
        while spawner(keeper).is_none_or(|pid| Some(pid) == there) {
            assert!(start.elapsed() < Duration::from_secs(10), "no new spawner");
            std::thread::yield_now();
        }
        replaced.add(start.elapsed().as_secs_f64() * 1e3);
        drop(running);
    }
    row("start -> spawner for 8 slots", "<= 30", &up, "ms");
    row("spawner killed -> new one", "<= 1", &replaced, "ms");
}

fn supervisor_killed() {
    let (mut dead, mut ready) = (Figures::default(), Figures::default());
    for _ in 0..10 {
        let sandbox = Sandbox::new(Setting::Root);
        let _running = sandbox.start(&["-w", "8"]);
        for n in 0..8 {
            sandbox.put(&[
                "sh",
                "-c",
                &format!("setsid sleep 1000 & setsid sleep 1000 & touch begun{n}; exec sleep 1000"),
            ]);
        }
        wait_until("all run", || (0..8).all(|n| sandbox.work(&format!("begun{n}")).exists()));
        let below: Vec<i32> = sandbox.job_processes().iter().map(|seen| seen.pid).collect();
        let start = Instant::now();
        kill(sandbox.one("tv-supervisor"), "KILL");
        let start_kill = Instant::now();
        let exists = |pid: &i32| std::path::Path::new(&format!("/proc/{pid}")).exists();
        // Two processors: the observer must not disturb what it measures.
        while below.iter().any(exists) {
            std::thread::yield_now();
        }
        dead.add(start_kill.elapsed().as_secs_f64() * 1e3);
        while !Api::answers(&sandbox) {
            assert!(start.elapsed() < Duration::from_secs(10), "no new supervisor: {}", sandbox.stderr());
        }
        ready.add(start_kill.elapsed().as_secs_f64() * 1e3);
    }
    row("supervisor killed -> 24 processes below dead", "<= 15", &dead, "ms");
    row("supervisor killed -> the new one answers", "<= 60", &ready, "ms");
}

fn idle() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "8"]);
    sandbox.ok(&["job", "wait", &sandbox.put(&["true"])]);
    std::thread::park_timeout(Duration::from_secs(12));
    let pids: Vec<i32> = sandbox.processes().iter().map(|seen| seen.pid).collect();
    let before: u64 = pids.iter().map(|pid| switches(*pid)).sum();
    std::thread::park_timeout(Duration::from_secs(30));
    let after: u64 = pids.iter().map(|pid| switches(*pid)).sum();
    let total: u64 = pids.iter().map(|pid| pss(*pid)).sum();
    let keeper = support::private(sandbox.one("taskvisor"));
    row("idle, -w 8: PSS of the tree", "<= 9", &Figures::of(total as f64 / 1e3), "MB");
    row("idle: private memory of the keeper", "<= 999", &Figures::of(keeper as f64), "KB");
    row("idle: wake-ups in 30 s, all processes", "0", &Figures::of((after - before) as f64), "");
}

fn million() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "2"]);
    let pids = [sandbox.one("taskvisor"), sandbox.one("tv-supervisor")];
    // The store keeps 50,000 complete jobs.
    let complete = || sandbox.json(&["status", "--json"])["settled"]["complete"].as_u64().unwrap_or(0);
    let mut rss = Vec::new();
    for target in [10_000u64, 1_000_000] {
        while complete() < target {
            let goal = (complete() + 10_000).min(target);
            feed(
                sandbox.command(&["put", "--lines", "--", "/bin/true", "{}"]),
                &lines((goal - complete()) as usize),
            );
            while complete() < goal {
                std::thread::park_timeout(Duration::from_millis(200));
            }
        }
        rss.push(pids.map(support::rss));
    }
    for (n, name) in ["keeper", "supervisor"].into_iter().enumerate() {
        let growth = rss[1][n] as f64 / rss[0][n] as f64;
        row(&format!("RSS of the {name} after 1 M jobs against 10 k"), "<= 1.2", &Figures::of(growth), "x");
    }
}
