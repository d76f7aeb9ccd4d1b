//! Tasks of kale on an emulator of SQS: run by our workers, and by a kale-like worker.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::sandbox::{Sandbox, Setting, wait_until, wait_within};
use crate::support::{cpu_of, tree};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const KEY: &str = "sixteen bytes ok";
/// Warm-up tasks: workers and connections start during them.
const WARM: usize = 200;

/// The workers that run the tasks.
#[derive(Clone, Copy, PartialEq)]
pub enum Who {
    Ours,
    /// Two processes of `benches/support/kale_worker.py`.
    Peer,
}

/// The cost of a round.
pub struct Round {
    pub rate: f64,
    /// Microseconds of CPU time per task, of all processes except the emulator.
    pub cpu: f64,
}

/// A process that is killed on drop.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Runs tasks that were sent before, with two processes.
pub fn round(who: Who, tasks: usize) -> Round {
    let sandbox = Sandbox::new(Setting::Root);
    let (marks, key) = (sandbox.path("marks"), sandbox.path("key"));
    fs::write(&marks, "").expect("the marks");
    fs::write(&key, KEY).expect("the key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("its mode");
    let (_emulator, endpoint) = emulator();
    let filled = peer(&endpoint, &["fill", &tasks.to_string(), &marks.display().to_string()]).status();
    assert!(filled.is_ok_and(|status| status.success()), "the tasks are sent");
    let url = format!("sqs://eu-west-1?endpoint={endpoint}&key_file={}", key.display());
    let (mut running, mut peers) = (None, Vec::new());
    if who == Who::Ours {
        let (path, secret) = (format!("PYTHONPATH={}", path()), format!("KALE_STANDIN_KEY={KEY}"));
        let pool = ["--broker", &url, "-m", "prefork", "-w", "2", "-q", "bench"];
        let python = program("python");
        let settings = "KALE_SETTINGS_MODULE=kale_bench_settings";
        let env = ["--env", &path, "--env", &secret, "--env", settings];
        let worker = ["--", &python, "-m", "taskvisor.kale", "-m", "kale_tasks"];
        running = Some(sandbox.start_with(&[&pool[..], &env, &worker].concat(), |command| {
            command.env("AWS_ACCESS_KEY_ID", "bench").env("AWS_SECRET_ACCESS_KEY", "bench");
        }));
    } else {
        peers.extend((0..2).map(|_| Killed(peer(&endpoint, &["work"]).spawn().expect("a worker"))));
    }
    let done = || fs::metadata(&marks).expect("the marks").len() as usize;
    wait_until("the first have run", || done() >= WARM);
    let roots: Vec<i32> = match &running {
        Some(_) => vec![sandbox.one("taskvisor")],
        None => peers.iter().map(|peer| peer.0.id() as i32).collect(),
    };
    let all: Vec<i32> = roots.iter().flat_map(|root| tree(*root)).collect();
    let cpu = || all.iter().map(|pid| cpu_of(*pid)).sum::<Duration>();
    let (from, at, used) = (done(), Instant::now(), cpu());
    wait_within(Duration::from_secs(300), "all have run", || done() >= tasks);
    let (took, used, jobs) = (at.elapsed(), cpu() - used, (tasks - from) as f64);
    Round { rate: jobs / took.as_secs_f64(), cpu: used.as_secs_f64() * 1e6 / jobs }
}

/// Starts an emulator; returns it with its address.
fn emulator() -> (Killed, String) {
    let port =
        TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
    let settings = [("BIND_HOST", "127.0.0.1"), ("MINISTACK_HOST", "127.0.0.1"), ("SERVICES", "sqs")];
    let lean = [("SFTP_ENABLED", "0"), ("IOT_MTLS_ENABLED", "0"), ("LOG_LEVEL", "ERROR")];
    let child = Command::new(program("ministack"))
        .env("GATEWAY_PORT", port.to_string())
        .envs(settings)
        .envs(lean)
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("an emulator");
    let child = Killed(child);
    wait_until("it listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    (child, format!("http://127.0.0.1:{port}"))
}

fn peer(endpoint: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program("python"));
    command
        .arg(format!("{ROOT}/benches/support/kale_worker.py"))
        .arg(endpoint)
        .args(args)
        .env("PYTHONPATH", path())
        .env("KALE_STANDIN_KEY", KEY)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null());
    command
}

/// PYTHONPATH of both: the tasks, the stand-in for kale, and taskvisor's package.
fn path() -> String {
    format!("{ROOT}/python:{ROOT}/benches/support:{ROOT}/python/tests/kale_standin")
}

/// A program of the Python environment of both; made on first use.
fn program(name: &str) -> String {
    let script = format!("{ROOT}/benches/support/kale_venv");
    let made = Command::new("sh").args([script, format!("{ROOT}/target/kale")]).output().expect("a shell");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    format!("{}/bin/{name}", String::from_utf8(made.stdout).expect("a path").trim())
}
