//! Many deaths at once, on the real binary: a pool that cannot work hurts no other, and costs next to nothing.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/python.rs"]
mod python;
#[path = "support/sandbox.rs"]
mod sandbox;

use std::fs;
use std::time::{Duration, Instant};

use python::{ended, pool, status};
use sandbox::{Sandbox, Setting, wait_until};
use serde_json::Value;

const SLOTS: usize = 1000;

/// Beyond it a job of the pool that works was held up: it takes a few milliseconds where nobody else is at work.
const DELAY: Duration = Duration::from_secs(5);

/// A program that does nothing, from its put to its end.
fn run_one(sandbox: &Sandbox) {
    let begin = Instant::now();
    let jid = sandbox.put(&["true"]);
    let job = ended(sandbox, &jid);
    assert_eq!((&job["state"], &job["attempt"]), (&Value::from("complete"), &Value::from(1)), "{job}");
    assert!(begin.elapsed() < DELAY, "it took {:?}: {job}", begin.elapsed());
}

/// What a process of ours takes: kilobytes that are resident, and open files.
fn takes(comm: &str, sandbox: &Sandbox) -> (usize, usize) {
    let pid = sandbox.one(comm);
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let resident = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    (resident.trim().trim_end_matches(" kB").parse().unwrap(), files)
}

fn assert_takes_little(sandbox: &Sandbox) {
    for (comm, most) in [("tv-supervisor", 60_000), ("taskvisor", 25_000)] {
        let (resident, files) = takes(comm, sandbox);
        assert!(resident < most, "{comm} has {resident} kB");
        assert!(files < 60, "{comm} has {files} open files, and 1,000 lives are over");
    }
}

#[test]
fn a_thousand_slots_that_flap_at_once_become_one_that_probes_and_hold_up_no_job_of_another_pool() {
    // Another user's, so that the limit of processes holds.
    let sandbox = Sandbox::new(Setting::Plain);
    let text = format!(
        "pools:
  - {{name: flapping, workers: {SLOTS}, queues: [never], command: [sh, -c, 'echo $$ >> starts; exit 1']}}
  - {{name: works, workers: 2}}\n"
    );
    let file = python::file(&sandbox, &text);
    let limits = ["prlimit", "--nofile=8192:8192", "--nproc=6000:6000", "--as=4000000000:4000000000"];
    let mut running = sandbox.start_under(&limits, &["-c", &file]);
    wait_until("it listens", || status(&sandbox).is_object());
    let flapping = || pool(&sandbox, "flapping");
    wait_until("all have died", || {
        run_one(&sandbox);
        flapping()["slots"].as_array().unwrap().iter().all(|slot| slot["restarts"].as_u64() > Some(0))
    });
    wait_until("one slot probes", || {
        run_one(&sandbox);
        let up =
            flapping()["slots"].as_array().unwrap().iter().filter(|slot| slot["state"] != "down").count();
        up <= 1 && flapping()["probing"].is_string()
    });
    let starts = || fs::read_to_string(sandbox.work("starts")).unwrap_or_default().lines().count();
    let before = starts();
    assert!((SLOTS..SLOTS + 10).contains(&before), "{before} starts of {SLOTS} slots");
    assert_takes_little(&sandbox);
    wait_until("it has tried again", || {
        run_one(&sandbox);
        starts() >= before + 2
    });
    let why = sandbox.ok(&["status"]);
    assert!(why.contains("5 workers died within 30 s before they were ready"), "{why}");
    assert!(status(&sandbox)["reasons"].as_array().unwrap().len() < 10, "a line for each of 1,000");
    assert_takes_little(&sandbox);
    assert_eq!(status(&sandbox)["supervisor_restarts"], 0);
    sandbox.ok(&["stop", "--timeout", "10s"]);
    assert!(running.wait().success(), "{}", sandbox.stderr());
    sandbox.assert_nothing_left();
}
