//! Benchmarks of RQ's jobs: `cargo bench --bench rq` prints the table. Compared sides take turns with RQ 3.0.0, each on
//! its own Redis. `TASKVISOR_TEST_BINARY` names another taskvisor to measure.
//!
//! `-- --only NAME…` selects some of: fork own prefork stop idle wake.

#[path = "support/python.rs"]
mod python;
#[path = "../tests/support/redis.rs"]
mod redis_server;
#[path = "../tests/support/sandbox.rs"]
mod sandbox;

mod support;

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis::{Connection, Value};
use redis_server::RedisServer;
use sandbox::{Running, Sandbox, Setting, is_up, kill, wait_until};
use support::{Figures, cpu_of, cpu_of_reaped, end_of, micros, pss, row, tree};

/// Rounds of each compared figure.
const ROUNDS: usize = 3;
const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// Warm-up jobs of a round: workers and connections start during them.
const WARM: usize = 50;

fn main() {
    let rows: &[(&str, fn())] =
        &[("fork", fork), ("own", own), ("prefork", prefork), ("stop", stop), ("idle", idle), ("wake", wake)];
    support::table(rows, "");
}

/// A program of the Python environment with RQ 3.0.0, installed once below target/.
fn program(name: &str) -> String {
    static VENV: OnceLock<String> = OnceLock::new();
    let venv = VENV.get_or_init(|| {
        let made =
            Command::new("sh").args([format!("{ROOT}/tests/rq/venv"), format!("{ROOT}/target/rq")]).output();
        let made = made.expect("a shell");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        String::from_utf8(made.stdout).expect("a path").trim().to_owned()
    });
    format!("{venv}/bin/{name}")
}

/// PYTHONPATH of workers and clients: taskvisor's package, and the jobs.
fn path() -> String {
    format!("{ROOT}/python:{ROOT}/benches/support")
}

/// A Redis, a client of RQ and directories for a taskvisor.
struct Scene {
    server: RedisServer,
    sandbox: Sandbox,
    client: RefCell<Client>,
    redis: RefCell<Connection>,
}

struct Client {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

/// Running workers: ours, or those of RQ.
enum Workers<'a> {
    Ours(Running<'a>),
    Theirs(Child),
}

/// The cost of empty jobs.
struct Used {
    rate: f64,
    /// Microseconds of CPU time per job: of all processes except Redis, and of Redis.
    cpu: f64,
    redis: f64,
    /// Requests that Redis read, per job.
    reads: f64,
}

impl Scene {
    fn new() -> Scene {
        let server = RedisServer::start();
        let redis = RefCell::new(server.connect());
        let mut child = Command::new(program("python"))
            .args([&format!("{ROOT}/benches/support/rq_jobs.py"), &server.url()])
            .env("PYTHONPATH", path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a client");
        let to = child.stdin.take().expect("its input");
        let from = BufReader::new(child.stdout.take().expect("its output"));
        let client = RefCell::new(Client { child, to, from });
        Scene { server, sandbox: Sandbox::new(Setting::Root), client, redis }
    }

    /// Starts our workers and waits until all are up.
    fn ours(&self, mode: &str, slots: usize) -> Workers<'_> {
        let environment = [
            format!("PYTHONPATH={}", path()),
            format!("RQ_REDIS_URL={}", self.server.url()),
            "PYTHONDONTWRITEBYTECODE=1".into(),
        ];
        let (url, slots, python) =
            (format!("rq+{}", self.server.url()), slots.to_string(), program("python"));
        let mut args = vec!["--broker", &url, "-m", mode, "-w", &slots];
        environment.iter().for_each(|pair| args.extend(["--env", pair.as_str()]));
        args.extend(["--", &python, "-m", "taskvisor.rq", "-m", "rq_jobs"]);
        let running = self.sandbox.start_raw(&args);
        wait_until("all slots are up", || is_up(&self.sandbox.status()));
        Workers::Ours(running)
    }

    /// Starts workers of RQ.
    fn theirs(&self, args: &[&str]) -> Workers<'_> {
        let worker = Command::new(program("rq"))
            .args(args)
            .args(["--quiet", "-u", &self.server.url()])
            .env("PYTHONPATH", path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Workers::Theirs(worker.expect("RQ"))
    }

    fn ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        redis::cmd(words[0]).arg(&words[1..]).query(&mut *self.redis.borrow_mut()).expect("an answer")
    }

    /// A number from INFO.
    fn info(&self, section: &str, name: &str) -> f64 {
        let text: String = self.ask(&["INFO", section]);
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).expect(name);
        line.trim().parse().expect("a number")
    }

    fn cpu_of_redis(&self) -> f64 {
        (self.info("cpu", "used_cpu_sys") + self.info("cpu", "used_cpu_user")) * 1e6
    }

    /// Runs a command of RQ's client; returns the words that it prints.
    fn client(&self, line: &str) -> Vec<String> {
        let mut client = self.client.borrow_mut();
        writeln!(client.to, "{line}").expect("the client listens");
        let mut answer = String::new();
        client.from.read_line(&mut answer).expect("the client answers");
        answer.split_whitespace().map(str::to_owned).collect()
    }

    /// Waits until `count` jobs have ended; returns the number of polls.
    fn wait(&self, jobs: usize) -> u32 {
        let begun = Instant::now();
        for asked in 1.. {
            if self.ask::<usize>(&["ZCARD", "rq:finished:default"]) >= jobs {
                return asked;
            }
            assert!(begun.elapsed() < Duration::from_secs(120), "{jobs} jobs do not end");
            std::thread::park_timeout(Duration::from_millis(5));
        }
        0
    }

    /// Measures empty jobs from the moment when all workers run.
    fn measure(&self, workers: &Workers<'_>, jobs: usize) -> Used {
        self.client(&format!("fill {WARM}"));
        self.wait(WARM);
        let _: Value = self.ask(&["SET", "rq:suspended", "1"]);
        self.client(&format!("fill {jobs}"));
        let before = (workers.cpu(), self.cpu_of_redis(), self.info("stats", "total_reads_processed"));
        let _: Value = self.ask(&["DEL", "rq:suspended"]);
        self.wait(WARM + jobs / 10);
        let begun = Instant::now();
        let asked = self.wait(WARM + jobs);
        let rate = (jobs - jobs / 10) as f64 / begun.elapsed().as_secs_f64();
        let per_job = |used: f64| used / jobs as f64;
        let reads = self.info("stats", "total_reads_processed") - before.2 - f64::from(asked);
        Used {
            rate,
            cpu: per_job(micros(workers.cpu() - before.0)),
            redis: per_job(self.cpu_of_redis() - before.1),
            reads: per_job(reads),
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let child = &mut self.client.borrow_mut().child;
        child.kill().ok();
        child.wait().ok();
    }
}

impl Workers<'_> {
    fn pids(&self) -> Vec<i32> {
        match self {
            Workers::Ours(running) => tree(running.child.id() as i32),
            Workers::Theirs(child) => tree(child.id() as i32),
        }
    }

    /// CPU time so far of all living processes and of their ended children.
    fn cpu(&self) -> Duration {
        self.pids().into_iter().map(|pid| cpu_of(pid) + cpu_of_reaped(pid)).sum()
    }
}

impl Drop for Workers<'_> {
    fn drop(&mut self) {
        let pids = self.pids();
        if let Workers::Theirs(child) = self {
            pids.iter().for_each(|pid| kill(*pid, "KILL"));
            child.wait().ok();
        }
    }
}

/// Jobs a second and CPU time of an empty job: a fork for each job, 2 at a time.
fn fork() {
    compare("fork per job, 2 slots", "`rq worker-pool -n 2`", (4.0, 4.0), (3_000, 300), |scene, is_ours| {
        if is_ours { scene.ours("fork", 2) } else { scene.theirs(&["worker-pool", "-n", "2"]) }
    });
}

/// Jobs a second of an empty Python function of our own package on the embedded store, a fork for each job, against
/// the forks of RQ's pool.
fn own() {
    let (mut ratio, mut ours, mut theirs) = (Figures::default(), Figures::default(), Figures::default());
    for _ in 0..ROUNDS {
        let own = python::round("nothing", 3_000, &["-m", "fork", "-w", "2"]).rate();
        let scene = Scene::new();
        let pool = scene.measure(&scene.theirs(&["worker-pool", "-n", "2"]), 300).rate;
        ratio.add(own / pool);
        ours.add(own);
        theirs.add(pool);
    }
    let what = "jobs/s of a Python no-op, template fork, durable, against RQ's with `rq worker-pool -n 2`";
    row(what, ">= 8", &ratio, "x");
    row("&nbsp; taskvisor on its store", "", &ours, "/s");
    row("&nbsp; `rq worker-pool -n 2`", "", &theirs, "/s");
}

/// The same in one process for all jobs.
fn prefork() {
    let worker = ["worker", "-w", "rq.SimpleWorker"];
    compare("prefork, 1 process", "RQ's SimpleWorker", (5.0, 0.0), (10_000, 1_500), |scene, is_ours| {
        if is_ours { scene.ours("prefork", 1) } else { scene.theirs(&worker) }
    });
}

/// The rows of a comparison: the ratio of jobs a second, and the CPU time of a job.
fn compare(
    what: &str,
    peer: &str,
    (rate, cpu): (f64, f64),
    jobs: (usize, usize),
    start: impl for<'a> Fn(&'a Scene, bool) -> Workers<'a>,
) {
    let mut figures = <[Figures; 10]>::default();
    for _ in 0..ROUNDS {
        let used = [(true, jobs.0), (false, jobs.1)].map(|(is_ours, jobs)| {
            let scene = Scene::new();
            let workers = start(&scene, is_ours);
            scene.measure(&workers, jobs)
        });
        let [ours, theirs] = &used;
        let ratios = [ours.rate / theirs.rate, theirs.cpu / ours.cpu];
        let each = used.iter().flat_map(|used| [used.rate, used.cpu / 1e3, used.redis / 1e3, used.reads]);
        figures.iter_mut().zip(ratios.into_iter().chain(each)).for_each(|(row, value)| row.add(value));
    }
    let goal = |least: f64| if least > 0.0 { format!(">= {least}") } else { String::new() };
    let [rates, cpus, ours @ .., a, b, c, d] = &figures;
    row(&format!("jobs/s of a no-op, {what}, against {peer}"), &goal(rate), rates, "x");
    row(&format!("CPU of {peer} for a job against ours"), &goal(cpu), cpus, "x");
    for (whose, [rate, cpu, redis, reads], most) in
        [("taskvisor", ours.each_ref(), "<= 2"), (peer, [a, b, c, d], "")]
    {
        row(&format!("&nbsp; {whose}: jobs/s"), "", rate, "");
        row(&format!("&nbsp; {whose}: CPU of a job, all processes"), "", cpu, "ms");
        row(&format!("&nbsp; {whose}: CPU of a job in Redis"), "", redis, "ms");
        row(&format!("&nbsp; {whose}: round trips to Redis of a job, busy"), most, reads, "");
    }
}

/// Waits for a file; returns its text.
fn read(path: &Path) -> Vec<u64> {
    wait_until("a file is written", || path.exists());
    let text = std::fs::read_to_string(path).expect("a file");
    text.split_whitespace().map(|word| word.parse().expect("a number")).collect()
}

/// Time from the command `stop-job` to the end of a job and of its child in another session.
fn stop() {
    let scene = Scene::new();
    let _workers = scene.ours("fork", 2);
    let mut times = Figures::default();
    for round in 0..40 {
        let file = scene.sandbox.work(&format!("tree{round}"));
        let job = scene.client(&format!("put tree {}", file.display())).remove(0);
        let pids = read(&file);
        let worker: String = scene.ask(&["HGET", &format!("rq:job:{job}"), "worker_name"]);
        let said = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs_f64() * 1e3;
        let command = format!(r#"{{"command": "stop-job", "job_id": "{job}"}}"#);
        let _: Value = scene.ask(&["PUBLISH", &format!("rq:pubsub:{worker}"), &command]);
        let ends = pids.into_iter().map(|pid| end_of(pid as i32));
        times.add(ends.fold(0.0, f64::max) - said);
        let status = || scene.ask::<String>(&["HGET", &format!("rq:job:{job}"), "status"]);
        wait_until("the job is stopped", || status() == "stopped");
    }
    row("stop-job -> the job's tree is dead, a `start_new_session` grandchild too", "<= 5", &times, "ms");
}

/// Memory of 8 idle slots that have run jobs.
fn idle() {
    for (what, goal, is_ours) in [
        ("PSS of all processes, 8 idle slots with one template", "<= 45", true),
        ("&nbsp; `rq worker-pool -n 8`", "", false),
    ] {
        let scene = Scene::new();
        let workers = if is_ours { scene.ours("fork", 8) } else { scene.theirs(&["worker-pool", "-n", "8"]) };
        scene.client("fill 200");
        scene.wait(200);
        wait_until("all slots are up", || !is_ours || is_up(&scene.sandbox.status()));
        let all: u64 = workers.pids().into_iter().map(pss).sum();
        row(what, goal, &Figures::of(all as f64 / 1024.0), "MB");
    }
}

/// Time from the call of RQ's `enqueue` to the first line of the function, without other jobs.
fn wake() {
    for (what, goal, is_ours) in [
        ("RQ's `enqueue` is called -> the function begins, a fork, idle", "<= 3", true),
        ("&nbsp; `rq worker`", "", false),
    ] {
        let scene = Scene::new();
        let _workers = if is_ours { scene.ours("fork", 1) } else { scene.theirs(&["worker"]) };
        let (mut times, mut since) = (Figures::default(), Figures::default());
        for round in 0..60 {
            let file = scene.sandbox.work(&format!("at{round}"));
            std::thread::park_timeout(Duration::from_millis(60));
            let told = scene.client(&format!("put stamp {}", file.display()));
            let begun = read(&file)[0] as f64;
            scene.wait(round + 1);
            let [called, returned] = [0, 1].map(|at| told[at].parse::<f64>().expect("a time"));
            times.add((begun - called) / 1e6);
            since.add((begun - returned) / 1e6);
        }
        row(what, goal, &times, "ms");
        row("&nbsp; since `enqueue` has returned", "", &since, "ms");
    }
}
