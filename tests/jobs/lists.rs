//! Lists longer than a page, with and without a supervisor.

use std::io::Write;
use std::process::Stdio;

use crate::sandbox::{Sandbox, Setting, is_root};
use model::*;

/// Puts `count` jobs that no pool takes.
fn put(sandbox: &Sandbox, count: usize) {
    let mut put = sandbox.command(&["put", "--lines", "-q", "idle", "--", "true"]);
    let mut put = put.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let lines: String = (0..count).map(|n| format!("{n}\n")).collect();
    put.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    assert!(put.wait().unwrap().success());
}

#[test]
fn job_list_pages_through_all_jobs_with_and_without_a_supervisor() {
    let sandbox = Sandbox::new(if is_root() { Setting::Root } else { Setting::Plain });
    put(&sandbox, 1234);
    let lists = || {
        let all = sandbox.ok(&["job", "list", "-n", "0", "--json"]);
        let table = sandbox.ok(&["job", "list", "-n", "1000", "--state", "waiting,held"]);
        let ids = |text: &str| -> Vec<String> {
            text.lines().map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
        };
        let json: Vec<String> =
            all.lines().map(|line| serde_json::from_str::<JobRecord>(line).unwrap().id.to_string()).collect();
        assert_eq!(json.len(), 1234);
        assert_eq!(ids(&table)[0], "ID");
        assert_eq!(ids(&table)[1..], json[..1000]);
        let after = sandbox.ok(&["job", "list", "-n", "0", "--json", "--after", &json[1200]]);
        assert_eq!(after.lines().count(), 33);
        json
    };
    let without = lists();
    let _running = sandbox.start(&["-w", "1"]);
    assert_eq!(lists(), without);
}

#[test]
fn job_list_ends_silently_when_its_reader_closes_the_pipe() {
    let sandbox = Sandbox::new(if is_root() { Setting::Root } else { Setting::Plain });
    put(&sandbox, 1234);
    let mut list = sandbox.command(&["job", "list", "-n", "0"]);
    let mut list = list.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(list.stdout.take());
    let output = list.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
