//! Unmodified tasks of kale under the real supervisor.

use serde_json::{Value, json};

use crate::python::{self, ended};
use crate::sandbox::{Running, Sandbox, wait_until};

const STANDIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python/tests/kale_standin");

/// A pool that runs tasks of kale.
fn start<'a>(sandbox: &'a Sandbox, mode: &str) -> Running<'a> {
    let env = format!("PYTHONPATH={}:{STANDIN}", python::path());
    let args = [
        "-m",
        mode,
        "-w",
        "1",
        "-q",
        "mail",
        "--env",
        &env,
        "--env",
        "PYTHONDONTWRITEBYTECODE=1",
        "--env",
        "KALE_SETTINGS_MODULE=kale_jobs_settings",
        "--retries",
        "0",
    ];
    let command = ["--", "python3", "-m", "taskvisor.kale", "-m", "kale_jobs"];
    sandbox.start(&args.iter().chain(&command).copied().collect::<Vec<_>>())
}

fn run(sandbox: &Sandbox, name: &str, data: &str) -> (Value, String) {
    let jid = sandbox.ok(&["put", "mail", &format!("kale_jobs.{name}"), data]).trim().to_owned();
    let job = ended(sandbox, &jid);
    (job, sandbox.ok(&["job", "logs", &jid]))
}

#[test]
fn a_task_publishes_others_through_the_supervisor() {
    for mode in ["prefork", "fork"] {
        let sandbox = python::new();
        let _running = start(&sandbox, mode);
        let (job, _) = run(&sandbox, "SendAll", r#"{"kwargs": {"people": ["ann", "bob"]}}"#);
        assert_eq!(job["state"], "complete", "{mode}: {job}");
        let list = || sandbox.ok(&["job", "list", "--state", "complete", "--json"]);
        wait_until("both are sent", || list().matches("kale_jobs.Send\"").count() == 2);
        for line in list().lines().filter(|line| line.contains("kale_jobs.Send\"")) {
            let job: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            let log = sandbox.ok(&["job", "logs", job["id"].as_str().expect("an id")]);
            assert!(["to ann None\n", "to bob None\n"].contains(&log.as_str()), "{mode}: {log}");
        }
    }
}

#[test]
fn retries_of_kale_spend_no_attempt_of_the_pool() {
    let sandbox = python::new();
    let _running = start(&sandbox, "prefork");
    let (job, log) = run(&sandbox, "Fails", "{}");
    assert_eq!(
        (&job["state"], &job["failure"]["group"]),
        (&json!("failed"), &json!("ConnectionError")),
        "{job}"
    );
    // stdout and stderr are two pipes, so their order may differ.
    let times = |line: &str| log.lines().filter(|said| *said == line).count();
    assert_eq!(times("fails"), 3, "max_retries is 2: {log}");
    assert_eq!(times("taskvisor.kale: kale runs the task again after 0 s"), 2, "{log}");
    assert_eq!(times("ERROR kale.task: PERMANENT_TASK_FAILURE: FAILURE_TYPE=max_retries"), 1, "{log}");
    assert_eq!(python::counts(&job), [1, 0, 0], "{job}");
    let (job, _) = run(&sandbox, "Blacklisted", "{}");
    assert_eq!(job["failure"]["group"], "kale.exceptions.BlacklistedException", "{job}");
}
