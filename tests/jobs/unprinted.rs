//! Commands whose stdout is full.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::Stdio;

use crate::sandbox::{Sandbox, Setting, is_root};

/// Runs a verb whose stdout is full; returns its exit code and stderr.
fn unprinted(sandbox: &Sandbox, args: &[&str], input: &[u8]) -> (Option<i32>, String) {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut verb = sandbox.command(args);
    let mut verb = verb.stdin(Stdio::piped()).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    verb.stdin.take().unwrap().write_all(input).unwrap();
    let output = verb.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn ids_that_cannot_go_to_stdout_go_to_stderr() {
    let sandbox = Sandbox::new(if is_root() { Setting::Root } else { Setting::Plain });
    let stdout = "caused by: failed to write to stdout\ncaused by: No space left on device";
    let (code, said) = unprinted(&sandbox, &["put", "--", "true"], b"");
    let id = sandbox.lines(&["job", "list", "--json"])[0]["id"].as_str().unwrap().to_owned();
    assert!(said.starts_with(&format!("error: failed to print the ids\n{stdout}")), "{said}");
    assert!(said.contains(&format!("hint: the job is queued as {id}: it need not be put again")), "{said}");
    assert_eq!(code, Some(74));

    let (code, said) = unprinted(&sandbox, &["put", "--lines", "--", "echo"], b"a\nb\nc\n");
    let jobs = sandbox.lines(&["job", "list", "--json"]);
    let queued = jobs.len() - 1;
    let first = jobs[queued - 1]["id"].as_str().unwrap();
    assert!(said.starts_with(&format!("error: failed to print the ids\n{stdout}")), "{said}");
    assert!(said.contains(first) && (queued != 3 || said.contains("hint: 3 jobs are queued")), "{said}");
    assert_eq!(code, Some(74));
}

#[test]
fn failed_write_to_stdout_is_reported_as_such() {
    let sandbox = Sandbox::new(if is_root() { Setting::Root } else { Setting::Plain });
    let _running = sandbox.start(&["-w", "1"]);
    let jid = sandbox.put(&["echo", "a"]);
    sandbox.ok(&["job", "wait", &jid]);
    for args in [&["status"][..], &["job", "list"], &["job", "show", &jid, "--json"], &["job", "logs", &jid]]
    {
        let (code, said) = unprinted(&sandbox, args, b"");
        let expected = "error: failed to write to stdout\ncaused by: No space left on device";
        assert!(code == Some(74) && said.starts_with(expected), "{args:?}: {code:?} {said}");
    }
}
