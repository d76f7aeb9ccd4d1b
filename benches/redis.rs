//! Benchmarks of jobs on Redis: `cargo bench --bench redis` prints the table. Ratios are taken within one run, in
//! turns.
//!
//! `-- --only NAME…` selects some of: fixed cycle broker prefork bullmq cancel latency idle; `-- --against FILE`
//! measures another script of qless commands in turn with ours, such as that of a qless client.

#[path = "support/node.rs"]
mod node;
#[path = "support/python.rs"]
mod python;
#[path = "../tests/support/sandbox.rs"]
mod sandbox;
#[path = "../tests/support/store.rs"]
#[allow(clippy::unwrap_used)]
mod scene;
mod support;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use broker::Broker;
use model::{NewJob, Payload};
use qless::{Options, Qless, script::SCRIPT};
use redis::{Connection, Pipeline, Value};
use sandbox::{Sandbox, Setting, wait_until};
use scene::RedisServer;
use scene::server::Scripted;
use support::{Figures, row};

/// Rounds of each figure; compared sides take turns.
const ROUNDS: usize = 15;
/// Jobs of a round, and jobs in one call.
const JOBS: usize = 2000;
const BATCH: usize = 10;
/// The data of a job: 80 bytes.
const DATA: &str = r#"{"to":"someone@example.org","template":"welcome","language":"en","attempt":1,"x":0}"#;

fn main() {
    let rows: &[(&str, fn())] = &[
        ("fixed", fixed),
        ("cycle", cycles),
        ("broker", broker),
        ("prefork", prefork),
        ("bullmq", against_bullmq),
        ("cancel", cancel),
        ("latency", latency),
        ("idle", idle),
    ];
    support::table(rows, "");
}

fn load(redis: &mut Connection, script: &str) -> String {
    redis::cmd("SCRIPT").arg("LOAD").arg(script).query(redis).expect("a script without faults")
}

/// The cost of a call that does nothing, compared with an empty script.
fn fixed() {
    let server = RedisServer::start();
    let mut redis = server.connect();
    let (ours, empty) = (load(&mut redis, SCRIPT), load(&mut redis, "return 1"));
    let mut over = Figures::default();
    for _ in 0..ROUNDS {
        let nothing = of_a_call(&mut redis, &empty);
        over.add(of_a_call(&mut redis, &ours) - nothing);
    }
    row("Redis CPU of a call that does nothing, over an empty script's", "<= 6", &over, "us");
}

/// The time of a call in Redis, as Redis measures it.
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

/// CPU time of the server for a job that is put, popped and completed by the commands of qless in batches.
fn cycles() {
    let args: Vec<String> = std::env::args().collect();
    let other = args.iter().position(|arg| arg == "--against").map(|at| &args[at + 1]);
    let server = RedisServer::start();
    let mut redis = server.connect();
    let ours = load(&mut redis, SCRIPT);
    let other = other.map(|path| load(&mut redis, &std::fs::read_to_string(path).expect("another script")));
    let (mut steps, mut whole) = (<[Figures; 3]>::default(), Figures::default());
    let (mut others, mut ratio) = (Figures::default(), Figures::default());
    for _ in 0..ROUNDS {
        let costs = cycle(&mut redis, &ours);
        let sum: f64 = costs.iter().sum();
        steps.iter_mut().zip(costs).for_each(|(step, cost)| step.add(cost));
        whole.add(sum);
        if let Some(other) = &other {
            let cost: f64 = cycle(&mut redis, other).iter().sum();
            others.add(cost);
            ratio.add(cost / sum);
        }
    }
    let what =
        format!("Redis CPU of a job: put, pop, complete of qless, batches of {BATCH}, 80 bytes of data");
    row(&what, "<= 60", &whole, "us");
    for (name, step) in ["put", "pop", "complete"].into_iter().zip(steps) {
        row(&format!("&nbsp; of it: {name}"), "", &step, "us");
    }
    if other.is_some() {
        row("&nbsp; the same by the other script", "", &others, "us");
        row("&nbsp; against ours", "", &ratio, "x");
    }
}

/// The same by the commands of supervisors, which do more: leases, limits, statistics, events.
fn broker() {
    let server = RedisServer::start();
    let mut redis = server.connect();
    let (mut steps, mut whole) = (<[Figures; 3]>::default(), Figures::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let broker =
        Broker::from(Qless::open(&server.url(), "the bench's", Options::default()).expect("a broker"));
    for _ in 0..ROUNDS {
        let costs = runtime.block_on(own_cycle(&broker, &mut redis));
        steps.iter_mut().zip(costs).for_each(|(step, cost)| step.add(cost));
        whole.add(costs.iter().sum());
    }
    let what = format!("Redis CPU of a job: put, fetch, settle of a supervisor, batches of {BATCH}");
    row(&what, "", &whole, "us");
    for (name, step) in ["put", "fetch", "settle"].into_iter().zip(steps) {
        row(&format!("&nbsp; of it: {name}"), "", &step, "us");
    }
}

/// CPU time in microseconds of put, fetch and settle per job.
async fn own_cycle(broker: &Broker, redis: &mut Connection) -> [f64; 3] {
    let mut used = [cpu(redis); 4];
    for _ in 0..JOBS / BATCH {
        let job = NewJob { id: None, payload: Payload::Data(DATA.into()), ..scene::job("") };
        broker.put(vec![job; BATCH]).await.expect("a put");
    }
    used[1] = cpu(redis);
    let mut fetched = Vec::new();
    for _ in 0..JOBS / BATCH {
        fetched.extend(broker.fetch(scene::request(&["q"], BATCH as u16)).await.expect("jobs"));
    }
    assert_eq!(fetched.len(), JOBS);
    used[2] = cpu(redis);
    for batch in fetched.chunks(BATCH) {
        let settle = batch.iter().map(|one| scene::settlement(&one.lease, scene::complete()));
        broker.settle(settle.collect()).await.expect("settled");
    }
    used[3] = cpu(redis);
    std::array::from_fn(|step| (used[step + 1] - used[step]) / JOBS as f64)
}

/// CPU time in microseconds of put, pop and complete per job.
fn cycle(redis: &mut Connection, sha: &str) -> [f64; 3] {
    let _: Value = redis::cmd("FLUSHALL").query(redis).expect("an empty store");
    // Random ids like those of clients: similar texts make Lua's string table slow.
    const SCATTER: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    let jids: Vec<String> = (1..=JOBS as u128).map(|n| format!("{:032x}", n.wrapping_mul(SCATTER))).collect();
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

/// CPU time of the server so far, in microseconds.
fn cpu(redis: &mut Connection) -> f64 {
    let info: String = redis::cmd("INFO").arg("cpu").query(redis).expect("an account");
    let of = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)).expect("its line");
        line.trim().parse::<f64>().expect("a number")
    };
    (of("used_cpu_sys:") + of("used_cpu_user:")) * 1e6
}

/// An empty Python function in 2 processes, against Huey and against a minimal loop.
fn prefork() {
    const JOBS: usize = 5000;
    let server = RedisServer::start();
    let (mut redis, url) = (server.connect(), server.url());
    let mut figures = <[Figures; 8]>::default();
    for _ in 0..3 {
        let mut afresh = || {
            let _: Value = redis::cmd("FLUSHALL").query(&mut redis).expect("an empty store");
            let _: Value = redis::cmd("CONFIG").arg("RESETSTAT").query(&mut redis).expect("a fresh count");
        };
        afresh();
        let huey = python::huey(JOBS, "2", Some(&url));
        afresh();
        let (bare, bare_cpu) = python::bare(JOBS, &url);
        afresh();
        let own = python::round("nothing", JOBS, &["-m", "prefork", "-w", "2", "-b", &url]);
        let calls = calls_of(&mut redis, "evalsha");
        let round =
            [own.rate() / huey, own.rate() / bare, own.rate(), huey, bare, own.cpu_of_all(), bare_cpu];
        figures.iter_mut().zip(round).for_each(|(figures, figure)| figures.add(figure));
        figures[7].add(calls as f64 / JOBS as f64);
    }
    let [against_huey, against_bare, own, huey, bare, cpu, bare_cpu, calls] = &figures;
    row(
        "jobs/s of a Python no-op, prefork -w 2, against Huey on Redis, 2 processes",
        ">= 2",
        against_huey,
        "x",
    );
    row("the same against a bare BLMOVE + LREM loop in 2 processes", ">= 1.5", against_bare, "x");
    row("&nbsp; taskvisor", "", own, "/s");
    row("&nbsp; Huey", "", huey, "/s");
    row("&nbsp; bare loop", "", bare, "/s");
    row("CPU per job: keeper, supervisor and workers", "<= 0.15", cpu, "ms");
    row("&nbsp; bare loop", "", bare_cpu, "ms");
    row("round trips of the supervisor per job, puts too", "<= 2", calls, "");
}

/// An empty Python function in 2 processes, against an empty function of Node in 2 processes of BullMQ: a job at a time,
/// as ours, and 50, where its processes need not wait for Redis.
fn against_bullmq() {
    const JOBS: usize = 5000;
    let server = RedisServer::start();
    let (mut redis, url) = (server.connect(), server.url());
    let mut figures = <[Figures; 5]>::default();
    for _ in 0..3 {
        let mut afresh = || {
            let _: Value = redis::cmd("FLUSHALL").query(&mut redis).expect("an empty store");
        };
        afresh();
        let one = node::bullmq(JOBS, server.port, "1");
        afresh();
        let fifty = node::bullmq(JOBS, server.port, "50");
        afresh();
        let own = python::round("nothing", JOBS, &["-m", "prefork", "-w", "2", "-b", &url]).rate();
        let round = [own / one, own / fifty, own, one, fifty];
        figures.iter_mut().zip(round).for_each(|(figures, figure)| figures.add(figure));
    }
    let [against_one, against_fifty, own, one, fifty] = &figures;
    row("jobs/s of a Python no-op, prefork -w 2, against BullMQ, 2 processes", ">= 1.8", against_one, "x");
    row("the same against BullMQ with 50 jobs at a time in each process", "", against_fifty, "x");
    row("&nbsp; taskvisor", "", own, "/s");
    row("&nbsp; BullMQ", "", one, "/s");
    row("&nbsp; BullMQ, 50 at a time", "", fifty, "/s");
}

/// Number of calls of a command since the last RESETSTAT.
fn calls_of(redis: &mut Connection, command: &str) -> u64 {
    let stats: String = redis::cmd("INFO").arg("commandstats").query(redis).expect("an account");
    let prefix = format!("cmdstat_{command}:calls=");
    let line = stats.lines().find_map(|line| line.strip_prefix(&prefix));
    line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
}

/// Time from a cancel by another client to the death of the process.
fn cancel() {
    let server = RedisServer::start();
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "2", "-b", &server.url()]);
    let mut other = Scripted::new(&server, SCRIPT);
    let mut figures = Figures::default();
    for _ in 0..200 {
        std::fs::remove_file(sandbox.work("pid")).ok();
        let job = "echo $$ > .pid; mv .pid pid; exec sleep 1000";
        let jid = sandbox.put(&["sh", "-c", job]);
        wait_until("it runs", || sandbox.work("pid").exists());
        let pid =
            std::fs::read_to_string(sandbox.work("pid")).expect("its pid").trim().parse().expect("a pid");
        let said = wall_millis();
        let _: Value = other.call(&["cancel", &(said / 1e3).to_string(), &jid]);
        figures.add(support::end_of(pid) - said);
    }
    row("cancel by another client -> the process is dead (p99: <= 20)", "<= 5", &figures, "ms");
}

fn wall_millis() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs_f64() * 1e3
}

/// Time from a put by another client to the first line of the function.
fn latency() {
    let server = RedisServer::start();
    let sandbox = Sandbox::new(Setting::Root);
    let _running = python::start(&sandbox, &["-m", "prefork", "-w", "1", "-b", &server.url()]);
    let mut other = Scripted::new(&server, SCRIPT);
    let mut figures = Figures::default();
    for n in 0..200 {
        let jid = format!("job-{n}");
        std::thread::park_timeout(Duration::from_millis(20));
        let (now, sent) = ((wall_millis() / 1e3).to_string(), support::boottime());
        let _: Value = other.call(&["put", &now, "", "default", &jid, "stamp", "{}", "0"]);
        sandbox.ok(&["job", "wait", &jid]);
        let job = sandbox.json(&["job", "show", &jid, "--json"]);
        let stamp = job["result"].to_string().trim_matches('"').parse::<u64>();
        figures.add((stamp.unwrap_or_else(|_| panic!("a stamp in {job}")) - sent) as f64 / 1e6);
    }
    row("put by another client -> Python function called, idle prefork worker", "<= 3", &figures, "ms");
}

/// Redis commands of an idle supervisor.
fn idle() {
    const WHILE: Duration = Duration::from_secs(120);
    let server = RedisServer::start();
    let mut redis = server.connect();
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "8", "-b", &server.url()]);
    sandbox.ok(&["job", "wait", &sandbox.put(&["true"])]);
    std::thread::park_timeout(Duration::from_secs(5));
    let mut asked = || {
        let sent: u64 = ["evalsha", "time", "ping"].map(|name| calls_of(&mut redis, name)).iter().sum();
        let info: String = redis::cmd("INFO").arg("commandstats").query(&mut redis).expect("an account");
        let calls = |line: &str| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok();
        [sent, info.lines().filter_map(calls).sum()]
    };
    let before = asked();
    std::thread::park_timeout(WHILE);
    let after = asked();
    let rate = |n: usize| Figures::of((after[n] - before[n]) as f64 / WHILE.as_secs_f64());
    row("idle, -w 8: commands a second that the supervisor sends", "<= 0.2", &rate(0), "");
    row("&nbsp; those that the script runs for them included", "", &rate(1), "");
}
