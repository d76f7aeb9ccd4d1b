//! Metrics and health.

use super::*;

/// The value of one sample.
fn sample(page: &str, key: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn metrics_count_jobs_and_queues() {
    in_all_settings(|sandbox| {
        let _running = sandbox.start(&["-w", "2"]);
        for _ in 0..3 {
            let jid = sandbox.put(&["true"]);
            sandbox.ok(&["job", "wait", &jid]);
        }
        let jid = sandbox.put(&["false"]);
        sandbox.run(&["job", "wait", &jid]);
        sandbox.ok(&["put", "-q", "other \"queue\"", "--", "true"]);
        let mut page = String::new();
        wait_until("all is counted", || {
            page = get(sandbox, "/metrics").1;
            sample(&page, "taskvisor_jobs_settled_total{pool=\"default\",verdict=\"complete\"}") == Some(3.0)
        });
        for (key, value) in [
            ("taskvisor_jobs_settled_total{pool=\"default\",verdict=\"failed\"}", 1.0),
            ("taskvisor_jobs_fetched_total{pool=\"default\"}", 4.0),
            ("taskvisor_queue_jobs{queue=\"default\",state=\"complete\"}", 3.0),
            ("taskvisor_queue_jobs{queue=\"other \\\"queue\\\"\",state=\"waiting\"}", 1.0),
            ("taskvisor_queue_unserved{queue=\"other \\\"queue\\\"\"}", 1.0),
            ("taskvisor_queue_unserved{queue=\"default\"}", 0.0),
            ("taskvisor_slots{pool=\"default\",state=\"busy\"}", 0.0),
            ("taskvisor_health{verdict=\"healthy\"}", 1.0),
            ("taskvisor_broker_trouble", 0.0),
            ("taskvisor_queue_wait_seconds_count{queue=\"default\"}", 4.0),
            ("taskvisor_queue_run_seconds_count{queue=\"default\"}", 3.0),
            ("taskvisor_queue_failures_total{queue=\"default\"}", 1.0),
            ("taskvisor_queue_failures_total{queue=\"other \\\"queue\\\"\"}", 0.0),
        ] {
            assert_eq!(sample(&page, key), Some(value), "{key}\n{page}");
        }
        for key in [
            "taskvisor_workers_started_total{pool=\"default\"}",
            "taskvisor_fetch_seconds_sum",
            "taskvisor_process_resident_bytes{process=\"keeper\"}",
            "taskvisor_process_resident_bytes{process=\"supervisor\"}",
            "taskvisor_process_open_descriptors{process=\"keeper\"}",
            "taskvisor_up_seconds",
            "taskvisor_store_wal_bytes",
        ] {
            assert!(sample(&page, key).is_some_and(|value| value > 0.0), "{key}\n{page}");
        }
        assert!(!page.contains(&jid), "no label is a job's");
    });
}

#[test]
fn metrics_keep_their_counts_across_reload_and_drop_removed_pools() {
    let sandbox = Sandbox::new(Setting::Plain);
    let write = |pools: &str| fs::write(sandbox.work("t.yaml"), format!("pools:\n{pools}")).unwrap();
    let run = |queue: &str| {
        let jid = sandbox.ok(&["put", "-q", queue, "--", "true"]);
        sandbox.ok(&["job", "wait", jid.trim()]);
    };
    let counted = |name: &str, pool: &str, more: &str| {
        sample(&get(&sandbox, "/metrics").1, &format!("taskvisor_{name}{{pool=\"{pool}\"{more}}}"))
    };
    let complete = |pool: &str| counted("jobs_settled_total", pool, ",verdict=\"complete\"");
    write("- {name: a, queues: [a]}\n- {name: b, queues: [b]}\n");
    let _running = sandbox.start(&["-c", "t.yaml"]);
    run("a");
    run("b");
    wait_until("both are counted", || (complete("a"), complete("b")) == (Some(1.0), Some(1.0)));
    let started = counted("workers_started_total", "a", "").unwrap();

    write("- {name: a, queues: [a], umask: '027'}\n- {name: c, queues: [c]}\n");
    sandbox.ok(&["reload"]);
    run("a");
    run("c");
    wait_until("the heir goes on, and the new one begins", || {
        (complete("a"), complete("c")) == (Some(2.0), Some(1.0))
    });
    wait_until("b is gone", || counted("slots", "b", ",state=\"ready\"").is_none());
    assert!(!get(&sandbox, "/metrics").1.contains("pool=\"b\""));
    assert!(counted("workers_started_total", "a", "").unwrap() > started);
    assert_eq!(counted("jobs_fetched_total", "c", ""), Some(1.0));

    write("- {name: b, queues: [b]}\n");
    sandbox.ok(&["reload"]);
    run("b");
    wait_until("it goes on where it was", || complete("b") == Some(2.0));
}

#[test]
fn metrics_count_worker_deaths_as_restarts_but_not_ends_of_programs() {
    let sandbox = Sandbox::new(Setting::Plain);
    let dies = sandbox.script("worker", "#!/bin/sh\nexit 1\n");
    let pools = format!("pools:\n- name: good\n- {{name: bad, command: {dies}, queues: [bad]}}\n");
    fs::write(sandbox.work("t.yaml"), pools).unwrap();
    let _running = sandbox.start_raw(&["-c", "t.yaml"]);
    for ends in ["exit 3", "kill -SEGV $$"] {
        let jid = sandbox.put(&["sh", "-c", ends]);
        wait_until("it has failed", || sandbox.state(&jid) == "failed");
    }
    let restarts = |pool: &str| {
        let page = get(&sandbox, "/metrics").1;
        sample(&page, &format!("taskvisor_worker_restarts_total{{pool=\"{pool}\"}}"))
    };
    wait_until("the worker that dies is counted", || restarts("bad").is_some_and(|count| count >= 2.0));
    assert_eq!(restarts("good").unwrap_or_default(), 0.0);
}

#[test]
fn readyz_is_ok_only_while_workers_take_jobs() {
    let sandbox = Sandbox::new(Setting::Plain);
    let refuses = sandbox.script("worker", "#!/bin/sh\nexit 1\n");
    let mut running = sandbox.start_raw(&["--", &refuses]);
    let mut answer = (String::new(), String::new());
    wait_until("it says why it is not ready", || {
        // Bound is not yet listening.
        if UnixStream::connect(sandbox.path("run/ctl.sock")).is_err() {
            return false;
        }
        answer = get(&sandbox, "/readyz");
        answer.1.contains("pool default")
    });
    assert_eq!(answer.0, "HTTP/1.1 503 Service Unavailable");
    assert!(answer.1.contains("no slot can take a job; pool default: "), "{}", answer.1);
    assert_eq!(get(&sandbox, "/livez").0, "HTTP/1.1 200 OK");
    running.signal("TERM");
    running.wait();

    let mut running = sandbox.start(&["--grace", "1s", "--stop-deadline", "30s"]);
    assert_eq!(get(&sandbox, "/readyz"), ("HTTP/1.1 200 OK".into(), "{}".into()));
    let jid = sandbox.put(&["sleep", "100"]);
    wait_until("it runs", || sandbox.state(&jid) == "running");
    running.signal("TERM");
    wait_until("it stops", || get(&sandbox, "/readyz").1.contains("it was ordered to stop"));
    assert_eq!(get(&sandbox, "/livez").0, "HTTP/1.1 200 OK");
    sandbox.ok(&["stop", "--kill"]);
    running.wait();
}

#[test]
fn status_shows_the_latest_counts_and_their_age_while_the_store_hangs() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "1"]);
    sandbox.ok(&["put", "-q", "never", "--", "true"]);
    let look = || {
        let status = sandbox.json(&["status", "--json"]);
        let waiting = status["queues"]["never"]["jobs"]["waiting"].clone();
        (waiting == 1, status["queues_age"].is_number(), status["broker_trouble"].clone())
    };
    wait_until("it is counted", || look() == (true, false, Value::Null));
    let store = rusqlite::Connection::open(sandbox.path("state/store.db")).unwrap();
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    wait_until("it is known to hang", || {
        let (as_before, is_old, trouble) = look();
        assert!(as_before && trouble.is_null(), "slowness of a moment is no trouble: {trouble}");
        is_old
    });
    assert!(sandbox.ok(&["status"]).contains(" ago; the broker has not counted since\n"));
    assert!(sandbox.ok(&["why", "pool", "default"]).contains("Its queues were last counted "));
    let page = get(&sandbox, "/metrics").1;
    assert!(!page.contains("queue=\"never\""), "a number that is not of now: {page}");
    wait_until("it is trouble", || {
        sample(&get(&sandbox, "/metrics").1, "taskvisor_broker_trouble") == Some(1.0)
    });
    store.execute_batch("ROLLBACK").unwrap();
    // Not before: a `put` waits for the lock only as long as it takes to be trouble.
    sandbox.ok(&["put", "-q", "never", "--", "true"]);
    wait_until("it counts again", || {
        let status = sandbox.json(&["status", "--json"]);
        status["queues"]["never"]["jobs"]["waiting"] == 2 && status["queues_age"].is_null()
    });
}
