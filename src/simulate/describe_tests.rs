use super::*;

fn read(text: &str) -> Workload {
    Workload::from_yaml(text, 7).unwrap()
}

fn refused(text: &str) -> String {
    Workload::from_yaml(text, 7).unwrap_err().to_string()
}

#[test]
fn description_generates_the_same_jobs_for_the_same_seed() {
    let text = "duration: 1000s\nqueues:\n  b: {priority: 9, rate: 10/s, run_time: 250ms}\n  a:\n    rate: 30/m\n    arrivals: regular\n    run_time: {mean: 2s}\n";
    let workload = read(text);
    assert_eq!(workload, read(text));
    assert_ne!(workload, Workload::from_yaml(text, 8).unwrap());
    let queues: Vec<_> =
        workload.queues().iter().map(|queue| (queue.name.as_str(), queue.priority)).collect();
    assert_eq!(queues, [("b", 9), ("a", 5)]);
    let of = |queue: u32| workload.jobs().iter().filter(move |job| job.queue == queue);
    // Ten times the standard deviation.
    assert!((9_000..11_000).contains(&of(0).count()), "{}", of(0).count());
    assert_eq!(of(1).count(), 499);
    assert!(of(0).all(|job| job.run_time == Duration::from_millis(250)));
    let sum: f64 = of(1).map(|job| job.run_time.as_secs_f64()).sum();
    assert!((1.5..2.5).contains(&(sum / 499.0)), "{sum}");
    assert!(workload.jobs().is_sorted_by_key(|job| job.arrival));
}

#[test]
fn two_quantiles_make_a_long_tail() {
    let text = "duration: 1000s\nqueues: {a: {rate: 20/s, run_time: {median: 100ms, p95: 1s}}}";
    let mut times: Vec<u128> = read(text).jobs().iter().map(|job| job.run_time.as_millis()).collect();
    times.sort_unstable();
    let at = |share: f64| times[(times.len() as f64 * share) as usize];
    assert!((90..110).contains(&at(0.5)) && (900..1100).contains(&at(0.95)), "{} {}", at(0.5), at(0.95));
}

#[test]
fn burst_multiplies_the_arrivals_while_it_lasts() {
    let text = "duration: 100s\nqueues: {a: {rate: 1/s, arrivals: regular, run_time: 1s, burst: {every: 50s, lasts: 5s, times: 10}}}";
    let workload = read(text);
    let in_burst = |job: &&SimulatedJob| job.arrival.as_secs_f64() % 50.0 <= 5.001;
    let bursts = workload.jobs().iter().filter(in_burst).count();
    assert!((98..=102).contains(&bursts), "{bursts}");
    assert!((187..=191).contains(&workload.jobs().len()), "{}", workload.jobs().len());
    // Also when a burst is shorter than the interval between jobs.
    let seldom = text.replace("1/s", "1/m").replace("times: 10", "times: 600");
    assert!((98..=103).contains(&read(&seldom).jobs().len()), "{}", read(&seldom).jobs().len());
}

#[test]
fn invalid_description_is_reported_with_its_line() {
    let of = |queue: &str| refused(&format!("duration: 10s\nqueues:\n  a:\n{queue}"));
    let cases = [
        (
            "    run_time: 1s\n    rate: 20\n",
            "line 5: queues.a: rate '20' is no number of jobs like 20/s, 90/m or 5/h",
        ),
        ("    run_time: 1s\n    rate: -1/s\n", "rate '-1/s' is no number of jobs"),
        (
            "    rate: 1/s\n    run_time: fast\n",
            "line 5: queues.a.run_time: 'fast' is no duration like 250ms",
        ),
        ("    rate: 1/s\n    run_time: {median: 2s, p95: 1s}\n", "a p95 not below it"),
        ("    rate: 1/s\n    run_time: {median: 2s}\n", "{mean: …}, or {median: …, p95: …}"),
        (
            "    rate: 1/s\n    run_time: 1s\n    turn: 0\n",
            "line 6: queues.a: turn '0' is no number from 1 to 10000",
        ),
        (
            "    rate: 1/s\n    run_time: 1s\n    priority: 101\n",
            "line 6: queues.a: priority '101' is no number from 1 to 100",
        ),
        ("    rate: 1/s\n    run_time: 1s\n    prio: 1\n", "unknown field `prio`"),
        ("    rate: 1/s\n", "missing field `run_time`"),
        (
            "    rate: 1/s\n    run_time: 1s\n    burst: {every: 5s, lasts: 5s, times: 2}\n",
            "last as long as from one",
        ),
        (
            "    rate: 1/s\n    run_time: 1s\n    burst: {every: 5s, lasts: 1s, times: -2}\n",
            "times '-2' is no number above 0",
        ),
        (
            "    rate: 1/s\n    run_time: 1s\n  a:\n    rate: 1/s\n    run_time: 1s\n",
            "queue `a` is described twice",
        ),
        ("    rate: 1/h\n    run_time: 1s\n    arrivals: regular\n", "no job comes within its duration"),
        ("    rate: 9999999999/s\n    run_time: 1s\n", "full in queue 'a': give a lower rate"),
    ];
    for (queue, expected) in cases {
        let found = of(queue);
        assert!(found.contains(expected), "{found}\n--\n{expected}");
    }
    assert!(refused("duration: 10\nqueues: {}\n").contains("'10' is no duration"));
    assert!(refused("queues: [").starts_with("line "));
}
