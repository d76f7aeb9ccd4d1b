//! Time of `taskvisor simulate` for a million jobs: `cargo bench --bench simulate`.

use std::time::{Duration, Instant};

use taskvisor::model::Order;
use taskvisor::simulate::{Plan, Workload, simulate};

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

fn main() {
    let begun = Instant::now();
    let workload = Workload::from_yaml(LOAD, 1).expect("a workload");
    let read = begun.elapsed();
    let plan = Plan { workers: 40, order: Order::ReducedLottery, ..Plan::default() };
    let report = simulate(&workload, &plan);
    let all = begun.elapsed();
    println!("{} jobs, 40 workers, {}", report.all.jobs, report.selector);
    println!("made the jobs in {read:.2?}, all in {all:.2?}; to reach: {:?}", Duration::from_secs(5));
}
