use super::*;

fn workload(text: &str) -> Workload {
    Workload::from_csv(text, Duration::ZERO).unwrap()
}

fn plan(workers: u16, order: Order) -> Plan {
    Plan { workers, order, latency: Duration::ZERO, ..Plan::default() }
}

fn waits(report: &Report) -> Vec<(String, u128, u128)> {
    let millis = |queue: &Latency| (queue.name.clone(), queue.mean.as_millis(), queue.max.as_millis());
    report.queues.iter().map(millis).collect()
}

#[test]
fn a_job_waits_until_a_worker_is_free() {
    let work = workload("a,0,10\na,1,10\na,2,10\na,30,1\n");
    let one = simulate(&work, &plan(1, Order::Ordered));
    // The jobs wait 0, 9, 18 and 0 s.
    assert_eq!(waits(&one), [("a".into(), 6750, 18_000)]);
    assert_eq!((one.length.as_secs(), one.all.jobs), (31, 4));
    assert!((one.utilisation - 1.0).abs() < 1e-9);
    let two = simulate(&work, &plan(2, Order::Ordered));
    assert_eq!(waits(&two), [("a".into(), 2000, 8000)]);
    assert!((two.utilisation - 0.5).abs() < 1e-9);
    assert_eq!(waits(&simulate(&work, &plan(9, Order::Ordered))), [("a".into(), 0, 0)]);
}

#[test]
fn order_decides_which_queue_waits() {
    let mut work = workload("low,0,1\nlow,0,1\nlow,0,1\nhigh,0,1\nhigh,0,1\nhigh,0,1\n");
    let priorities = [("low".into(), 1), ("high".into(), 9)].into();
    work.set_priorities(&priorities).unwrap();
    let run = |order| waits(&simulate(&work, &plan(1, order)));
    assert_eq!(run(Order::Ordered), [("low".into(), 1000, 2000), ("high".into(), 4000, 5000)]);
    assert_eq!(run(Order::StrictPriority), [("low".into(), 4000, 5000), ("high".into(), 1000, 2000)]);
    assert_eq!(run(Order::RoundRobin), [("low".into(), 2000, 4000), ("high".into(), 3000, 5000)]);
    assert!(work.set_priorities(&[("mid".into(), 1)].into()).unwrap_err().message.contains("low, high"));
}

#[test]
fn drawn_queue_gives_its_whole_turn() {
    let text = |turn: &str| {
        format!(
            "duration: 10s\nqueues:\n  a: {{rate: 20/s, run_time: 1s{turn}}}\n  b: {{rate: 20/s, run_time: 1s{turn}}}\n"
        )
    };
    let longest = |turn: &str| {
        let work = Workload::from_yaml(&text(turn), 1).unwrap();
        let report = simulate(&work, &plan(1, Order::Random));
        waits(&report).iter().map(|(_, mean, _)| *mean).collect::<Vec<_>>()
    };
    // With a turn as long as the queue, one of both waits for all jobs of the other.
    let (even, odd) = (longest(""), longest(", turn: 10000"));
    assert!(even[0].abs_diff(even[1]) < 60_000, "{even:?}");
    assert!(odd[0].abs_diff(odd[1]) > 120_000, "{odd:?}");
}

#[test]
fn no_job_is_lost_and_the_same_seed_gives_the_same_report() {
    let text = "duration: 5m\nqueues:\n  a: {priority: 90, rate: 5/s, run_time: {mean: 300ms}}\n  b: {priority: 10, rate: 5/s, run_time: {median: 100ms, p95: 2s}}\n  c: {priority: 1, rate: 1/s, run_time: 1s}\n";
    let work = Workload::from_yaml(text, 3).unwrap();
    let run_time: f64 = work.jobs().iter().map(|job| job.run_time.as_secs_f64()).sum();
    for order in Order::ALL {
        let report = simulate(&work, &Plan { workers: 6, order, ..Plan::default() });
        assert_eq!(report, simulate(&work, &Plan { workers: 6, order, ..Plan::default() }));
        let jobs: usize = report.queues.iter().map(|queue| queue.jobs).sum();
        assert_eq!((jobs, report.all.jobs), (work.jobs().len(), work.jobs().len()), "{order:?}");
        let busy = report.utilisation * 6.0 * report.length.as_secs_f64();
        assert!((busy - run_time).abs() < 1e-3, "{order:?}: {busy} {run_time}");
        assert_eq!(report.calls, None, "no call has a price");
    }
}

#[test]
fn an_m_m_1_queue_waits_as_long_as_the_formula_says() {
    let text = "duration: 60000s\nqueues: {a: {rate: 7/s, run_time: {mean: 100ms}}}";
    let work = Workload::from_yaml(text, 5).unwrap();
    let report = simulate(&work, &plan(1, Order::Ordered));
    // Waits have the mean of rho / (mu - lambda): 0.7 / (10 - 7).
    let mean = report.all.mean.as_secs_f64();
    assert!((0.22..0.247).contains(&mean), "{mean}");
    assert!((0.69..0.71).contains(&report.utilisation), "{}", report.utilisation);
}

#[test]
fn a_lottery_serves_by_tickets_and_strict_priority_starves() {
    let mut work = workload(&["high,0,1\n", "low,0,1\n"].concat().repeat(500));
    work.set_priorities(&[("high".into(), 90), ("low".into(), 10)].into()).unwrap();
    let mean = |order| simulate(&work, &plan(1, order)).queues[1].mean.as_secs();
    assert_eq!(mean(Order::StrictPriority), 749);
    // All 500 jobs of high have run after 555 draws; 55 jobs of low ran among them.
    let shared = mean(Order::ReducedLottery);
    assert!((700..740).contains(&shared), "{shared}");
    // The oldest jobs of both queues have the same age, so the priority decides.
    assert_eq!(mean(Order::PriorityAging), 749);
}
