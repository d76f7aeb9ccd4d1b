//! Machine faults, on the real binary: a disk that is full or fails, descriptors, processes and locks that run out, a
//! clock that jumps, processes that do not die. Each fault is reported by name; no job is lost; nothing spins.

#[path = "../support/freezer.rs"]
mod freezer;
#[path = "../support/hang.rs"]
mod hang;
#[path = "../support/http.rs"]
mod http;
#[path = "../support/sandbox.rs"]
mod sandbox;

mod disk;
mod errnos;
mod faults;
mod memory;
mod shortages;
mod starts;
mod still;
mod stops;
mod store;
mod swept;
mod unproven;
mod volumes;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use freezer::Freezer;
use hang::Hang;
use sandbox::{
    Sandbox, Setting, alive, cpu_ticks, is_root, is_up, kill, missing, reasons, slots, stays, wait_until,
    wait_within,
};
use serde_json::Value;

/// The exit code and stderr, with the sandbox's directory replaced by DIR.
fn said(sandbox: &Sandbox, output: &Output) -> (Option<i32>, String) {
    let text = String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text.replace(&sandbox.path("").display().to_string(), "DIR/"))
}

#[track_caller]
fn assert_says(sandbox: &Sandbox, output: &Output, code: i32, words: &[&str]) {
    let (got, stderr) = said(sandbox, output);
    assert_eq!(got, Some(code), "{stderr}");
    for word in words {
        assert!(stderr.contains(word), "no {word:?} in:\n{stderr}");
    }
}

/// Puts a job that ends when the file `go` exists.
const UNTIL_GO: &str = "touch begun; while [ ! -e go ]; do sleep 0.02; done";

fn put_until_go(sandbox: &Sandbox, then: &str) -> String {
    let jid = sandbox.put(&["sh", "-c", &format!("{UNTIL_GO}; {then}")]);
    wait_until("the job runs", || sandbox.work("begun").exists());
    jid
}

fn go(sandbox: &Sandbox) {
    fs::write(sandbox.work("go"), "").expect("go");
}

/// Asserts that the job completes in its first attempt, without an interruption.
fn assert_completes(sandbox: &Sandbox, jid: &str) -> Value {
    sandbox.run(&["job", "wait", jid, "--timeout", "40s"]);
    let job = sandbox.job(jid);
    assert_eq!(job["state"], "complete", "{job}");
    assert_eq!((job["attempt"].as_u64(), job["interruptions"].as_u64()), (Some(1), Some(0)), "{job}");
    job
}

fn assert_works(sandbox: &Sandbox) {
    let jid = sandbox.put(&["true"]);
    assert_completes(sandbox, &jid);
}

/// The pids of keeper and supervisor.
fn both(sandbox: &Sandbox) -> [i32; 2] {
    let status = sandbox.status();
    ["keeper", "supervisor"].map(|name| status[name]["pid"].as_i64().expect("a pid") as i32)
}

/// Waits for a second in which keeper and supervisor use almost no CPU time.
#[track_caller]
fn assert_calm(sandbox: &Sandbox) {
    let both = both(sandbox);
    let (mut since, mut before) = (Instant::now(), both.map(cpu_ticks));
    wait_within(
        Duration::from_secs(10),
        "keeper and supervisor use less than 15 of 100 ticks in a second",
        || {
            if both.map(cpu_ticks).iter().zip(before).any(|(after, before)| after - before >= 15) {
                (since, before) = (Instant::now(), both.map(cpu_ticks));
            }
            since.elapsed() > Duration::from_secs(1)
        },
    );
}

/// A cgroup of one controller; dropping it kills the processes in it.
struct Cell(PathBuf);

impl Cell {
    fn new(controller: &str, name: &str) -> Option<Cell> {
        let cell = Path::new("/sys/fs/cgroup")
            .join(controller)
            .join(format!("tv-days-{name}-{}", std::process::id()));
        (is_root() && fs::create_dir(&cell).is_ok()).then(|| Cell(cell))
    }

    fn set(&self, file: &str, value: &str) {
        fs::write(self.0.join(file), value).unwrap_or_else(|error| panic!("{file}: {error}"));
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        fs::write(self.0.join("freezer.state"), "THAWED").ok();
        for pid in fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default().lines() {
            kill(pid.parse().expect("a pid"), "KILL");
        }
        if !std::thread::panicking() {
            wait_until("the cgroup is empty", || fs::remove_dir(&self.0).is_ok());
        } else {
            for _ in 0..200 {
                if fs::remove_dir(&self.0).is_ok() {
                    break;
                }
                std::thread::park_timeout(Duration::from_millis(10));
            }
        }
    }
}

/// Builds the library of `support/days.c` with the machine's C compiler.
fn shim(sandbox: &Sandbox) -> Option<String> {
    let library = sandbox.path("days.so").display().to_string();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/days.c");
    match Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o", &library, source]).status() {
        Ok(made) => {
            assert!(made.success(), "days.c does not compile");
            Some(library)
        }
        Err(error) => {
            println!("cc: {error}");
            missing("cc");
            None
        }
    }
}
