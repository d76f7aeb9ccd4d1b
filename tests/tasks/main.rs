//! Notifications that become jobs, with the real binary and workers in Python: a small application that inserts rows.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by a panic")]

#[path = "../support/python.rs"]
mod python;
#[path = "../support/redis.rs"]
mod redis_server;
#[path = "../support/sandbox.rs"]
mod sandbox;
#[path = "../support/sqs/mod.rs"]
mod sqs;

mod away;
mod brokers;
mod faults;
mod life;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use sandbox::{Running, Sandbox, alive, wait_until, wait_within};
use serde_json::{Value, json};

/// The application of the docs page, and classes that misbehave.
const MORE: &str = r#"

import os
import subprocess
import time


@job("Hang")
def hang(payload, **_):
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    with open(".pids", "w") as file:
        file.write(f"{os.getpid()} {child.pid}")
    os.rename(".pids", "pids")
    time.sleep(1000)


class Odd(Exception):
    """Cannot be pickled, and its text is no text."""

    def __init__(self):
        super().__init__(lambda: None, b"\xff")


@job("Odd")
def odd(payload, **_):
    raise Odd()
"#;

/// The block of the page that writes this file.
fn block(begins: &str) -> String {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/quantumleap.md")).unwrap();
    let (_, rest) = page.split_once(&format!("cat > {begins} <<'END'\n")).unwrap();
    rest.split_once("END\n").unwrap().0.to_owned()
}

/// Starts a supervisor with the application of the page and its changed settings.
fn start<'a>(sandbox: &'a Sandbox, change: impl FnOnce(String) -> String) -> Running<'a> {
    sandbox.start(&["-c", &configure(sandbox, change)])
}

/// Writes application and settings; returns the path of the settings.
fn configure(sandbox: &Sandbox, change: impl FnOnce(String) -> String) -> String {
    fs::write(sandbox.work("notify_insert.py"), block("notify_insert.py") + MORE).unwrap();
    let env = format!("env: {{set: {{PYTHONPATH: '{}', PYTHONDONTWRITEBYTECODE: '1'}}}}", python::path());
    let settings = block("wq.yaml").replace("env: {pass: [PYTHONPATH]}", &env);
    fs::write(sandbox.work("wq.yaml"), change(settings)).unwrap();
    sandbox.work("wq.yaml").display().to_string()
}

/// Sends a request over the socket; returns the answer.
fn answer_of(sandbox: &Sandbox, what: &str, headers: &[&str], body: &str) -> String {
    let mut stream = UnixStream::connect(sandbox.path("run/ctl.sock")).unwrap();
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = body.len();
    let request = format!("{what} HTTP/1.0\r\nhost: x\r\n{headers}content-length: {length}\r\n\r\n{body}");
    // In one piece: a route that refuses by the head alone may have answered and closed before the body.
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Sends a request; returns status and body.
fn ask(sandbox: &Sandbox, what: &str, headers: &[&str], body: &str) -> (u16, String) {
    let answer = answer_of(sandbox, what, headers, body);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// GETs JSON; asserts status 200.
#[track_caller]
fn get(sandbox: &Sandbox, path: &str, headers: &[&str]) -> Value {
    let (code, body) = ask(sandbox, &format!("GET {path}"), headers, "");
    assert_eq!(code, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error} in {body}"))
}

const LIST: &str = "/management/queue/notifications";

fn room(name: &str) -> String {
    json!({ "subscriptionId": "s", "data": [{ "id": name, "type": "Room", "t": { "value": 1.50 } }] })
        .to_string()
}

/// Posts a notification; returns the id of its task.
#[track_caller]
fn notify(sandbox: &Sandbox, headers: &[&str], body: &str) -> String {
    let (code, answer) = ask(sandbox, "POST /v1/tasks/notify", headers, body);
    assert_eq!(code, 200, "{answer}");
    serde_json::from_str::<Value>(&answer).unwrap()["task_id"].as_str().unwrap().to_owned()
}

fn rows(sandbox: &Sandbox) -> Option<u64> {
    let rows = Connection::open(sandbox.work("rows.db")).unwrap();
    rows.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
    rows.query_row("SELECT count(*) FROM entity", [], |row| row.get(0)).ok()
}

/// The number of tasks of the default tenant with this status.
fn count(sandbox: &Sandbox, status: &str) -> u64 {
    get(sandbox, &format!("{LIST}/count?taskStatus={status}"), &["fiware-servicepath: /"]).as_u64().unwrap()
}

#[test]
fn a_thousand_notifications_by_five_clients_are_a_thousand_rows() {
    let sandbox = python::new();
    let mut running = start(&sandbox, |settings| settings);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for client in 0..5 {
            let sandbox = &sandbox;
            scope.spawn(move || {
                for n in 0..200 {
                    let (code, answer) =
                        ask(sandbox, "POST /v2/notify", &[], &room(&format!("r{client}.{n}")));
                    assert_eq!((code, answer.as_str()), (200, "\"Notification successfully processed\""));
                }
            });
        }
    });
    let taken = began.elapsed();
    let have_succeeded = || count(&sandbox, "succeeded") == 1000;
    wait_within(Duration::from_secs(120), "all tasks have succeeded", have_succeeded);
    eprintln!("1,000 notifications: taken in after {taken:?}, rows after {:?}", began.elapsed());
    assert_eq!(rows(&sandbox), Some(1000));
    assert_eq!((count(&sandbox, "pending"), count(&sandbox, "failed")), (0, 0));
    let list = get(&sandbox, LIST, &[]);
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), 1000);
    assert!(list.iter().all(
        |task| task["runtime"]["status"] == "succeeded" && task["input"]["payload"][0]["type"] == "Room"
    ));
    assert_eq!(ask(&sandbox, &format!("DELETE {LIST}"), &[], "").0, 204);
    assert_eq!(get(&sandbox, LIST, &[]), json!([]));
    sandbox.ok(&["stop", "--now"]);
    running.wait();
}
