//! Commands with `--broker`, and their errors when the broker does not answer.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use crate::sandbox::{Sandbox, Setting, kill};
use crate::support::RedisServer;

fn count(sandbox: &Sandbox, url: &str) -> usize {
    sandbox.lines(&["--broker", url, "job", "list", "--json"]).len()
}

#[test]
fn command_with_another_broker_bypasses_the_supervisor() {
    let (sandbox, server) = (Sandbox::new(Setting::Root), RedisServer::start());
    let (own, other) = (server.url(), format!("redis://127.0.0.1:{}/1", server.port));
    let _running = sandbox.start(&["-w", "1", "--broker", &own]);
    let put =
        |url: &str| sandbox.ok(&["--broker", url, "put", "--delay", "1h", "--", "true"]).trim().to_owned();
    let there = put(&other);
    assert_eq!((count(&sandbox, &other), count(&sandbox, &own)), (1, 0));
    assert_eq!(sandbox.json(&["--broker", &other, "job", "show", &there, "--json"])["state"], "delayed");
    // The embedded store of the same state directory is another broker, too.
    let file = format!("sqlite:{}", sandbox.path("own.db").display());
    put(&file);
    assert_eq!((count(&sandbox, &file), count(&sandbox, &own)), (1, 0));
    for verb in [
        &["status"][..],
        &["status", "-q"],
        &["reload"],
        &["pause"],
        &["scale", "default", "2"],
        &["why", "slot", "default.1"],
    ] {
        let (code, said) = sandbox.refused(&[&["--broker", &other], verb].concat());
        assert_eq!(code, 2, "{verb:?}: {said}");
        assert!(said.contains(&format!("has its jobs in {own}, not in {other}")), "{said}");
    }
    // An alias of the URL means the same broker, and without `--broker` the supervisor's own is meant.
    let same = format!("valkey://127.0.0.1:{}", server.port);
    put(&same);
    sandbox.ok(&["put", "--delay", "1h", "--", "true"]);
    assert_eq!((count(&sandbox, &own), count(&sandbox, &other)), (2, 1));
    sandbox.ok(&["--broker", &same, "status"]);
}

/// The first put may have succeeded: a second put under the printed id leaves one job. With and without a supervisor.
#[test]
fn unanswered_put_prints_the_id_for_a_safe_second_put() {
    for by_supervisor in [true, false] {
        let (sandbox, server) = (Sandbox::new(Setting::Root), RedisServer::start());
        let url = server.url();
        let running = by_supervisor.then(|| sandbox.start(&["-w", "1", "--broker", &url]));
        let args = ["--broker", &url, "put", "--delay", "1h", "--lines", "--", "echo"];
        let mut child = sandbox
            .command(&args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut ids = BufReader::new(child.stdout.take().unwrap()).lines();
        writeln!(input, "one").unwrap();
        let first = ids.next().unwrap().unwrap();
        kill(server.pid() as i32, "STOP");
        writeln!(input, "two").unwrap();
        drop(input);
        assert_eq!(ids.next().map(Result::unwrap), None);
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(69), "{said}");
        let second = said.split("--jid ").nth(1).and_then(|rest| rest.split(' ').next()).expect(&said);
        assert!(said.contains("it may have been queued all the same") && second != first, "{said}");
        kill(server.pid() as i32, "CONT");
        let again = [
            "--broker", &url, "put", "--jid", second, "--exists", "skip", "--delay", "1h", "--", "echo",
            "two",
        ];
        assert_eq!(sandbox.ok(&again).trim(), second);
        assert_eq!(count(&sandbox, &url), 2);
        drop(running);
    }
}

/// The supervisor's call got no answer: a change may have been done all the same.
#[test]
fn unanswered_change_may_have_been_done_but_an_unanswered_query_not() {
    let (sandbox, server) = (Sandbox::new(Setting::Root), RedisServer::start());
    let url = server.url();
    let _running = sandbox.start(&["-w", "1", "--broker", &url]);
    let jid = sandbox.ok(&["put", "--delay", "1h", "--", "true"]).trim().to_owned();
    kill(server.pid() as i32, "STOP");
    let (code, said) = sandbox.refused(&["job", "cancel", &jid]);
    assert!(code == 69 && said.contains("it may have been done all the same"), "{code}: {said}");
    let (code, said) = sandbox.refused(&["job", "show", &jid]);
    assert!(code == 69 && !said.contains("it may have been done"), "{code}: {said}");
    kill(server.pid() as i32, "CONT");
}

/// A mistyped queue name is paused, too, so `pause` notes it.
#[test]
fn pausing_a_queue_that_never_had_a_job_is_noted() {
    let (sandbox, server) = (Sandbox::new(Setting::Root), RedisServer::start());
    for broker in [server.url(), format!("sqlite:{}", sandbox.path("own.db").display())] {
        sandbox.ok(&["-b", &broker, "put", "-q", "mail", "--", "true"]);
        for (queue, is_new) in [("mail", false), ("nosuch", true), ("nosuch", false)] {
            let output = sandbox.run(&["-b", &broker, "queue", "pause", queue]);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}");
            assert_eq!(said.contains("no job was ever put into queue 'nosuch'"), is_new, "{queue}: {said}");
        }
        assert!(sandbox.json(&["-b", &broker, "queue", "list", "--json"])["nosuch"]["paused"].is_object());
        sandbox.ok(&["-b", &broker, "queue", "resume", "nosuch"]);
        sandbox.ok(&["-b", &broker, "queue", "forget", "nosuch"]);
    }
}
