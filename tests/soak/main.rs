//! A storm over every broker: supervisors with pools of each mode, on the real servers, while processes are killed and
//! stopped, servers die, refuse and hang, disks are full, settings change. Judged from outside: no acknowledged job is
//! lost, none runs twice at a time or pays for what is not its fault, and what `status` says is true.
//!
//! `tests/run --soak MINUTES [SEED]` goes on for so long; 0 is one short round for each broker. `TASKVISOR_BLOWS`, as in
//! `DiskFull,Outage(Gone)`, has it deal these alone.
#![allow(clippy::unwrap_used)]

mod ask;
mod blows;
#[path = "../support/sqs/mod.rs"]
mod fake;
mod jobs;
mod judge;
#[path = "../outages/outage.rs"]
mod outage;
#[path = "../support/proxy.rs"]
mod proxy;
#[path = "../support/python.rs"]
mod python;
mod random;
#[path = "../support/redis.rs"]
mod redis_server;
mod round;
#[path = "../support/sandbox.rs"]
mod sandbox;
#[path = "../outages/servers.rs"]
mod servers;
mod tally;
mod watch;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use round::Round;
use servers::Broker;
use tally::Tally;

/// The blows of a round in a long run, and in one of 0 minutes.
const BLOWS: [usize; 2] = [12, 4];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs the test again in namespaces of its own: mounts and processes end with it. What it prints can be followed in a
/// file.
fn go_inside(broker: Broker, name: &str) {
    let log = format!("{}/target/tmp/soak-{broker:?}.log", env!("CARGO_MANIFEST_DIR"));
    fs::create_dir_all(Path::new(&log).parent().unwrap()).unwrap();
    let inside = Command::new("unshare")
        .args(["-m", "--propagation", "private"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env("SOAK_INSIDE", "1")
        .stdout(fs::File::create(&log).unwrap())
        .status();
    println!("{}", fs::read_to_string(&log).unwrap());
    assert!(inside.unwrap().success(), "the rounds over {broker:?}, see above");
}

/// Rounds over a broker until the time is up. They run in namespaces of their own, which end with them: the
/// state directory is a small disk.
fn soak(broker: Broker, name: &str) {
    if !sandbox::is_root() {
        return sandbox::missing("root");
    }
    if std::env::var_os("SOAK_INSIDE").is_none() {
        return go_inside(broker, name);
    }
    let minutes = number("TASKVISOR_SOAK_MINUTES");
    let first = number("TASKVISOR_SEED").unwrap_or(1);
    let (began, tally) = (Instant::now(), Tally::default());
    for seed in first.. {
        println!("{:>6.0} s {broker:?}: round with seed {seed}", began.elapsed().as_secs_f64());
        let is_short = minutes.is_none_or(|minutes| minutes == 0);
        Round::new(broker, seed, &tally).pass(BLOWS[usize::from(is_short)]);
        println!("{tally}");
        if began.elapsed() >= Duration::from_secs(60 * minutes.unwrap_or_default()) {
            break;
        }
    }
    assert!(tally.is_clean(), "{broker:?}: see the violations above");
}

#[test]
fn storm_over_the_embedded_store_loses_nothing_and_is_told_truly() {
    soak(Broker::embedded, "storm_over_the_embedded_store_loses_nothing_and_is_told_truly");
}

#[test]
fn storm_over_qless_loses_nothing_and_is_told_truly() {
    soak(Broker::qless, "storm_over_qless_loses_nothing_and_is_told_truly");
}

#[test]
fn storm_over_rq_loses_nothing_and_is_told_truly() {
    soak(Broker::rq, "storm_over_rq_loses_nothing_and_is_told_truly");
}

#[test]
fn storm_over_the_reliable_queue_loses_nothing_and_is_told_truly() {
    soak(Broker::reliable, "storm_over_the_reliable_queue_loses_nothing_and_is_told_truly");
}

#[test]
fn storm_over_sqs_loses_nothing_and_is_told_truly() {
    soak(Broker::sqs, "storm_over_sqs_loses_nothing_and_is_told_truly");
}
