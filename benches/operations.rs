//! Benchmarks of operations: `cargo bench --bench operations` prints the table. Limits are enforced by polling, without
//! cgroups.
//!
//! `-- --only NAME…` selects some of: time memory status storm reload steady; `-- --long` runs the steady load for an
//! hour instead of 3 minutes.

#[path = "../tests/support/sandbox.rs"]
mod sandbox;

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use sandbox::{Sandbox, Setting, kill, wait_until, wait_within};
use serde_json::Value;
use support::{Api, Figures, children, cpu_of, cpu_of_reaped, descriptors, is_zombie, row, rss, tree};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "--job") {
        return job(&args[at + 1]);
    }
    let rows: &[(&str, fn())] = &[
        ("time", time_limit),
        ("memory", memory_limit),
        ("status", status),
        ("storm", storm),
        ("reload", reload),
        ("steady", steady),
    ];
    support::table(rows, "");
}

/// The jobs that are measured.
fn job(how: &str) {
    match how {
        "hog" => return hog(),
        "deaf" => nix::sys::signal::SigSet::all().thread_block().expect("the signals are blocked"),
        _ => {}
    }
    fs::write(".pid", std::process::id().to_string()).expect("the pid");
    fs::rename(".pid", "pid").expect("the pid");
    loop {
        std::thread::park();
    }
}

/// The measured taskvisor binary.
fn this() -> String {
    std::env::current_exe().expect("a path").display().to_string()
}

/// Allocates 500 MB a second, and exits by itself at 2 GB.
fn hog() {
    const PIECE: usize = 500_000;
    let (mut kept, start) = (Vec::new(), Instant::now());
    while kept.len() * PIECE < 2_000_000_000 {
        while kept.len() * PIECE < start.elapsed().as_micros() as usize * 500 {
            kept.push(vec![1_u8; PIECE]);
        }
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// The settings of a pool of Python workers.
fn python(version: u32) -> String {
    let root = env!("CARGO_MANIFEST_DIR");
    let path = format!("PYTHONPATH: '{root}/python:{root}/benches/support'");
    let env = format!("{path}, PYTHONDONTWRITEBYTECODE: '1', VERSION: '{version}'");
    format!("mode: prefork, env: {{set: {{{env}}}}}, command: python3 -m taskvisor.worker ops")
}

/// Writes the settings file.
fn write(sandbox: &Sandbox, pools: &[String]) -> String {
    let path = sandbox.work("pools.yaml");
    let pools: String = pools.iter().map(|pool| format!("  - {{{pool}}}\n")).collect();
    fs::write(&path, format!("pools:\n{pools}")).expect("a file of pools");
    path.display().to_string()
}

/// Time from the time limit, or from the end of the grace after it, to the death of the job.
fn time_limit() {
    const LIMIT: f64 = 300.0;
    const GRACE: f64 = 200.0;
    let sandbox = Sandbox::new(Setting::Root);
    let settings = "workers: 2, retries: 0, grace: 200ms, limits: {time: 300ms}";
    let app = format!("name: app, queues: [app], {settings}, {}", python(1));
    let _running = sandbox.start(&["-c", &write(&sandbox, &[format!("name: programs, {settings}"), app])]);
    for (how, due, line) in [
        ("obeys TERM", LIMIT, "exec \"$0\" --job waits"),
        ("ignores TERM", LIMIT + GRACE, "trap '' TERM; exec \"$0\" --job waits"),
        ("blocks all signals", LIMIT + GRACE, "exec \"$0\" --job deaf"),
    ] {
        let late = lateness(&sandbox, due, |api| api.put(&["sh", "-c", line, &this()]));
        row(&format!("time limit -> dead, a program that {how}"), "<= 20", &late, "ms");
    }
    let late = lateness(&sandbox, LIMIT + GRACE, |api| api.put_classes("app", &["deaf"]).remove(0));
    row("time limit -> dead, a Python worker in C code that blocks all signals", "<= 20", &late, "ms");
}

/// Milliseconds that jobs live beyond their limit.
fn lateness(sandbox: &Sandbox, due: f64, put: impl Fn(&mut Api) -> String) -> Figures {
    let mut late = Figures::default();
    for _ in 0..20 {
        let mut api = Api::connect(sandbox);
        fs::remove_file(sandbox.work("pid")).ok();
        let id = put(&mut api);
        wait_until("it runs", || sandbox.work("pid").exists());
        let pid = fs::read_to_string(sandbox.work("pid")).expect("a pid").parse().expect("a pid");
        let dead = support::end_of(pid);
        api.get(&format!("/v1/jobs/{id}/wait"));
        let job = api.get(&format!("/v1/jobs/{id}"));
        assert_eq!(job["failure"]["group"], "time limit", "{job}");
        late.add(dead - job["started_at_ms"].as_f64().expect("a time") - due);
    }
    late
}

/// The peak memory of a hog above its limit. A hog here cannot take more than 4 GB.
fn memory_limit() {
    const LIMIT: f64 = 300e6;
    let sandbox = Sandbox::new(Setting::Root);
    let file = write(&sandbox, &["name: default, workers: 2, limits: {memory: 300MB}".into()]);
    let _running = sandbox.start_under(&["prlimit", "--as=4000000000:4000000000"], &["-c", &file]);
    wait_until("it answers", || Api::answers(&sandbox));
    let mut overshoot = Figures::default();
    for _ in 0..20 {
        let mut api = Api::connect(&sandbox);
        let id = api.put(&[&this(), "--job", "hog"]);
        api.get(&format!("/v1/jobs/{id}/wait"));
        let job = api.get(&format!("/v1/jobs/{id}"));
        assert_eq!(job["failure"]["group"], "memory limit", "{job}");
        let most = job["forensics"]["exit"]["usage"]["max_rss"].as_f64().expect("bytes");
        overshoot.add((most - LIMIT) / 1e6);
    }
    row("memory limit without cgroup: overshoot of a hog of 500 MB/s", "<= 100", &overshoot, "MB");
}

/// Time of `status` and of `/metrics` with 1,000 slots.
fn status() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "1000"]);
    for queue in 0..100 {
        sandbox.ok(&["put", "-q", &format!("q{queue}"), "--", "true"]);
    }
    row("`status` of 1,000 slots", "<= 50", &answers(&sandbox, "/v1/status"), "ms");
    row("`/metrics` of 1,000 slots and 100 queues", "<= 20", &answers(&sandbox, "/metrics"), "ms");
    row("`/readyz`", "", &answers(&sandbox, "/readyz"), "ms");
    status_while_the_broker_hangs(&sandbox);
}

/// Another program keeps a write transaction open, so that the supervisor's next write hangs.
fn status_while_the_broker_hangs(sandbox: &Sandbox) {
    let store = rusqlite::Connection::open(sandbox.path("state").join("store.db")).expect("the store");
    store.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let mut put = sandbox.command(&["put", "--", "true"]);
    let mut put = put.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a put");
    let mut slowest: f64 = 0.0;
    loop {
        let (took, answer) = ask(sandbox, "/v1/status");
        slowest = slowest.max(took);
        if answer.contains("\"no answer for") {
            break;
        }
    }
    row("the slowest `status` until the broker is known to hang", "<= 50", &Figures::of(slowest), "ms");
    row("`status` of 1,000 slots while it hangs", "<= 50", &answers(sandbox, "/v1/status"), "ms");
    assert!(ask(sandbox, "/v1/status").1.contains("\"no answer for"), "it has hung all the time");
    store.execute_batch("ROLLBACK").expect("the lock's end");
    put.wait().expect("the put");
    wait_until("the broker answers", || ask(sandbox, "/v1/status").1.contains("\"broker_trouble\":null"));
}

fn answers(sandbox: &Sandbox, path: &str) -> Figures {
    ask(sandbox, path);
    let mut figures = Figures::default();
    for _ in 0..50 {
        figures.add(ask(sandbox, path).0);
        std::thread::park_timeout(Duration::from_millis(10));
    }
    figures
}

/// Milliseconds from the connect to the last byte, and the answer.
fn ask(sandbox: &Sandbox, path: &str) -> (f64, String) {
    let start = Instant::now();
    let mut stream = UnixStream::connect(sandbox.path("run").join("ctl.sock")).expect("a supervisor");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    (start.elapsed().as_secs_f64() * 1e3, answer)
}

/// Restarts of a worker that exits 1 at once, in 8 slots, from the start.
fn storm() {
    let sandbox = Sandbox::new(Setting::Root);
    let pool = "name: default, workers: 8, command: [sh, -c, 'echo $$ >> starts; exit 1']";
    let file = write(&sandbox, &[pool.into()]);
    let start = Instant::now();
    let running = sandbox.start_raw(&["-c", &file]);
    let supervisor = sandbox.one("tv-supervisor");
    while let Some(left) = Duration::from_secs(10).checked_sub(start.elapsed()) {
        std::thread::park_timeout(left);
    }
    let starts = fs::read_to_string(sandbox.work("starts")).expect("starts").lines().count();
    let keeper = running.child.id() as i32;
    let own = cpu_of(keeper) + cpu_of(supervisor);
    let cpu = |time: Duration| Figures::of(time.as_secs_f64() * 1e3);
    row("a worker that exits 1 at once, -w 8, first 10 s: starts", "<= 16", &Figures::of(starts as f64), "");
    row("the same: CPU, of its workers too", "<= 200", &cpu(own + cpu_of_reaped(keeper)), "ms");
    row("&nbsp; of it: keeper and supervisor, from their first moment", "", &cpu(own), "ms");
}

/// The number of slots that take jobs, and the processes of all slots, those of an heir included.
fn slots(api: &mut Api) -> (usize, BTreeSet<i64>) {
    let status = api.get("/v1/status");
    let pools = status["pools"].as_array().expect("pools").iter();
    let slots: Vec<&Value> = pools.flat_map(|pool| pool["slots"].as_array().expect("slots")).collect();
    let works = slots.iter().filter(|slot| slot["state"] == "ready" || slot["state"] == "busy").count();
    (works, slots.iter().filter_map(|slot| slot["process"]["pid"].as_i64()).collect())
}

/// The number of jobs in these states.
fn count(api: &mut Api, states: &[&str]) -> usize {
    let queues = api.get("/v1/queues");
    let jobs = &queues["default"]["jobs"];
    states.iter().map(|state| jobs[state].as_u64().unwrap_or(0) as usize).sum()
}

/// The number of `put` jobs that are not complete when none is left to run.
fn lost(api: &mut Api, put: usize) -> Figures {
    let open = ["waiting", "delayed", "running", "canceling"];
    wait_within(Duration::from_secs(120), "nothing is left to do", || count(api, &open) == 0);
    Figures::of(put as f64 - count(api, &["complete"]) as f64)
}

/// Observations of a pool while its workers are replaced.
#[derive(Default)]
struct Exchange {
    put: usize,
    looks: u32,
    none_ready: u32,
    most: usize,
}

impl Exchange {
    /// Keeps the queue filled and observes until all workers are new.
    fn watch(&mut self, api: &mut Api, slots_wanted: usize, old: &BTreeSet<i64>) {
        loop {
            if self.put < count(api, &["complete"]) + 200 {
                self.put += api.put_classes("default", &["works"; 100]).len();
            }
            let (works, processes) = slots(api);
            self.looks += 1;
            self.none_ready += u32::from(works == 0);
            self.most = self.most.max(processes.len());
            if processes.is_disjoint(old) && (works, processes.len()) == (slots_wanted, slots_wanted) {
                return;
            }
        }
    }
}

/// Replaces the workers of a pool of 8 that always has jobs.
fn reload() {
    const SLOTS: usize = 8;
    let sandbox = Sandbox::new(Setting::Root);
    let settings =
        |version| write(&sandbox, &[format!("name: default, workers: {SLOTS}, {}", python(version))]);
    let running = sandbox.start(&["-c", &settings(0)]);
    let (mut api, mut seen) = (Api::connect(&sandbox), Exchange::default());
    let mut took = Figures::default();
    for version in 1..=10 {
        settings(version);
        let (old, start) = (slots(&mut api).1, Instant::now());
        running.signal("HUP");
        seen.watch(&mut api, SLOTS, &old);
        took.add(start.elapsed().as_secs_f64() * 1e3);
    }
    let extra = (seen.most - SLOTS) as f64 / SLOTS as f64;
    row("reload of a pool of 8 under load, 10 times: jobs lost", "0", &lost(&mut api, seen.put), "");
    row("&nbsp; of so many", "", &Figures::of(seen.put as f64), "");
    row("the same: looks that found no slot ready", "0", &Figures::of(seen.none_ready.into()), "");
    row("&nbsp; of so many", "", &Figures::of(seen.looks.into()), "");
    row("the same: extra processes per slot, at most", "<= 1", &Figures::of(extra), "");
    row("&nbsp; from HUP until all are new and the old ones gone", "", &took, "ms");
}

/// Memory and descriptors of keeper and supervisor, and stray processes, sampled periodically.
struct Watch<'a> {
    sandbox: &'a Sandbox,
    /// Keeper and supervisor.
    own: [(&'static str, i32); 2],
    /// KB and descriptors of each.
    takes: [Vec<[f64; 2]>; 2],
    /// Zombies and orphans of the latest sample; those still there in the next one count as permanent.
    suspects: [BTreeSet<i32>; 2],
    found: [BTreeSet<i32>; 2],
}

impl<'a> Watch<'a> {
    fn new(sandbox: &'a Sandbox) -> Watch<'a> {
        let own = [("keeper", "taskvisor"), ("supervisor", "tv-supervisor")];
        let own = own.map(|(name, comm)| (name, sandbox.one(comm)));
        Watch {
            sandbox,
            own,
            takes: Default::default(),
            suspects: Default::default(),
            found: Default::default(),
        }
    }

    fn look(&mut self) {
        for ((_, pid), takes) in self.own.iter().zip(&mut self.takes) {
            takes.push([rss(*pid) as f64, descriptors(*pid) as f64]);
        }
        let ours: BTreeSet<i32> = tree(self.own[0].1).into_iter().collect();
        let zombies = ours.iter().copied().filter(|pid| is_zombie(*pid)).collect();
        let orphans =
            self.sandbox.processes().iter().map(|seen| seen.pid).filter(|pid| !ours.contains(pid)).collect();
        for ((now, before), found) in
            [zombies, orphans].into_iter().zip(&mut self.suspects).zip(&mut self.found)
        {
            found.extend(before.intersection(&now));
            *before = now;
        }
    }

    fn rows(&self) {
        for ((name, _), takes) in self.own.iter().zip(&self.takes) {
            for (at, (what, unit)) in [("RSS", "KB"), ("descriptors", "")].into_iter().enumerate() {
                let third = |n: usize| {
                    let mut figures = Figures::default();
                    takes
                        .chunks(takes.len().div_ceil(3))
                        .nth(n)
                        .into_iter()
                        .flatten()
                        .for_each(|all| figures.add(all[at]));
                    figures
                };
                let growth = third(2).median() / third(0).median();
                row(
                    &format!("{what} of the {name}: last third against first"),
                    "<= 1.05",
                    &Figures::of(growth),
                    "x",
                );
                for (n, when) in ["first", "middle", "last"].into_iter().enumerate() {
                    row(&format!("&nbsp; {when} third"), "", &third(n), unit);
                }
            }
        }
        for (what, found) in
            ["zombies", "processes that are not below the keeper"].into_iter().zip(&self.found)
        {
            row(what, "0", &Figures::of(found.len() as f64), "");
        }
    }
}

/// 200 jobs a second, every tenth of which leaves an orphan, while workers are killed at random.
fn steady() {
    const TICK: Duration = Duration::from_millis(100);
    let length = Duration::from_secs(if support::is_long() { 3600 } else { 180 });
    let sandbox = Sandbox::new(Setting::Root);
    let file = write(&sandbox, &[format!("name: default, workers: 4, {}", python(1))]);
    let mut running = sandbox.start(&["-c", &file]);
    let (mut watch, mut api) = (Watch::new(&sandbox), Api::connect(&sandbox));
    let (mut put, mut killed) = (0, 0);
    let start = Instant::now();
    let mut look_at = length / 60;
    while start.elapsed() < length {
        let due = start.elapsed().as_millis() as usize / 5;
        let classes: Vec<&str> = (put..due).map(|n| if n % 10 == 0 { "litters" } else { "works" }).collect();
        put += api.put_classes("default", &classes).len();
        killed += usize::from(kill_one(&watch));
        if start.elapsed() >= look_at {
            watch.look();
            look_at += length / 60;
        }
        std::thread::park_timeout(TICK);
    }
    let minutes = length.as_secs() / 60;
    let what = format!("{minutes} min of 200 jobs/s, {killed} workers killed: jobs lost of {put}");
    row(&what, "0", &lost(&mut api, put), "");
    watch.rows();
    sandbox.ok(&["stop"]);
    running.wait();
    row("processes left after the stop", "0", &Figures::of(sandbox.processes().len() as f64), "");
}

/// Kills one worker with a probability of a quarter.
fn kill_one(watch: &Watch) -> bool {
    let dice = RandomState::new().hash_one(0) as usize;
    let [(_, keeper), (_, supervisor)] = watch.own;
    let workers: Vec<i32> = children(keeper).into_iter().filter(|pid| *pid != supervisor).collect();
    if workers.is_empty() || !dice.is_multiple_of(4) {
        return false;
    }
    kill(workers[dice / 4 % workers.len()], "KILL");
    true
}
