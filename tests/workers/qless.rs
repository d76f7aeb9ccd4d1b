//! Unmodified classes of qless-py: their input, their outcomes and their faults.

use std::fs;

use serde_json::{Value, json};

use crate::python::{self, counts, ended, run, word};
use crate::sandbox::{Running, Sandbox, alive, wait_until};

/// A pool that runs classes of qless.
fn start<'a>(sandbox: &'a Sandbox, options: &[&str]) -> Running<'a> {
    let env = format!("PYTHONPATH={}", python::path());
    let args = ["--env", &env, "--env", "PYTHONDONTWRITEBYTECODE=1", "--grace", "1s"];
    let command = ["--", "python3", "-m", "taskvisor.qless", "-m", "qless_jobs"];
    sandbox.start(&args.iter().chain(options).chain(&command).copied().collect::<Vec<_>>())
}

fn put(sandbox: &Sandbox, queue: &str, class: &str, data: &str) -> String {
    sandbox.ok(&["put", queue, class, data]).trim().to_owned()
}

fn log(sandbox: &Sandbox, job: &Value) -> String {
    sandbox.ok(&["job", "logs", job["id"].as_str().unwrap()])
}

/// Runs a job that makes these calls about its end; returns its record and its log.
fn say(sandbox: &Sandbox, words: &Value) -> (Value, String) {
    let job = run(sandbox, "qless_jobs.Words", &json!({ "words": words }).to_string());
    let log = log(sandbox, &job);
    (job, log)
}

fn group(job: &Value) -> &str {
    job["failure"]["group"].as_str().unwrap_or_default()
}

#[test]
fn qless_class_runs_in_each_mode_by_the_method_of_its_queue() {
    for mode in ["prefork", "fork", "coroutine"] {
        let sandbox = python::new();
        let _running = start(&sandbox, &["-m", mode, "-w", "1", "-q", "mail", "-q", "other"]);
        for (queue, said) in [("mail", "mail to ann\n"), ("other", "processed in other for ann\n")] {
            let job = ended(&sandbox, &put(&sandbox, queue, "qless_jobs.Mail", r#"{"to": "ann"}"#));
            assert_eq!((&job["state"], counts(&job)), (&json!("complete"), [1, 0, 0]), "{mode}: {job}");
            assert_eq!(log(&sandbox, &job), said, "{mode}");
        }
    }
}

#[test]
fn data_of_a_job_survives_moves_between_queues() {
    let sandbox = python::new();
    let _running = start(&sandbox, &["-w", "1", "-q", "download", "-q", "encode"]);
    let job = ended(&sandbox, &put(&sandbox, "download", "qless_jobs.Film", r#"{"path": "a.mkv"}"#));
    assert_eq!((&job["state"], &job["queue"]), (&json!("complete"), &json!("encode")), "{job}");
    assert_eq!(log(&sandbox, &job), "waiting\nencodes 5 bytes\n");
    assert_eq!(job["data"], json!({"done": true}));
    let moves = job["history"].as_array().unwrap().iter();
    let moves: Vec<_> = moves.map(|entry| (&entry["from_queue"], &entry["to_queue"])).collect();
    assert!(moves.contains(&(&json!("download"), &json!("encode"))), "{job}");
}

#[test]
fn job_that_cannot_run_fails_for_good_with_the_group_of_qless() {
    let sandbox = python::new();
    fs::write(sandbox.work("broken_jobs.py"), "import qless\n\n1 / 0\n").unwrap();
    let _running = start(&sandbox, &["-w", "1"]);
    let cases = [
        ("qless_jobs.Missing", "{}", "default-AttributeError", "has no attribute 'Missing'"),
        ("no_such_module.Class", "{}", "default-ModuleNotFoundError", "No module named 'no_such_module'"),
        ("broken_jobs.Class", "{}", "default-ZeroDivisionError", "division by zero"),
        ("qless_jobs.Empty", "{}", "default-method-missing", "missing a method \"default\" or \"process\""),
        ("qless_jobs.Wrong", "{}", "default-method-type", "qless_jobs.Wrong.process is not static"),
        ("qless_jobs.Mail", "[1, 2]", "default-AttributeError", "'list' object has no attribute 'get'"),
        ("qless_jobs.Words", r#"{"words": [["raise", "why"]]}"#, "default-KeyError", "why"),
    ];
    for (class, data, expected, message) in cases {
        let job = run(&sandbox, class, data);
        assert_eq!((&job["state"], counts(&job)), (&json!("failed"), [1, 0, 0]), "{class}: {job}");
        assert_eq!(group(&job), expected, "{job}");
        assert!(job["failure"]["message"].as_str().unwrap().contains(message), "{job}");
        if class == "broken_jobs.Class" {
            let trace = job["failure"]["trace"].as_str().unwrap();
            assert!(trace.contains("broken_jobs.py\", line 3"), "{trace}");
        }
    }
    let job = run(&sandbox, "qless_jobs.Mail", r#"{"to": "ann"}"#);
    assert_eq!(job["state"], "complete", "the worker goes on: {job}");
}

#[test]
fn first_outcome_of_a_job_counts() {
    let sandbox = python::new();
    let _running = start(&sandbox, &["-w", "1"]);
    let (job, log) = say(&sandbox, &json!([["complete"], ["complete", "other"], ["fail", "g", "m"]]));
    assert_eq!(job["state"], "complete", "{job}");
    let refused = "QlessException: Complete(): Job ";
    assert!(log.starts_with("\"complete\"\n") && log.contains(refused), "{log}");
    assert_eq!(log.matches("is not currently running: complete\n").count(), 2, "{log}");
    let (job, log) = say(&sandbox, &json!([["complete"], ["raise", "late"]]));
    assert_eq!(job["state"], "complete", "{job}");
    assert!(log.contains("is complete by its own word, and then raised:") && log.contains("'late'"), "{log}");
    let (job, _) = say(&sandbox, &json!([["fail", "mine", "because"], ["complete"]]));
    assert_eq!(job["state"], "failed", "{job}");
    assert_eq!(job["failure"], json!({ "group": "mine", "message": "because" }));
    let silent = run(&sandbox, "qless_jobs.Silent", "{}");
    assert_eq!(silent["state"], "complete", "{silent}");
    assert!(self::log(&sandbox, &silent).contains("it is taken as complete"));
}

#[test]
fn retries_are_counted_as_in_qless() {
    let sandbox = python::new();
    let _running = start(&sandbox, &["-w", "1", "--retries", "2"]);
    let job = run(&sandbox, "qless_jobs.Tries", "{}");
    assert_eq!((&job["state"], counts(&job)), (&json!("failed"), [3, 0, 0]), "{job}");
    assert_eq!(group(&job), "failed-retries-default", "{job}");
    assert_eq!(log(&sandbox, &job), "left 2 2\nleft 2 1\nleft 2 0\n");
    let own = sandbox.ok(&["put", "--retries", "0", "default", "qless_jobs.Tries"]);
    let job = ended(&sandbox, own.trim());
    assert_eq!(log(&sandbox, &job), "left 0 0\n", "its own count: {job}");
}

#[test]
fn job_whose_process_exits_has_crashed_even_after_complete() {
    for mode in ["prefork", "fork"] {
        let sandbox = python::new();
        let _running = start(&sandbox, &["-m", mode, "-w", "1", "--retries", "0"]);
        let job = run(&sandbox, "qless_jobs.Dies", "{}");
        assert_eq!((&job["state"], counts(&job)), (&json!("failed"), [1, 1, 0]), "{mode}: {job}");
        assert_eq!(group(&job), "crashed", "{job}");
        let job = run(&sandbox, "qless_jobs.Mail", r#"{"to": "ann"}"#);
        assert_eq!(job["state"], "complete", "another worker: {job}");
    }
}

#[test]
fn canceled_job_is_killed_even_if_it_ignores_the_cancel() {
    for mode in ["prefork", "fork"] {
        let sandbox = python::new();
        let _running = start(&sandbox, &["-m", mode, "-w", "1"]);
        let jid = put(&sandbox, "default", "qless_jobs.Hangs", "{}");
        let pid: i32 = word(&sandbox, "hangs").parse().unwrap();
        sandbox.ok(&["job", "cancel", &jid]);
        let job = ended(&sandbox, &jid);
        assert_eq!(job["state"], "canceled", "{mode}: {job}");
        wait_until("its process is gone", || !alive(pid));
        let job = run(&sandbox, "qless_jobs.EndsItself", "{}");
        assert_eq!(job["state"], "canceled", "{mode}: {job}");
    }
}

#[test]
fn queries_of_a_job_go_through_the_supervisor() {
    for mode in ["prefork", "coroutine"] {
        let sandbox = python::new();
        let _running = start(&sandbox, &["-m", mode, "-w", "1"]);
        let job = run(&sandbox, "qless_jobs.Asks", "{}");
        // Prints and log lines arrive by two pipes, in either order.
        let (jid, said) = (job["id"].as_str().unwrap(), log(&sandbox, &job));
        assert!(said.contains("a line {\"n\": 1}\n"), "{mode}: {said}");
        let said = said.replacen("a line {\"n\": 1}\n", "", 1);
        let expected = format!(
            r#"["a", "b"]
["b"]
true
true
true
[true, [], "put", {{}}]
"child"
["scheduled", {{"from": "{jid}"}}, null]
QlessException: failed to put: a job with the id 'child' exists already
"child"
"#
        );
        assert!(said.starts_with(&expected), "{mode}: {said}");
        assert!(said.contains("depend() of job"), "{said}");
        let known = [&job["state"], &job["tags"], &job["tracked"], &job["priority"]];
        assert_eq!(known, [&json!("complete"), &json!(["b"]), &json!(true), &json!(7)], "{job}");
        assert_eq!(sandbox.state("child"), "canceled");
    }
}

#[test]
fn each_qless_job_finds_its_sandbox_empty() {
    let sandbox = python::new();
    let _running = start(&sandbox, &["-w", "1", "--sandbox"]);
    for _ in 0..2 {
        let job = run(&sandbox, "qless_jobs.Where", "{}");
        assert_eq!(log(&sandbox, &job), "[] True\n", "{job}");
    }
}
