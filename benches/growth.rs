//! Benchmarks of growth: `cargo bench --bench growth` prints the table. Each row compares the cost of one thing (a job, a
//! slot, a queue, a pool) where there are many with its cost where there are few.
//!
//! `-- --only NAME…` selects some of: exec noops slots queues pools; `-- --long` runs a million programs and ten million
//! no-ops; `-- --jobs N` sets the number of jobs of `exec` and `noops`.

#[path = "support/confines.rs"]
mod confines;
#[path = "../tests/support/sandbox.rs"]
mod sandbox;

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use confines::{Confines, Limit};
use sandbox::{Running, Sandbox, Setting, is_up, wait_until, wait_within};
use support::{Api, Figures, children, cpu_of, descriptors, feed, micros, pss, row, rss, switches, tree};

/// Limits that protect the machine.
const LIMITS: [Limit; 2] = [("pids", "pids.max", "1500"), ("memory", "memory.limit_in_bytes", "4G")];

/// Jobs that are put at a time; as many wait at most.
const BATCH: u64 = 10_000;

/// The processes whose growth is measured, and their names in /proc.
const OWN: [(&str, &str); 2] = [("supervisor", "tv-supervisor"), ("keeper", "taskvisor")];

/// Jobs whose CPU time is measured where there are many slots.
const JOBS: usize = 2_000;

const LONG: Duration = Duration::from_secs(300);

fn main() {
    let rows: &[(&str, fn())] =
        &[("exec", exec), ("noops", noops), ("slots", slots), ("queues", queues), ("pools", pools)];
    support::table(rows, "");
}

/// A sandbox whose pools run within the limits.
struct Scene {
    confines: Confines,
    sandbox: Sandbox,
}

impl Scene {
    fn new() -> Scene {
        Scene { confines: Confines::new("growth", &LIMITS), sandbox: Sandbox::new(Setting::Root) }
    }

    /// Writes the settings file.
    fn write(&self, pools: &[String]) {
        let pools: String = pools.iter().map(|pool| format!("  - {{{pool}}}\n")).collect();
        fs::write(self.sandbox.work("pools.yaml"), format!("pools:\n{pools}")).expect("a file of pools");
    }

    /// Starts the pools of the settings file, and waits until all slots are up.
    fn start(&self) -> Running<'_> {
        let running = self.confines.start(&self.sandbox, &["-c", "pools.yaml"]);
        wait_within(LONG, "all slots are up", || is_up(&self.sandbox.status()));
        running
    }

    /// Supervisor and keeper.
    fn own(&self) -> [i32; 2] {
        OWN.map(|(_, comm)| self.sandbox.one(comm))
    }

    fn stop(&self, mut running: Running<'_>) -> Duration {
        let start = Instant::now();
        self.sandbox.ok(&["stop"]);
        running.wait();
        start.elapsed()
    }

    /// Milliseconds that a command takes.
    fn time(&self, command: &[&str]) -> Figures {
        let mut figures = Figures::default();
        for _ in 0..20 {
            let start = Instant::now();
            self.sandbox.ok(command);
            figures.add(start.elapsed().as_secs_f64() * 1e3);
        }
        figures
    }
}

/// The settings of a pool of two Python workers for the jobs of `support/app.py`.
fn python(queues: &str) -> String {
    let root = env!("CARGO_MANIFEST_DIR");
    let path = format!("PYTHONPATH: '{root}/python:{root}/benches/support', PYTHONDONTWRITEBYTECODE: '1'");
    let command = "command: python3 -m taskvisor.worker app";
    format!(
        "name: default, workers: 2, queues: [{queues}], mode: prefork, env: {{set: {{{path}}}}}, {command}"
    )
}

/// The number of jobs: that of `--jobs`, or the first of these, or with `--long` the second.
fn count(short: u64, long: u64) -> u64 {
    let args: Vec<String> = std::env::args().collect();
    let given = args.iter().position(|arg| arg == "--jobs").map(|at| args[at + 1].parse());
    given.map_or(if support::is_long() { long } else { short }, |given| given.expect("a number of jobs"))
}

/// The number of jobs that the supervisor has seen complete; none may fail. On a connection of its own: the supervisor
/// closes one that is idle while a put takes long.
fn complete(sandbox: &Sandbox) -> u64 {
    let settled = &Api::connect(sandbox).get("/v1/status")["settled"];
    assert_eq!(settled["failed"].as_u64().unwrap_or(0), 0, "{settled}");
    settled["complete"].as_u64().unwrap_or(0)
}

/// Programs that do nothing.
fn exec() {
    let scene = Scene::new();
    scene.write(&["name: default, workers: 2".to_owned()]);
    let put = ["put", "--lines", "--", "/bin/true", "{}"];
    many(&scene, "`true`", &put, "x\n", count(100_000, 1_000_000));
}

/// Python functions that do nothing, prefork.
fn noops() {
    let scene = Scene::new();
    scene.write(&[python("default")]);
    let put = ["put", "default", "nothing", "--lines"];
    many(&scene, "no-ops", &put, "{}\n", count(1_000_000, 10_000_000));
}

/// What a supervisor and its keeper take after a tenth of the jobs.
struct Sample {
    at: Instant,
    /// Of both.
    cpu: Duration,
    rss: [u64; 2],
    /// Open descriptors of both.
    descriptors: usize,
    /// Bytes of the store, its log included.
    store: u64,
}

impl Sample {
    fn take(scene: &Scene, pids: [i32; 2]) -> Sample {
        let state = fs::read_dir(scene.sandbox.path("state")).expect("the state directory").flatten();
        let files = state.filter(|file| file.file_name().to_string_lossy().starts_with("store.db"));
        Sample {
            at: Instant::now(),
            cpu: pids.into_iter().map(cpu_of).sum(),
            rss: pids.map(rss),
            descriptors: pids.into_iter().map(descriptors).sum(),
            store: files.map(|file| file.metadata().map_or(0, |metadata| metadata.len())).sum(),
        }
    }
}

/// Runs the jobs that `put` makes of lines, and compares the last tenth of them with the first.
fn many(scene: &Scene, what: &str, put: &[&str], line: &str, total: u64) {
    let running = scene.start();
    let pids = scene.own();
    let (mut samples, mut sent) = (vec![Sample::take(scene, pids)], 0);
    for tenth in 1..=10 {
        loop {
            let done = complete(&scene.sandbox);
            if done >= total * tenth / 10 {
                break;
            }
            if sent < total && sent - done < BATCH {
                let some = BATCH.min(total - sent);
                let lines = line.repeat(some as usize);
                assert!(feed(scene.sandbox.command(put), &lines).status.success(), "jobs are put");
                sent += some;
            } else {
                std::thread::park_timeout(Duration::from_millis(20));
            }
        }
        samples.push(Sample::take(scene, pids));
    }
    let took = |n: usize| samples[n].at.duration_since(samples[n - 1].at).as_secs_f64();
    let share = total as f64 / 10.0;
    row(
        &format!("{total} {what}: jobs/s of the last tenth against the first"),
        ">= 0.8",
        &Figures::of(took(1) / took(10)),
        "x",
    );
    let mut rates = Figures::default();
    (1..=10).for_each(|n| rates.add(share / took(n)));
    row("&nbsp; jobs/s of each tenth", "", &rates, "");
    let cpu = |n: usize| micros(samples[n].cpu - samples[n - 1].cpu) / share;
    row(
        "the same: CPU per job of supervisor and keeper, last tenth against first",
        "<= 1.2",
        &Figures::of(cpu(10) / cpu(1)),
        "x",
    );
    row("&nbsp; in the last tenth", "", &Figures::of(cpu(10)), "us");
    for (at, (name, _)) in OWN.into_iter().enumerate() {
        tenths(&format!("RSS of the {name}"), "<= 1.2", "MB", |n| samples[n].rss[at] as f64 / 1e3);
    }
    let mut open = Figures::default();
    (1..=10).for_each(|n| open.add(samples[n].descriptors as f64));
    row("&nbsp; open descriptors of both after each tenth", "", &open, "");
    tenths("size of the store", "<= 1.2", "MB", |n| samples[n].store as f64 / 1e6);
    scene.stop(running);
}

/// A ratio of the state at the end against that after a tenth, and the values.
fn tenths(what: &str, goal: &str, unit: &str, value: impl Fn(usize) -> f64) {
    row(&format!("the same: {what} at 100 % against 10 %"), goal, &Figures::of(value(10) / value(1)), "x");
    for n in [1, 5, 10] {
        row(&format!("&nbsp; {what} at {n}0 %"), "", &Figures::of(value(n)), unit);
    }
}

/// A pool of 100 slots, and one of 1,000.
fn slots() {
    let [few, many] = [100, 1_000].map(Crowd::of_slots);
    few.compare(&many, "1,000 slots against 100", "slot", 10.0);
    let what = "1,000 slots against 100: CPU of supervisor and keeper for a job of `true`";
    row(what, "<= 1.2", &Figures::of(many.job / few.job), "x");
    row("&nbsp; with 1,000 slots", "", &Figures::of(many.job), "us");
}

/// 64 pools of a slot each, and one pool of 64 slots.
fn pools() {
    let one = Crowd::of_slots(64);
    let many = Crowd::measure(|version| (0..64).map(|n| pool(&format!("p{n}"), 1, version)).collect(), 64);
    one.compare(&many, "64 pools of a slot against a pool of 64", "slot", 1.0);
}

fn pool(name: &str, workers: usize, version: u32) -> String {
    format!("name: {name}, workers: {workers}, queues: [{name}], env: {{set: {{VERSION: '{version}'}}}}")
}

/// Costs of slots at rest.
#[derive(Default)]
struct Crowd {
    start: f64,
    stop: f64,
    reload: f64,
    /// KB of all processes, of the supervisor, of the keeper.
    pss: [u64; 3],
    wakeups: u64,
    /// CPU of supervisor and keeper for a job of `true`, in microseconds.
    job: f64,
    status: Figures,
    command: Figures,
}

impl Crowd {
    fn of_slots(count: usize) -> Crowd {
        Crowd::measure(|version| vec![pool("p0", count, version)], count)
    }

    /// Starts the pools with this many slots in all, reloads and stops them.
    fn measure(pools: impl Fn(u32) -> Vec<String>, count: usize) -> Crowd {
        let scene = Scene::new();
        scene.write(&pools(0));
        let start = Instant::now();
        let running = scene.confines.start(&scene.sandbox, &["-c", "pools.yaml"]);
        let keeper = running.child.id() as i32;
        // The supervisor is one more child.
        wait_within(LONG, "all slots are there", || children(keeper).len() > count);
        wait_within(LONG, "all slots are up", || Api::answers(&scene.sandbox));
        let mut crowd = Crowd { start: start.elapsed().as_secs_f64() * 1e3, ..Crowd::default() };
        wait_within(LONG, "all slots are up", || is_up(&scene.sandbox.status()));
        crowd.command = scene.time(&["status"]);
        let mut api = Api::connect(&scene.sandbox);
        (0..20).for_each(|_| crowd.status.add(api.time("/v1/status").0));
        drop(api);
        std::thread::park_timeout(Duration::from_secs(12));
        let all = tree(keeper);
        let woken = || all.iter().map(|pid| switches(*pid)).sum::<u64>();
        let before = woken();
        std::thread::park_timeout(Duration::from_secs(30));
        crowd.wakeups = woken() - before;
        let [supervisor, keeper] = scene.own();
        crowd.pss = [all.iter().map(|pid| pss(*pid)).sum(), pss(supervisor), pss(keeper)];
        let before = cpu_of(supervisor) + cpu_of(keeper);
        let put = ["put", "-q", "p0", "--lines", "--", "/bin/true", "{}"];
        assert!(feed(scene.sandbox.command(&put), &"x\n".repeat(JOBS)).status.success(), "jobs are put");
        wait_within(LONG, "all jobs are complete", || {
            std::thread::park_timeout(Duration::from_millis(100));
            complete(&scene.sandbox) == JOBS as u64
        });
        crowd.job = micros(cpu_of(supervisor) + cpu_of(keeper) - before) / JOBS as f64;
        wait_within(LONG, "all slots are up", || children(keeper).len() == count + 1);
        scene.write(&pools(1));
        let old: BTreeSet<i32> = children(keeper).into_iter().filter(|pid| *pid != supervisor).collect();
        let start = Instant::now();
        running.signal("HUP");
        wait_within(LONG, "all slots are new", || {
            let now: BTreeSet<i32> = children(keeper).into_iter().collect();
            now.len() == count + 1 && now.is_disjoint(&old)
        });
        crowd.reload = start.elapsed().as_secs_f64() * 1e3;
        wait_within(LONG, "all slots are up", || is_up(&scene.sandbox.status()));
        crowd.stop = scene.stop(running).as_secs_f64() * 1e3;
        crowd
    }

    /// Prints the rows of `many`, with the ratio for each of its things to those of `self`.
    fn compare(&self, many: &Crowd, what: &str, thing: &str, times: f64) {
        let ratio = |name: &str, goal: &str, unit: &str, few: f64, lots: f64| {
            row(&format!("{what}: {name} per {thing}"), goal, &Figures::of(lots / few / times), "x");
            row(&format!("&nbsp; {name}"), "", &Figures::of(lots), unit);
        };
        ratio("start", "<= 1.2", "ms", self.start, many.start);
        ratio("stop", "<= 1.2", "ms", self.stop, many.stop);
        ratio("reload", "<= 1.2", "ms", self.reload, many.reload);
        for (at, name) in ["all processes", "the supervisor", "the keeper"].into_iter().enumerate() {
            let mb = |crowd: &Crowd| crowd.pss[at] as f64 / 1e3;
            ratio(&format!("PSS of {name}"), "<= 1.2", "MB", mb(self), mb(many));
        }
        ratio("`/v1/status`", "<= 1.2", "ms", self.status.median(), many.status.median());
        ratio("`taskvisor status`", "<= 1.2", "ms", self.command.median(), many.command.median());
        row("&nbsp; wake-ups in 30 s at rest", "0", &Figures::of(many.wakeups as f64), "");
    }
}

/// 100 queues of 10,000 jobs each, and one.
fn queues() {
    let [few, many] = [1, 100].map(Queues::measure);
    let ratio = |name: &str, goal: &str, unit: &str, of: fn(&Queues) -> f64| {
        let growth = Figures::of(of(&many) / of(&few));
        row(&format!("100 queues of 10,000 jobs against one: {name}"), goal, &growth, "x");
        row(&format!("&nbsp; {name}, one queue"), "", &Figures::of(of(&few)), unit);
        row(&format!("&nbsp; {name}, 100 queues"), "", &Figures::of(of(&many)), unit);
    };
    ratio("jobs/s put", ">= 0.8", "", |queues| queues.put);
    ratio("CPU of the supervisor for a no-op, `ordered`", "<= 1.2", "us", |queues| queues.cpu[0]);
    ratio("CPU of the supervisor for a no-op, `round_robin`", "<= 1.2", "us", |queues| queues.cpu[1]);
    ratio("RSS of the supervisor", "<= 1.2", "MB", |queues| queues.rss);
    ratio("`queue list`", "", "ms", |queues| queues.list.median());
    ratio("`status`", "", "ms", |queues| queues.status.median());
}

/// Costs with many queues.
struct Queues {
    put: f64,
    /// Microseconds for a job by the two orders of queues.
    cpu: [f64; 2],
    rss: f64,
    list: Figures,
    status: Figures,
}

impl Queues {
    fn measure(count: usize) -> Queues {
        const EACH: usize = 10_000;
        let scene = Scene::new();
        let names: Vec<String> = (0..count).map(|n| format!("q{n}")).collect();
        scene.write(&["name: none, workers: 2, queues: [none]".into()]);
        let running = scene.start();
        let (mut api, start) = (Api::connect(&scene.sandbox), Instant::now());
        for _ in 0..EACH / 1_000 {
            names.iter().for_each(|name| drop(api.put_classes(name, &["nothing"; 1_000])));
        }
        let put = (count * EACH) as f64 / start.elapsed().as_secs_f64();
        let (list, status) = (scene.time(&["queue", "list"]), scene.time(&["status"]));
        let resident = rss(scene.own()[0]) as f64 / 1e3;
        scene.stop(running);
        let drained = |order: &str| {
            scene.write(&[format!("{}, order: {order}", python(&names.join(", ")))]);
            let running = scene.start();
            let [supervisor, _] = scene.own();
            // A job of one queue is a job less there for the other order.
            let (start, cpu) = (complete(&scene.sandbox), cpu_of(supervisor));
            wait_until("jobs are complete", || complete(&scene.sandbox) >= start + EACH as u64 / 4);
            let cpu = micros(cpu_of(supervisor) - cpu) / (complete(&scene.sandbox) - start) as f64;
            scene.stop(running);
            cpu
        };
        Queues { put, cpu: ["ordered", "round_robin"].map(drained), rss: resident, list, status }
    }
}
