//! Lists longer than a page, by either way to the jobs.

use std::io::Write;
use std::process::Stdio;

use crate::sandbox::{Sandbox, Setting, is_root};
use taskvisor::model::*;

/// Puts so many jobs that nobody takes.
fn put(sandbox: &Sandbox, count: usize) {
    let mut put = sandbox.command(&["put", "--lines", "-q", "idle", "--", "true"]);
    let mut put = put.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let lines: String = (0..count).map(|n| format!("{n}\n")).collect();
    put.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    assert!(put.wait().unwrap().success());
}

#[test]
fn the_command_lists_all_with_and_without_a_supervisor() {
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
fn a_reader_that_has_seen_enough_ends_a_list_without_a_word() {
    let sandbox = Sandbox::new(if is_root() { Setting::Root } else { Setting::Plain });
    put(&sandbox, 1234);
    let mut list = sandbox.command(&["job", "list", "-n", "0"]);
    let mut list = list.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(list.stdout.take());
    let output = list.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
