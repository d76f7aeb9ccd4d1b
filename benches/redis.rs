//! What jobs cost a Redis of one's own: `cargo bench --bench redis` prints the table. Ratios are taken within one run.
//!
//! `-- --against FILE` measures another script of the same commands in turn with ours, such as that of a client of qless.

#[path = "../tests/support/redis.rs"]
mod support;

#[path = "support/mod.rs"]
mod figures;
#[path = "../tests/support/sandbox.rs"]
mod sandbox;

use std::time::{SystemTime, UNIX_EPOCH};

use figures::{Figures, row};
use redis::{Connection, Pipeline, Value};
use support::RedisServer;
use taskvisor::broker::redis::script::SCRIPT;

/// Rounds of each figure; who is compared takes turns.
const ROUNDS: usize = 15;
/// Jobs of a round, and how many of them travel together.
const JOBS: usize = 2000;
const BATCH: usize = 10;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let other = args.iter().position(|arg| arg == "--against").map(|at| &args[at + 1]);
    let other = other.map(|path| std::fs::read_to_string(path).expect("a script"));
    let server = RedisServer::start();
    let mut redis = server.connect();
    let mut load = |script: &str| -> String {
        redis::cmd("SCRIPT").arg("LOAD").arg(script).query(&mut redis).expect("a script without faults")
    };
    let (ours, empty, other) = (load(SCRIPT), load("return 1"), other.map(|script| load(&script)));
    println!("| what | to reach | median | p99 | note |\n|---|---|---|---|---|");
    fixed(&mut redis, &ours, &empty);
    let costs = cycles(&mut redis, &ours, other.as_deref());
    for (what, goal, figures) in costs {
        row(&what, goal, &figures, "us");
    }
}

/// What a call costs that does nothing, over one of a script that is nothing.
fn fixed(redis: &mut Connection, ours: &str, empty: &str) {
    let mut over = Figures::default();
    for _ in 0..ROUNDS {
        let nothing = of_a_call(redis, empty);
        over.add(of_a_call(redis, ours) - nothing);
    }
    row("Redis CPU of a call that does nothing, over an empty script's", "<= 6", &over, "us");
}

/// The time in Redis of a call, by its own account.
fn of_a_call(redis: &mut Connection, sha: &str) -> f64 {
    const CALLS: usize = 2000;
    let _: Value = redis::cmd("CONFIG").arg("RESETSTAT").query(redis).expect("a fresh count");
    let mut calls = redis::pipe();
    for _ in 0..CALLS {
        calls.cmd("EVALSHA").arg(sha).arg(0).arg("worker.deregister").arg("1795203545.25");
    }
    let _: Vec<Value> = calls.query(redis).expect("answers");
    let stats: String = redis::cmd("INFO").arg("commandstats").query(redis).expect("an account");
    let of_evalsha = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).expect("its line");
    let (_, rest) = of_evalsha.split_once("usec=").expect("its time");
    let (micros, _) = rest.split_once(',').expect("a number");
    micros.parse::<f64>().expect("a number") / CALLS as f64
}

/// The CPU of the server for a job that is put, popped and completed, all of them in batches.
fn cycles(redis: &mut Connection, ours: &str, other: Option<&str>) -> Vec<(String, &'static str, Figures)> {
    let (mut steps, mut whole, mut others) =
        (<[Figures; 3]>::default(), Figures::default(), Figures::default());
    let mut ratio = Figures::default();
    for _ in 0..ROUNDS {
        let costs = cycle(redis, ours);
        let sum: f64 = costs.iter().sum();
        steps.iter_mut().zip(costs).for_each(|(step, cost)| step.add(cost));
        whole.add(sum);
        if let Some(other) = other {
            let cost: f64 = cycle(redis, other).iter().sum();
            others.add(cost);
            ratio.add(cost / sum);
        }
    }
    let what = format!("Redis CPU of a job: put, pop, complete, batches of {BATCH}, 80 bytes of data");
    let mut rows = vec![(what, "<= 60", whole)];
    for (name, step) in ["put", "pop", "complete"].into_iter().zip(steps) {
        rows.push((format!("of it: {name}"), "", step));
    }
    if other.is_some() {
        rows.push(("the same by the other script".into(), "", others));
        rows.push(("how many times ours that is (times, not us)".into(), "", ratio));
    }
    rows
}

/// CPU in microseconds of put, of pop and of complete, for each of some jobs.
fn cycle(redis: &mut Connection, sha: &str) -> [f64; 3] {
    const DATA: &str =
        r#"{"to":"someone@example.org","template":"welcome","language":"en","attempt":1,"x":0}"#;
    let _: Value = redis::cmd("FLUSHALL").query(redis).expect("an empty store");
    let jids: Vec<String> = (0..JOBS).map(|n| format!("{n:032x}")).collect();
    let mut call = |batch: &mut dyn FnMut(&mut Pipeline, &[String])| {
        let before = cpu(redis);
        for jids in jids.chunks(BATCH) {
            let mut calls = redis::pipe();
            batch(&mut calls, jids);
            let _: Vec<Value> = calls.query(redis).expect("answers");
        }
        (cpu(redis) - before) / JOBS as f64
    };
    let evalsha = |calls: &mut Pipeline, args: &[&str]| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs_f64().to_string();
        calls.cmd("EVALSHA").arg(sha).arg(0).arg(args[0]).arg(now).arg(&args[1..]);
    };
    [
        call(&mut |calls, jids| {
            jids.iter().for_each(|jid| evalsha(calls, &["put", "me", "mail", jid, "Welcome", DATA, "0"]));
        }),
        call(&mut |calls, _| evalsha(calls, &["pop", "mail", "host-1-main.3", &BATCH.to_string()])),
        call(&mut |calls, jids| {
            jids.iter().for_each(|jid| evalsha(calls, &["complete", jid, "host-1-main.3", "mail", DATA]));
        }),
    ]
}

/// CPU of the server so far, in microseconds.
fn cpu(redis: &mut Connection) -> f64 {
    let info: String = redis::cmd("INFO").arg("cpu").query(redis).expect("an account");
    let of = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)).expect("its line");
        line.trim().parse::<f64>().expect("a number")
    };
    (of("used_cpu_sys:") + of("used_cpu_user:")) * 1e6
}
