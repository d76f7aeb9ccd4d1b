//! Results of jobs: `put --wait` and `job result`; `put --at`.

use std::time::Duration;

use crate::python;
use crate::sandbox::{Sandbox, Setting, is_root, wait_until};

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[test]
fn put_wait_prints_the_result_and_its_exit_code_gives_the_outcome() {
    if !is_root() {
        return;
    }
    let sandbox = python::new();
    let mut running = python::start(&sandbox, "prefork", "app", &["-w", "1"]);
    let done = sandbox.run(&["put", "--wait", "--timeout", "1m", "default", "echo", "{\"a\": [1]}"]);
    let (said, printed) = (text(done.stderr), text(done.stdout));
    assert!(done.status.success(), "{said}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&printed).unwrap()["data"]["a"][0], 1);
    let id = said.trim().strip_prefix("queued as ").unwrap();
    assert_eq!(
        sandbox.ok(&["job", "result", &id[..20]]),
        printed,
        "by the beginning of its id, the same bytes"
    );

    let failed = sandbox.run(&["put", "--wait", "default", "raises", "\"value\""]);
    let said = text(failed.stderr);
    assert_eq!((failed.status.code(), text(failed.stdout)), (Some(1), String::new()), "{said}");
    assert!(said.contains("is failed\ncaused by: ") && said.contains("hint: taskvisor job show"), "{said}");
    let id = said.lines().next().unwrap().strip_prefix("queued as ").unwrap();
    let (code, said) = sandbox.refused(&["job", "result", id]);
    assert!(code == 1 && said.contains("has no result: it is failed"), "{code} {said}");

    let ends = sandbox.lines(&["put", "--wait", "--json", "default", "echo", "7"]);
    assert_eq!((ends.len(), ends[0]["state"].as_str()), (1, Some("complete")));
    assert!(ends[0]["result"]["data"] == 7 && ends[0]["id"].is_string(), "{ends:?}");
    sandbox.ok(&["stop"]);
    assert!(running.wait().success());
}

#[test]
fn put_wait_with_lines_waits_for_all_jobs_and_a_timeout_leaves_them_running() {
    let sandbox = Sandbox::new(if is_root() { Setting::Root } else { Setting::Plain });
    let mut running = sandbox.start(&["-w", "2"]);
    let mut shell = std::process::Command::new("sh");
    let put = sandbox.command(&["put", "--wait", "--retries", "0", "--lines", "--", "test", "2", "-gt"]);
    shell.args(["-c", "printf '%s\\n' 1 2 3 | \"$@\"", "sh"]).arg(put.get_program()).args(put.get_args());
    for (name, value) in put.get_envs() {
        value.map(|value| shell.env(name, value));
    }
    let many = shell.current_dir(sandbox.path("work")).output().unwrap();
    let said = text(many.stderr);
    assert_eq!(many.status.code(), Some(1), "{said}");
    assert_eq!((said.matches("queued as").count(), said.matches(" is failed").count()), (3, 2), "{said}");

    let late = sandbox.run(&["put", "--wait", "--timeout", "1s", "--", "sleep", "1000"]);
    let said = text(late.stderr);
    assert_eq!(late.status.code(), Some(124), "{said}");
    let id = said.lines().next().unwrap().strip_prefix("queued as ").unwrap();
    assert!(said.contains(&format!("they go on; taskvisor why job {id}")), "{said}");
    let (code, said) = sandbox.refused(&["job", "result", id]);
    assert!(code == 1 && said.contains("it is running") && said.contains("job wait"), "{code} {said}");
    sandbox.ok(&["stop", "--kill"]);
    assert!(running.wait().success());
}

#[test]
fn put_at_a_time_delays_the_job_until_then() {
    let sandbox = Sandbox::new(if is_root() { Setting::Root } else { Setting::Plain });
    let at = jiff::Timestamp::now().checked_add(Duration::from_secs(5000)).unwrap();
    let here = at.to_zoned(jiff::tz::TimeZone::fixed(jiff::tz::offset(5))).strftime("%F %T").to_string();
    let put = |date: &str| {
        let mut put = sandbox.command(&["put", "--at", date, "--", "true"]);
        text(put.env("TZ", "XYZ-5").output().unwrap().stdout)
    };
    for date in [at.to_string(), here] {
        let due = sandbox.job(put(&date).trim())["due_at_ms"].as_i64().unwrap();
        assert!((due - at.as_millisecond()).abs() < 5000, "{date}: due {due}");
    }
    let (code, said) = sandbox.refused(&["put", "--at", "2020-01-01 18:00", "--", "true"]);
    assert!(code == 2 && said.contains("that is past"), "{said}");
    let (code, said) = sandbox.refused(&["put", "--at", "soon", "--", "true"]);
    assert!(code == 2 && said.contains("'2026-12-24 18:00'"), "{said}");
}

#[test]
fn depends_and_events_accept_the_beginning_of_a_job_id() {
    let sandbox = Sandbox::new(if is_root() { Setting::Root } else { Setting::Plain });
    let mut running = sandbox.start(&["-w", "1"]);
    let first = sandbox.ok(&["put", "--delay", "1h", "--", "true"]);
    let first = first.trim();
    let second = sandbox.ok(&["put", "--depends", &first[..20], "--", "true"]);
    assert_eq!(sandbox.job(second.trim())["depends"][0]["job"], first);
    let (code, said) = sandbox.refused(&["put", "--depends", "ffffff", "--", "true"]);
    assert!(code != 0 && said.contains("ffffff"), "{said}");

    let log = sandbox.path("events");
    let mut events = sandbox.command(&["events", "--job", &first[..20], "--json"]);
    let mut events = events.stdout(std::fs::File::create(&log).unwrap()).spawn().unwrap();
    let mut priority = 0;
    wait_until("an event of the job that was named", || {
        priority += 1;
        sandbox.ok(&["job", "priority", first, &priority.to_string()]);
        std::fs::read_to_string(&log).unwrap().contains(first)
    });
    sandbox.ok(&["stop"]);
    assert!(events.wait().unwrap().success() && running.wait().success());
}
