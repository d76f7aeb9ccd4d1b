//! Python workers, ours and those of other programs.

// Each bench uses only a part of this module.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::sandbox::{Running, Sandbox, Setting, kill, wait_until};
use crate::support::{Api, Thread, cpu_of, feed, micros, threads, tree};

const HUEY: &str = "huey==3.5.4";
const REDIS: &str = "redis==8.1.0";

pub fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// PYTHONPATH with the package, the jobs and the peers.
fn python_path() -> String {
    format!("{}:{}", path("python").display(), path("benches/support").display())
}

fn temporary(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// A program of the Python environment of all rows; made on first use.
fn python(program: &str) -> String {
    static BIN: OnceLock<PathBuf> = OnceLock::new();
    let bin = BIN.get_or_init(|| {
        let place = temporary("bench-venv");
        let run = |command: &mut Command| {
            let done = command.stdout(Stdio::null()).status().is_ok_and(|status| status.success());
            assert!(done, "{command:?} failed: the Python environment of this bench cannot be made");
        };
        if !place.join("bin/huey_consumer").exists() {
            run(Command::new("python3").args(["-m", "venv"]).arg(&place));
            run(Command::new(place.join("bin/python")).args(["-m", "pip", "install", "-q", HUEY, REDIS]));
        }
        place.join("bin")
    });
    bin.join(program).display().to_string()
}

/// A Python program in the same environment.
pub fn peer(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(python(program));
    command
        .args(args)
        .env("PYTHONPATH", python_path())
        .env("PYTHONPYCACHEPREFIX", temporary("pycache"))
        .stdin(Stdio::null());
    command
}

/// `start` with Python workers.
pub fn start<'a>(sandbox: &'a Sandbox, args: &[&str]) -> Running<'a> {
    let path = format!("PYTHONPATH={}", python_path());
    let cache = format!("PYTHONPYCACHEPREFIX={}", temporary("pycache").display());
    let python = python("python");
    let app = if args.contains(&"coroutine") { "naps" } else { "app" };
    let rest = ["--env", &path, "--env", &cache, "--", &python, "-m", "taskvisor.worker", app];
    sandbox.start(&[args, &rest].concat())
}

/// The cost of one round.
pub struct Round {
    wall: Duration,
    /// The threads of keeper and supervisor.
    own: BTreeMap<String, Thread>,
    /// CPU time of all processes that lived for the whole round, prefork workers included.
    whole: Duration,
    jobs: usize,
}

impl Round {
    pub fn rate(&self) -> f64 {
        self.jobs as f64 / self.wall.as_secs_f64()
    }

    /// Microseconds of CPU time and context switches per job of one thread.
    pub fn of(&self, thread: &str) -> (f64, f64) {
        let used = self.own.get(thread).copied().unwrap_or_default();
        (micros(used.cpu) / self.jobs as f64, used.switches as f64 / self.jobs as f64)
    }

    /// Microseconds of CPU time per job of keeper and supervisor.
    pub fn cpu(&self) -> f64 {
        self.own.values().map(|used| micros(used.cpu)).sum::<f64>() / self.jobs as f64
    }

    /// Milliseconds of CPU time per job of the whole tree.
    pub fn cpu_of_all(&self) -> f64 {
        self.whole.as_secs_f64() * 1e3 / self.jobs as f64
    }
}

/// Runs jobs that were put before: from the resume of the queue until all are complete.
pub fn round(class: &str, jobs: usize, args: &[&str]) -> Round {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = start(&sandbox, args);
    sandbox.ok(&["queue", "pause", "default"]);
    let put = feed(sandbox.command(&["put", "default", class, "--lines"]), &"{}\n".repeat(jobs));
    let ids = String::from_utf8(put.stdout).expect("text");
    let last = ids.lines().last().expect("ids").to_owned();
    let pids = [sandbox.one("taskvisor"), sandbox.one("tv-supervisor")];
    let look = || pids.into_iter().flat_map(threads).collect::<BTreeMap<_, _>>();
    let mut api = Api::connect(&sandbox);
    // Every prefork worker has finished its imports before the measurement.
    wait_until("no slot is starting", || {
        !api.get("/v1/status")["pools"][0]["slots"].to_string().contains("starting")
    });
    let all = tree(pids[0]);
    let cpu = || all.iter().map(|pid| cpu_of(*pid)).sum::<Duration>();
    let (before, cpu_before, start) = (look(), cpu(), Instant::now());
    api.resume("default");
    // The last job signals the end, so that nothing polls while the others run.
    api.get(&format!("/v1/jobs/{last}/wait"));
    let mut complete = || api.get("/v1/queues")["default"]["jobs"]["complete"].as_u64() == Some(jobs as u64);
    wait_until("all jobs are complete", &mut complete);
    let (wall, whole) = (start.elapsed(), cpu() - cpu_before);
    let since = |(name, now): (String, Thread)| {
        let then = before.get(&name).copied().unwrap_or_default();
        (name, Thread { cpu: now.cpu - then.cpu, switches: now.switches - then.switches })
    };
    let own = look().into_iter().map(since).collect();
    sandbox.ok(&["stop"]);
    Round { wall, own, whole, jobs }
}

/// Jobs per second of Huey from its first job to its last: on the Redis of this URL, or durable on the same file
/// system.
pub fn huey(jobs: usize, processes: &str, redis: Option<&str>) -> f64 {
    let sandbox = Sandbox::new(Setting::Root);
    let store = redis.map_or_else(|| sandbox.path("huey.db").display().to_string(), str::to_owned);
    let marks = sandbox.path("huey");
    let (script, count) = (path("benches/support/peer.py").display().to_string(), jobs.to_string());
    let filled = peer("python", &[&script, "fill", &count])
        .env("BENCH_STORE", &store)
        .env("BENCH_MARKS", &marks)
        .status();
    assert!(filled.is_ok_and(|status| status.success()), "Huey's queue is filled");
    let args = ["peer.huey", "-k", "process", "-w", processes, "-q"];
    let mut consumer = peer("huey_consumer", &args);
    // Its processes may give up waiting for the lock of its store and print an error.
    let mut consumer = consumer
        .env("BENCH_STORE", &store)
        .env("BENCH_MARKS", &marks)
        .stderr(Stdio::null())
        .spawn()
        .expect("a consumer");
    let stamp = |name: &str| {
        let file = sandbox.path(&format!("huey.{name}"));
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

/// Two processes that only do BLMOVE, the same function and LREM: jobs per second, and milliseconds of CPU time per job.
pub fn bare(jobs: usize, redis: &str) -> (f64, f64) {
    let script = path("benches/support/bare.py").display().to_string();
    let output = peer("python", &[&script, redis, &jobs.to_string()]).output().expect("Python runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let [seconds, cpu] = text.split_whitespace().collect::<Vec<_>>()[..] else {
        panic!("two numbers of {script}, not {output:?}")
    };
    let number = |text: &str| text.parse::<f64>().expect("a number");
    (jobs as f64 / number(seconds), number(cpu) * 1e3 / jobs as f64)
}
