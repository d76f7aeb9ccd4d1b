//! Time of `taskvisor simulate` for a million jobs: `cargo bench --bench simulate`.
//!
//! `-- --against [NAME…]` holds its forecasts against the real program instead, on the fake of Amazon SQS of the tests:
//! five workloads of 30 s on four workers, and the fleet that a goal names. It needs Python and nearly idle processors.

#[path = "../tests/support/replay.rs"]
mod replay;
#[path = "../tests/support/sandbox.rs"]
mod sandbox;
#[path = "../tests/support/sqs/mod.rs"]
mod sqs;

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use model::Order;
use replay::{Pair, Replay, later, workload};
use sandbox::{Sandbox, Setting};
use simulate::{Plan, Workload, simulate};

/// Kale's five queues, which keep 40 workers busy for four fifths of the time.
const LOAD: &str = "\
duration: 10h
queues:
  highp: {priority: 100, rate: 6/s, run_time: {mean: 1s}}
  default: {priority: 75, rate: 8/s, run_time: {median: 500ms, p95: 3s}}
  large: {priority: 75, rate: 5/s, run_time: {mean: 2s}}
  digest: {priority: 70, rate: 5/s, run_time: {mean: 1s}}
  lowp: {priority: 1, rate: 4/s, run_time: {mean: 1s}}
";

const BURSTY: &str = "\
duration: 30s
queues:
  mail: {priority: 80, rate: 6/s, run_time: 150ms, burst: {every: 10s, lasts: 2s, times: 5}}
  reports: {priority: 5, rate: 4/s, run_time: {mean: 250ms}}
";

const HEAVY_TAIL: &str = "\
duration: 30s
queues:
  web: {priority: 50, rate: 10/s, run_time: {median: 60ms, p95: 900ms}}
  mail: {priority: 40, rate: 5/s, run_time: 200ms}
";

const LONG_CLASS: &str = "\
duration: 30s
queues:
  short: {priority: 90, rate: 10/s, run_time: {mean: 120ms}}
  long: {priority: 10, rate: 30/m, run_time: 4s}
";

const OVERLOAD: &str = "\
duration: 30s
queues:
  high: {priority: 90, rate: 7/s, run_time: 250ms}
  low: {priority: 5, rate: 8/s, run_time: {mean: 500ms}}
";

/// How long a call takes to the fake, as to the real service in the same region.
const CALL: Duration = Duration::from_millis(20);
/// What a forecast leaves out: the times between the end of a job and the next fetch, and what else the processors do.
const MOMENTS: Duration = Duration::from_millis(30);

fn main() {
    // Cargo adds an argument of its own.
    let args: Vec<String> = std::env::args().filter(|arg| arg != "--bench").collect();
    match args.iter().position(|arg| arg == "--against") {
        Some(at) => against(&args[at + 1..]),
        None => time(),
    }
}

fn time() {
    let begun = Instant::now();
    let workload = Workload::from_yaml(LOAD, 1).expect("a workload");
    let read = begun.elapsed();
    let plan = Plan { workers: 40, order: Order::ReducedLottery, ..Plan::default() };
    let report = simulate(&workload, &plan);
    let all = begun.elapsed();
    println!("{} jobs, 40 workers, {}", report.all.jobs, report.selector);
    println!("made the jobs in {read:.2?}, all in {all:.2?}; to reach: {:?}", Duration::from_secs(5));
}

fn against(named: &[String]) {
    let workloads: [(&str, Order, Workload); 5] = [
        ("bursty", Order::StrictPriority, workload(BURSTY, 7)),
        ("heavy_tail", Order::RoundRobin, workload(HEAVY_TAIL, 7)),
        // With another seed one job of 4 s, started a few ms later, moves the figures of the whole run.
        ("long_class", Order::HighestPriorityFirst, workload(LONG_CLASS, 8)),
        ("diurnal", Order::Ordered, diurnal()),
        ("overload", Order::StrictPriority, workload(OVERLOAD, 7)),
    ];
    for name in named.iter().filter(|name| *name != "goal") {
        assert!(workloads.iter().any(|(known, ..)| known == name), "no workload is called '{name}'");
    }
    let wanted = |name: &str| named.is_empty() || named.iter().any(|one| one == name);
    let latency = Replay::latency(CALL);
    println!("from a fetch to the start of its jobs: {latency:.1?}\n");
    println!("| workload | queue | jobs | figure | foretold | was | |\n|---|---|---|---|---|---|---|");
    let mut beyond = 0;
    for (name, order, workload) in workloads.into_iter().filter(|(name, ..)| wanted(name)) {
        let replay = Replay { workload, order, workers: 4, call: CALL, latency };
        let (foretold, seen) = (replay.foretold(), replay.run());
        for pair in Replay::pairs(&foretold, &seen) {
            // Chance moves the figures of few jobs further.
            let fits = pair.fits(if pair.jobs < 100 { 0.2 } else { 0.1 }, MOMENTS);
            beyond += usize::from(!fits);
            let Pair { queue, figure, jobs, foretold, real } = pair;
            let verdict = if fits { "" } else { "**beyond**" };
            println!("| {name} | {queue} | {jobs} | {figure} | {foretold:.3} s | {real:.3} s | {verdict} |");
        }
        let (jobs, calls) = (foretold.all.jobs, foretold.calls.expect("calls to SQS"));
        let told = |action: &str| seen.calls.get(action).copied().unwrap_or(0);
        let all = calls.receive + calls.empty + calls.delete + calls.hide + calls.count;
        let pairs = [
            ("calls", all, seen.calls.values().sum()),
            ("of them receive", calls.receive + calls.empty, told("ReceiveMessage")),
            ("of them delete", calls.delete, told("DeleteMessageBatch")),
        ];
        pairs.iter().for_each(|(what, foretold, real)| {
            println!("| {name} | all | {jobs} | {what} | {foretold} | {real} | |");
        });
    }
    if wanted("goal") {
        beyond += usize::from(!goal(latency));
    }
    assert_eq!(beyond, 0, "figures beyond 10 % (20 % of fewer than 100 jobs) and {MOMENTS:?}");
}

/// A day within 30 s: the rate swells to a peak that four workers cannot keep up with, and falls again.
fn diurnal() -> Workload {
    let mut table = String::new();
    for (queue, most, run_time) in [("mail", 14.0, 180), ("digest", 7.0, 350)] {
        let (mut at, mut due) = (0.0_f64, 0.0_f64);
        while at < 30.0 {
            let share = 0.5 - 0.5 * (at / 30.0 * std::f64::consts::TAU).cos();
            due += most * share * 0.001;
            at += 0.001;
            if due >= 1.0 {
                due -= 1.0;
                let _ = writeln!(table, "{queue},{at:.3},{run_time}ms");
            }
        }
    }
    later(&Workload::from_csv(&table, Duration::ZERO).expect("a table of jobs"))
}

/// The fleet that `taskvisor simulate --slo` names reaches the goal, and the next smaller one does not.
fn goal(latency: Duration) -> bool {
    const BELOW: f64 = 2.0;
    let sandbox = Sandbox::new(Setting::Plain);
    let replay = |workers| Replay {
        workload: workload(HEAVY_TAIL, 7),
        order: Order::StrictPriority,
        workers,
        call: CALL,
        latency,
    };
    let file = sandbox.path("jobs.csv");
    let mut table = String::new();
    let with = replay(1).workload;
    for job in with.jobs() {
        let (at, run_time) = (job.arrival.as_secs_f64(), job.run_time.as_secs_f64());
        let _ = writeln!(table, "{},{at},{run_time}", with.queues()[job.queue as usize].name);
    }
    fs::write(&file, table).expect("the table");
    let file = file.display().to_string();
    let latency = format!("{}ms", latency.as_millis());
    let asked = ["simulate", &file, "-b", "sqs", "--call", "20ms", "--latency", &latency, "--json"];
    let goal = ["-w", "1..16", "--slo", "mail<2s"];
    let order = ["--selector", "strict_priority", "--priority", "web=50", "--priority", "mail=40"];
    let said = sandbox.json(&[&asked[..], &goal, &order].concat());
    let runs = said["runs"].as_array().expect("runs");
    let named = runs.iter().find(|run| run["reached"] == true).expect("a fleet that is large enough");
    let named = u16::try_from(named["workers"].as_u64().expect("a number")).expect("a few");
    let p95 = |workers: u16| {
        let replay = replay(workers);
        let pairs = Replay::pairs(&replay.foretold(), &replay.run());
        let pair = pairs.into_iter().find(|pair| pair.queue == "mail" && pair.figure == "p95");
        let Pair { foretold, real, .. } = pair.expect("the queue of the goal");
        println!("| goal mail<2s, {workers} workers | mail | | p95 | {foretold:.3} s | {real:.3} s | |");
        real
    };
    p95(named) < BELOW && p95(named - 1) >= BELOW
}
