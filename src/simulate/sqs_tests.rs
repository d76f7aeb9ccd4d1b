use super::*;
use crate::{Plan, Report, Workload, simulate};
use model::Order;

fn workload(text: &str) -> Workload {
    Workload::from_csv(text, Duration::ZERO).unwrap()
}

/// A run on a service that answers after 20 ms, with jobs that begin as soon as they are fetched.
fn run(work: &Workload, workers: u16, order: Order) -> Report {
    let plan = Plan { workers, order, latency: Duration::ZERO, sqs: Some(Sqs::default()), seed: 1 };
    simulate(work, &plan)
}

fn waits(report: &Report) -> Vec<(u128, u128)> {
    report.queues.iter().map(|queue| (queue.mean.as_millis(), queue.max.as_millis())).collect()
}

#[test]
fn job_waits_for_the_answer_to_an_open_poll() {
    let report = run(&workload("a,5,1\na,10,1\n"), 1, Order::Ordered);
    assert_eq!(waits(&report), [(10, 10)], "the poll is there already: only its answer takes time");
    let calls = report.calls.unwrap();
    assert_eq!((calls.receive, calls.empty, calls.delete), (2, 0, 2));
}

#[test]
fn job_that_comes_while_all_work_waits_for_a_receive_after_the_end() {
    let report = run(&workload("a,0,1\na,0.5,1\n"), 1, Order::Ordered);
    // The first one comes after 20 ms and works until 1.02 s; the receive that asks for the second takes 20 ms.
    assert_eq!(waits(&report), [(280, 540)]);
}

#[test]
fn queue_behind_waits_for_the_answers_of_those_ahead() {
    let report = run(&workload("a,9,1\nb,5,1\nc,0,1\n"), 1, Order::Ordered);
    let [_, _, first] = waits(&report)[..] else { panic!("three queues") };
    assert_eq!(first, (60, 60), "short answers of a and b, and the one of c");
}

#[test]
fn backlog_of_the_first_queue_comes_before_the_others() {
    let both = ["high,0,0.2\n", "low,0,0.2\n"].concat().repeat(60);
    let [high, low] = waits(&run(&workload(&both), 4, Order::Ordered))[..] else { panic!("two queues") };
    assert!(high.1 < 4_500 && low.0 > high.1, "{high:?} {low:?}");
}

#[test]
fn busy_fleet_shares_calls_and_an_idle_one_asks_three_times_a_minute() {
    let busy = run(&workload(&"a,0,0\n".repeat(2_000)), 12, Order::Ordered).calls.unwrap();
    assert!((0.19..0.25).contains(&busy.per_job), "{busy:?}");
    let idle = run(&workload("a,600,0\nb,0,0\n"), 1, Order::Ordered).calls.unwrap();
    assert!((58..=66).contains(&idle.empty), "{idle:?}");
}

#[test]
fn message_that_no_worker_takes_in_time_goes_back_and_is_not_lost() {
    // Short jobs make the receives bring ten; then one of a minute is among them, and its worker takes no other.
    let work = workload(&(["a,0,0.01\n".repeat(300), "a,0,60\n".into(), "a,0,0.01\n".repeat(40)].concat()));
    let report = run(&work, 1, Order::Ordered);
    assert_eq!(report.all.jobs, 341);
    assert!(report.calls.unwrap().hide > 3, "two renewals, and the messages: {:?}", report.calls);
}

#[test]
fn every_order_runs_every_job_and_the_same_seed_gives_the_same_report() {
    let text = "duration: 5m\nqueues:\n  a: {priority: 90, rate: 5/s, run_time: {mean: 300ms}}\n  b: {priority: 10, rate: 5/s, run_time: {median: 100ms, p95: 2s}}\n  c: {priority: 1, rate: 1/s, run_time: 1s}\n";
    let work = Workload::from_yaml(text, 3).unwrap();
    for order in Order::ALL {
        let report = run(&work, 6, order);
        assert_eq!(report, run(&work, 6, order));
        assert_eq!(report.all.jobs, work.jobs().len(), "{order:?}");
    }
}
