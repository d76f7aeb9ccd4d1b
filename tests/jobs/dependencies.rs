//! Dependencies and edits of jobs, with the real binary: by a supervisor and without one.

use crate::sandbox::{Sandbox, in_all_settings, wait_until};
use serde_json::json;

fn put(sandbox: &Sandbox, options: &[&str]) -> String {
    let args = [&["put"], options, &["--", "true"]].concat();
    sandbox.ok(&args).trim().to_owned()
}

/// Every edit of a waiting job; the same with and without a supervisor.
fn check_edits(sandbox: &Sandbox) {
    let ok = |args: &[&str]| sandbox.ok(args);
    for id in ["a", "b"] {
        assert_eq!(put(sandbox, &["--jid", id, "--delay", "1h"]), id);
    }
    put(sandbox, &["--jid", "c", "--depends", "a,b", "--delay", "2h", "--tag", "x"]);
    assert_eq!(put(sandbox, &["--jid", "a", "--exists", "skip"]), "a");
    assert_eq!(sandbox.refused(&["put", "--jid", "a", "--", "true"]).0, 1);
    let shown = ok(&["job", "show", "c"]);
    assert!(shown.contains("\nneeds       a (delayed), b (delayed)\n"), "{shown}");
    assert!(ok(&["job", "show", "a"]).contains("\nneeded by   c\n"));
    let why = ok(&["why", "job", "c"]);
    assert!(why.starts_with("It waits until a (delayed), b (delayed) are complete.\n"), "{why}");
    let circle = sandbox.refused(&["job", "depends", "a", "on", "c"]);
    assert_eq!(circle.0, 2, "{}", circle.1);
    assert!(circle.1.contains("'a' needs 'c' needs 'a'"), "{}", circle.1);
    assert_eq!(ok(&["job", "depends", "a", "on", "b", "--json"]), "{\"id\":\"a\",\"state\":\"depends\"}\n");
    assert_eq!(ok(&["job", "depends", "a", "off", "--all"]), "a delayed\n");
    assert_eq!(sandbox.refused(&["job", "depends", "a", "off", "--all"]).0, 1);
    assert_eq!(sandbox.refused(&["job", "depends", "a", "on", "--all"]).0, 2);
    assert_eq!(ok(&["job", "priority", "a", "b", "-7"]), "a priority -7\nb priority -7\n");
    assert_eq!(sandbox.job("a")["priority"], -7);
    assert_eq!(sandbox.refused(&["job", "priority", "a", "3000000000"]).0, 2);
    assert_eq!(
        ok(&["job", "tag", "c", "add", "y", "z", "--json"]),
        "{\"id\":\"c\",\"tags\":[\"x\",\"y\",\"z\"]}\n"
    );
    assert_eq!(ok(&["job", "tag", "c", "remove", "x"]), "c y z\n");
    let ids = |args: &[&str]| {
        let jobs = sandbox.lines(&[&["job", "list", "--json"], args].concat());
        jobs.iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&["--tag", "z"]), ["c"]);
    assert_eq!(sandbox.refused(&["job", "list", "--tag", "x"]).0, 7, "no job has that tag any more");
    assert_eq!(ok(&["job", "track", "a", "c"]), "a tracked\nc tracked\n");
    assert_eq!(ids(&["--tracked"]), ["c", "a"]);
    ok(&["job", "untrack", "a", "--json"]);
    assert_eq!(ids(&["--tracked"]), ["c"]);
    check_ends(sandbox);
}

/// `c` needs `a` and `b`; none of them runs.
fn check_ends(sandbox: &Sandbox) {
    let ok = |args: &[&str]| sandbox.ok(args);
    let output = sandbox.run(&["job", "cancel", "a", "x", "b"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(1), true));
    let expected = "error: job 'a' cannot be canceled: 'c' needs it\nhint: taskvisor job cancel --dependents a ends them too\n\
                    error: no job has the id 'x'\n";
    assert!(said.starts_with(expected), "{said}");
    assert_eq!(sandbox.refused(&["job", "discard", "a"]).0, 1);
    assert_eq!(ok(&["job", "cancel", "--dependents", "a"]), "a canceled\nc canceled\n");
    let one = "{\"id\":\"b\",\"state\":\"canceled\"}\n";
    assert_eq!(ok(&["job", "cancel", "--wait", "--json", "b"]), one);
    assert_eq!(ok(&["job", "discard", "a", "b", "c"]), "a discarded\nb discarded\nc discarded\n");
    assert_eq!(sandbox.refused(&["job", "show", "a"]).0, 7);
    for (args, words) in [
        (&["job", "retry", "--failed", "--queue", "nope"][..], "no queue is called 'nope'"),
        (&["job", "discard", "--complete", "--queue", "nope", "--dry-run"], "no queue is called 'nope'"),
        (&["job", "list", "--queue", "nope"], "no queue is called 'nope'"),
        (&["job", "list", "--recurring", "nope"], "no recurring job is called 'nope'"),
    ] {
        let (code, said) = sandbox.refused(args);
        assert!(code == 7 && said.contains(words), "{args:?}: {code} {said}");
    }
    for (wrong, code, words) in [
        (&["--depends", "none"][..], 7, "a job cannot depend on 'none': no job has that id"),
        (&["--jid", "a", "--depends", "a"], 2, "job 'a' cannot depend on itself"),
        (&["--jid", ""], 2, "a job's id cannot be empty"),
        (&["--tag", "a\u{7}b"], 2, "a tag cannot have control characters in it: \"a\\u{7}b\""),
        (&["--delay", "99999d"], 2, "too long"),
    ] {
        let refusal = sandbox.refused(&[&["put"], wrong, &["--", "true"]].concat());
        assert!(refusal.0 == code && refusal.1.contains(words), "{wrong:?}: {refusal:?}");
    }
}

#[test]
fn edits_work_without_a_supervisor() {
    check_edits(&Sandbox::new(crate::sandbox::Setting::Plain));
}

#[test]
fn edits_work_with_a_supervisor() {
    let sandbox = Sandbox::new(crate::sandbox::Setting::Root);
    let _running = sandbox.start(&["-w", "1"]);
    check_edits(&sandbox);
}

#[test]
fn dependencies_run_before_their_dependents() {
    in_all_settings(|sandbox| {
        let _running = sandbox.start(&["-w", "3"]);
        let log = sandbox.work("log");
        let say = |word: &str| format!("echo {word} >>{}", log.display());
        let go = sandbox.work("go");
        let wait = format!("until [ -e {} ]; do sleep 0.01; done; {}", go.display(), say("first"));
        let first = sandbox.put(&["sh", "-c", &wait]);
        let depends = |on: &str, word: &str| {
            sandbox.ok(&["put", "--depends", on, "--", "sh", "-c", &say(word)]).trim().to_owned()
        };
        let second = depends(&first, "second");
        let third = depends(&format!("{first},{second}"), "third");
        wait_until("the first runs", || sandbox.state(&first) == "running");
        assert_eq!([sandbox.state(&second), sandbox.state(&third)], ["depends", "depends"]);
        std::fs::write(&go, "").unwrap();
        sandbox.ok(&["job", "wait", "--timeout", "40s", &third]);
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "first\nsecond\nthird\n");
    });
}

#[test]
fn why_names_a_failed_dependency_and_how_to_retry_it() {
    let sandbox = Sandbox::new(crate::sandbox::Setting::Root);
    let _running = sandbox.start(&["-w", "1"]);
    let failed = sandbox.put(&["false"]);
    let waits = put(&sandbox, &["--depends", &failed]);
    assert_eq!(sandbox.run(&["job", "wait", &failed]).status.code(), Some(1));
    let why = sandbox.ok(&["why", "job", &waits]);
    assert!(
        why.contains(&format!("It waits for job {failed}, which is failed: taskvisor job retry {failed}")),
        "{why}"
    );
    assert_eq!(sandbox.ok(&["job", "depends", &waits, "off", &failed]), format!("{waits} waiting\n"));
    sandbox.ok(&["job", "wait", "--timeout", "40s", &waits]);
}

#[test]
fn cancel_wait_ends_a_running_job_and_its_dependents() {
    let sandbox = Sandbox::new(crate::sandbox::Setting::Root);
    let _running = sandbox.start(&["-w", "1"]);
    let runs = sandbox.put(&["sleep", "1000"]);
    let waits = put(&sandbox, &["--depends", &runs]);
    wait_until("it runs", || sandbox.state(&runs) == "running");
    let ended = sandbox.ok(&["job", "cancel", "--wait", &waits, &runs]);
    assert_eq!(ended, format!("{waits} canceled\n{runs} canceled\n"));
    assert!(sandbox.job_processes().is_empty());
}

fn check_stages(mode: &str) {
    let sandbox = crate::python::new();
    let queues = ["-w", "2", "-q", "default", "-q", "encode"];
    let _running = crate::python::start(&sandbox, mode, "app", &queues);
    let jid = crate::python::put(&sandbox, "stages", "{\"first\": 1}");
    let job = crate::python::ended(&sandbox, &jid);
    assert_eq!(
        (&job["state"], &job["queue"], &job["attempt"]),
        (&json!("complete"), &json!("encode"), &json!(1))
    );
    assert_eq!(crate::python::result(&job), json!([jid, 1, {"first": 1}]));
    let advanced =
        job["history"].as_array().unwrap().iter().find(|entry| entry["kind"] == "advanced").unwrap();
    let (from, result) = (&advanced["from_queue"], &advanced["result"]);
    assert_eq!((from, result), (&json!("default"), &json!(["helper", "helper"])), "{job}");
    assert_eq!(sandbox.state("helper"), "complete");
    assert!(sandbox.ok(&["job", "show", &jid]).contains("advanced from queue default to queue encode"));
}

#[test]
fn function_advances_its_job_to_another_queue_prefork() {
    check_stages("prefork");
}

#[test]
fn function_advances_its_job_to_another_queue_fork() {
    check_stages("fork");
}

#[test]
fn function_advances_its_job_to_another_queue_coroutine() {
    check_stages("coroutine");
}
