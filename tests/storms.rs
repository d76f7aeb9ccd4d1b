//! Many deaths at once, on the real binary: a pool that cannot work delays no other pool and costs almost nothing.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/python.rs"]
mod python;
#[path = "support/sandbox.rs"]
mod sandbox;

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use python::pool;
use sandbox::{Running, Sandbox, Setting, cpu_ticks, wait_until, wait_within};
use serde_json::Value;

const SLOTS: usize = 1000;

/// Most CPU time of the supervisor from the put of a job in the pool that works to its end, in ticks of 10 ms. A debug
/// build needs 100 for the ends of a thousand workers, and 700 were seen beside a compiler. Time on the wall would judge
/// the machine.
const DELAY: u64 = 1500;

/// Puts a program that does nothing and waits for its end.
fn run_one(sandbox: &Sandbox) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let supervisor = sandbox.one("tv-supervisor");
    let begin = cpu_ticks(supervisor);
    let jid = format!("one-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let put = ["put", "--jid", &jid, "--exists", "skip", "--", "true"];
    wait_until("it is put", || sandbox.run(&put).status.success());
    wait_until("it has ended", || sandbox.run(&["job", "wait", &jid, "--timeout", "40s"]).status.success());
    let used = cpu_ticks(supervisor) - begin;
    let job = sandbox.job(&jid);
    assert_eq!((&job["state"], &job["attempt"]), (&Value::from("complete"), &Value::from(1)), "{job}");
    assert!(used < DELAY, "the supervisor used {used} ticks meanwhile: {job}");
}

/// The resources of a process of ours: private memory in kilobytes, without the program text, and open files.
fn takes(comm: &str, sandbox: &Sandbox) -> (usize, usize) {
    let pid = sandbox.one(comm);
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let resident = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    (resident.trim().trim_end_matches(" kB").parse().unwrap(), files)
}

fn assert_takes_little(sandbox: &Sandbox) {
    for (comm, most) in [("tv-supervisor", 20_000), ("taskvisor", 8_000)] {
        let (resident, files) = takes(comm, sandbox);
        assert!(resident < most, "{comm} has {resident} kB");
        assert!(files < 60, "{comm} has {files} open files, and 1,000 lives are over");
    }
}

/// A pool of 1,000 workers that are ready until `die` exists and their gate is opened, beside a pool that works.
fn start(sandbox: &Sandbox) -> Running<'_> {
    let worker = sandbox.script(
        "worker",
        "#!/bin/sh
         echo $$ >> starts
         [ -e die ] && exit 1
         printf '%s\\n' '{\"hello\":{\"protocol\":1,\"sdk\":\"sh\"}}' '{\"ready\":{}}' >&3
         read word < gate
         exit 1\n",
    );
    let text = format!(
        "pools:
  - {{name: flapping, workers: {SLOTS}, queues: [never], command: [{worker}]}}
  - {{name: works, workers: 2}}\n"
    );
    let made = Command::new("mkfifo").args(["-m", "666"]).arg(sandbox.work("gate")).status().unwrap();
    assert!(made.success());
    let limits = ["prlimit", "--nofile=8192:8192", "--nproc=6000:6000", "--as=4000000000:4000000000"];
    let running = sandbox.start_under(&limits, &["-c", &python::file(sandbox, &text)]);
    wait_until("it listens", || sandbox.status().is_object());
    running
}

/// How many workers have been started.
fn starts(sandbox: &Sandbox) -> usize {
    fs::read_to_string(sandbox.work("starts")).unwrap_or_default().lines().count()
}

/// How many slots are not down.
fn up(sandbox: &Sandbox) -> usize {
    let pool = pool(sandbox, "flapping");
    let slots = pool["slots"].as_array().cloned().unwrap_or_default();
    slots.iter().filter(|slot| slot["state"] != "down").count()
}

/// Asserts that one slot probes after all have died, and that the supervisor costs no more than before.
fn check_calm_after(sandbox: &Sandbox, mut running: Running) {
    wait_until("one slot probes", || {
        run_one(sandbox);
        pool(sandbox, "flapping")["probing"].is_string() && up(sandbox) <= 1
    });
    assert_takes_little(sandbox);
    let before = starts(sandbox);
    wait_until("it has tried again", || {
        run_one(sandbox);
        starts(sandbox) >= before + 2
    });
    let mut reasons = String::new();
    wait_until("there is a status", || {
        reasons = sandbox.reasons();
        !reasons.is_empty()
    });
    assert!(reasons.contains("5 workers died within 30 s before they were ready"), "{reasons}");
    assert!(reasons.lines().count() < 10, "a line for each of 1,000: {reasons}");
    assert_takes_little(sandbox);
    assert_eq!(sandbox.status()["supervisor_restarts"], 0);
    sandbox.ok(&["stop", "--timeout", "60s"]);
    assert!(running.wait().success(), "{}", sandbox.stderr());
    sandbox.assert_nothing_left();
}

#[test]
fn pool_of_1000_broken_workers_boots_64_then_one_and_delays_no_other_pool() {
    // A plain user, so that the limit of processes applies.
    let sandbox = Sandbox::new(Setting::Plain);
    python::touch(&sandbox, "die");
    let running = start(&sandbox);
    check_calm_after(&sandbox, running);
    let tried = starts(&sandbox);
    assert!((64..80).contains(&tried), "{tried} starts of {SLOTS} slots");
}

#[test]
fn pool_whose_1000_workers_die_at_once_probes_with_one_and_delays_no_other_pool() {
    let sandbox = Sandbox::new(Setting::Plain);
    let running = start(&sandbox);
    wait_within(Duration::from_secs(120), "all are there", || {
        up(&sandbox) == SLOTS && starts(&sandbox) == SLOTS
    });
    wait_until("all are ready", || {
        let pool = pool(&sandbox, "flapping");
        pool["slots"].as_array().unwrap().iter().all(|slot| slot["state"] == "ready")
    });
    python::touch(&sandbox, "die");
    drop(fs::OpenOptions::new().write(true).open(sandbox.work("gate")).unwrap());
    check_calm_after(&sandbox, running);
    let tried = starts(&sandbox) - SLOTS;
    assert!(tried < SLOTS + 10, "{tried} starts of {SLOTS} slots after all have died");
}
