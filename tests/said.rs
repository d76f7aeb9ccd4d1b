//! What a supervisor reports about itself: its health, who paused it, and its log, with the real binary.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/http.rs"]
mod http;
#[path = "support/sandbox.rs"]
mod sandbox;

use std::fs;

use http::get;
use sandbox::{Sandbox, Setting, alive, is_root, kill, wait_until};
use serde_json::Value;

/// The author of the orders in these tests.
fn uid() -> String {
    let own =
        || String::from_utf8(std::process::Command::new("id").arg("-u").output().unwrap().stdout).unwrap();
    if is_root() { format!("uid {}", sandbox::plain_uid()) } else { format!("uid {}", own().trim()) }
}

fn start<'a>(sandbox: &'a Sandbox, text: &str) -> sandbox::Running<'a> {
    let file = sandbox.work("settings.yaml");
    fs::write(&file, text).unwrap();
    sandbox.start_raw(&["-c", file.to_str().unwrap()])
}

#[test]
fn drained_host_is_reported_with_its_author_in_status_api_metrics_and_log() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running =
        start(&sandbox, "pools: [{name: a, workers: 1, queues: [a]}, {name: b, workers: 1, queues: [b]}]\n");
    sandbox.wait_healthy();
    sandbox.ok(&["drain"]);
    let says = format!("all pools are paused by {} since ", uid());
    let is_said = || sandbox.reasons().contains(&says);
    assert!(is_said(), "{}", sandbox.reasons());
    assert_eq!(sandbox.run(&["status", "-q"]).status.code(), Some(5));
    let ready = get(&sandbox, "/readyz");
    assert!(ready.contains(&format!("pool a: it is paused by {}", uid())), "{ready}");
    let metrics = get(&sandbox, "/metrics");
    assert!(metrics.contains("taskvisor_pool_paused{pool=\"a\"} 1"), "{metrics}");
    let logged = || sandbox.stderr().contains("paused: all pools will take no more jobs until resumed");
    wait_until("the log has it", logged);
    let text = sandbox.ok(&["status", "--ascii"]);
    assert!(text.contains(&format!("paused by {} since", uid())), "{text}");
    let why = sandbox.ok(&["why", "slot", "a.1"]);
    assert!(why.contains(&format!("It has room for a job.\nPool a is paused by {}. ", uid())), "{why}");
    // The next supervisor still knows the author.
    let supervisor = sandbox.one("tv-supervisor");
    kill(supervisor, "KILL");
    wait_until("another one says it too", || !alive(supervisor) && is_said());
    sandbox.ok(&["resume", "a"]);
    let reasons = sandbox.reasons();
    assert!(
        reasons.contains(&format!("pool b is paused by {}", uid())) && !reasons.contains("pool a"),
        "{reasons}"
    );
    sandbox.ok(&["resume"]);
    sandbox.wait_healthy();
}

#[test]
fn service_whose_workers_never_get_ready_is_never_healthy() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = start(
        &sandbox,
        "pools: [{name: broken, workers: 2, mode: prefork, command: [sh, -c, 'sleep 0.2; exit 3']}]\n",
    );
    let restarts = |status: &Value| {
        let slots = status["pools"][0]["slots"].as_array().unwrap();
        slots.iter().map(|slot| slot["restarts"].as_u64().unwrap()).min().unwrap()
    };
    let mut looks = 0;
    wait_until("it was looked at many times", || {
        let output = sandbox.run(&["status", "--json"]);
        let Ok(status) = serde_json::from_slice::<Value>(&output.stdout) else { return false };
        let died = restarts(&status);
        if died > 0 {
            looks += 1;
            assert_eq!(status["health"], "unhealthy", "{status}");
        }
        looks > 20
    });
    let log = sandbox.stderr();
    let death = "a worker died before it was ready: exit 3; the next one starts in ";
    assert!(log.contains(death) && log.contains("pool=\"broken\""), "{log}");
    wait_until("the verdict is logged", || sandbox.stderr().contains("WARN unhealthy: "));
}

#[test]
fn log_has_orders_failures_start_and_end_but_no_successes() {
    let sandbox = Sandbox::new(Setting::Plain);
    let mut running = start(&sandbox, "pools: [{name: a, workers: 2}]\n");
    sandbox.wait_healthy();
    let good = sandbox.put(&["true"]);
    sandbox.ok(&["job", "wait", &good]);
    let bad: Vec<String> = (0..30).map(|_| sandbox.put(&["sh", "-c", "exit 4"])).collect();
    for jid in &bad {
        sandbox.run(&["job", "wait", jid]);
    }
    sandbox.ok(&["scale", "a", "3"]);
    sandbox.ok(&["queue", "pause", "mail", "--reason", "smtp down"]);
    let long = sandbox.put(&["sleep", "1000"]);
    wait_until("it runs", || sandbox.state(&long) == "running");
    running.signal("INT");
    wait_until("it says what it waits for", || sandbox.stderr().contains("a stop was ordered: "));
    running.signal("INT");
    running.wait();
    let log = sandbox.stderr();
    let has = |words: &str| assert!(log.contains(words), "no '{words}' in {log}");
    has("taskvisor 0.1.0 starts: 1 pool, jobs in sqlite:");
    has("pool a: fork, 2 workers, queues default pool=\"a\"");
    has(&format!("scaled: pool a will have 3 workers pool=\"a\" by=\"{}\"", uid()));
    has("a queue is paused: smtp down queue=\"mail\"");
    has("a stop was ordered: waits for 1 job until 20");
    has("Z, then sends TERM, and KILL at 20");
    has(&format!("put a job: taskvisor --run-dir {} put -- echo hello\n", sandbox.path("run").display()));
    has(&format!("Z (25s): {long}; another Ctrl-C"));
    has("by=\"SIGINT\"");
    has("TERM to 1 job, KILL at 20");
    has("1 complete, 30 failed, 1 released");
    assert!(!log.contains(&good), "{log}");
    let failed = log.matches("a job has failed for good: exit 4").count();
    assert_eq!(failed, 10, "the first of a minute stand: {log}");
}

#[test]
fn wait_says_what_keeps_a_job_from_running() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "1"]);
    let waits = |args: &[&str], says: &str| {
        let (code, said) = sandbox.refused(args);
        assert_eq!(code, 124, "{said}");
        assert!(said.contains(says), "no {says:?} in {said}");
    };
    let failed = sandbox.put(&["false"]);
    wait_until("it has failed", || sandbox.state(&failed) == "failed");
    let needs = sandbox.ok(&["put", "--depends", &failed, "--", "true"]);
    waits(
        &["job", "wait", "--timeout", "3s", needs.trim()],
        &format!("It waits for job {failed}, which is failed"),
    );
    sandbox.ok(&["queue", "pause", "default"]);
    waits(&["put", "--wait", "--timeout", "3s", "--", "true"], "Queue default was paused");
    sandbox.ok(&["queue", "resume", "default"]);
    sandbox.ok(&["pause", "default"]);
    waits(&["put", "--wait", "--timeout", "3s", "--", "true"], "Pool default is paused");
}

#[test]
fn put_into_another_store_names_the_supervisor_that_has_its_jobs_elsewhere() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "1"]);
    let other = format!("sqlite:{}", sandbox.work("other.db").display());
    let put = sandbox.run(&["-b", &other, "put", "--", "true"]);
    let said = String::from_utf8(put.stderr).unwrap();
    assert!(put.status.success() && said.contains("note: the supervisor on "), "{said}");
    assert!(said.contains("has its jobs in ") && !said.contains("no supervisor runs here"), "{said}");
}

#[test]
fn recurring_job_of_a_queue_that_no_pool_takes_is_put_with_a_note() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "1"]);
    let put = |queue: &str| {
        let args = ["recur", "put", queue, "--every", "1h", "-q", queue, "--", "true"];
        String::from_utf8(sandbox.run(&args).stderr).unwrap()
    };
    assert_eq!(put("default"), "");
    assert!(put("defualt").contains("no pool here takes jobs from queue 'defualt'"));
}

#[test]
fn supervisor_ends_after_the_set_number_of_jobs_though_more_wait() {
    let sandbox = Sandbox::new(Setting::Plain);
    let jobs: Vec<String> = (0..6).map(|_| sandbox.put(&["true"])).collect();
    let mut running = sandbox.start_raw(&["-w", "1", "--end-after", "2"]);
    assert_eq!(running.wait().code(), Some(0));
    let complete = jobs.iter().filter(|job| sandbox.state(job) == "complete").count();
    assert_eq!(complete, 2);
}

#[test]
fn tail_of_a_log_is_its_last_lines() {
    let sandbox = Sandbox::new(Setting::Plain);
    let job = sandbox.put(&["seq", "5"]);
    assert_eq!(sandbox.start_raw(&["-w", "1", "--burst"]).wait().code(), Some(0));
    assert_eq!(sandbox.ok(&["job", "logs", "-n", "2", &job]), "4\n5\n");
    assert_eq!(sandbox.ok(&["job", "logs", "-n", "1", "--stream", "stdout", &job]), "5\n");
}

#[test]
fn pool_of_one_is_healthy_and_ready_while_it_ends_a_canceled_job() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "1", "--grace", "3s"]);
    let job = sandbox.put(&["sh", "-c", "trap '' TERM; touch begun; while true; do sleep 0.1; done"]);
    wait_until("it runs", || sandbox.work("begun").exists());
    sandbox.ok(&["job", "cancel", &job]);
    let mut is_seen = false;
    wait_until("it is canceled", || {
        let status = sandbox.status();
        is_seen |= status["pools"][0]["slots"][0]["state"] == "stopping";
        assert_eq!(
            (&status["health"], get(&sandbox, "/readyz").as_str()),
            (&"healthy".into(), "{}"),
            "{status}"
        );
        sandbox.state(&job) == "canceled"
    });
    assert!(is_seen, "it was not looked at while it ended");
}
