//! `job logs` by time, stream and attempt.

use std::os::unix::fs::PermissionsExt;

use crate::sandbox::{Sandbox, Setting, wait_until};

/// The lines of `--timestamps`: time, stream, text.
fn stamped(text: &str) -> Vec<(String, String, String)> {
    let line = |line: &str| {
        let mut parts = line.splitn(3, ' ').map(str::to_owned);
        (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap())
    };
    text.lines().map(line).collect()
}

#[test]
fn output_is_split_by_time_stream_and_attempt() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "1"]);
    // Each attempt waits for its files, so that the supervisor never reads two streams at the same moment.
    let script = "n=$TASKVISOR_ATTEMPT; echo out $n; until test -e a$n; do sleep 0.05; done; echo err $n >&2; \
                  until test -e b$n; do sleep 0.05; done; echo end $n; test $n = 2";
    let jid = sandbox.ok(&["put", "--retries", "1", "--", "sh", "-c", script]).trim().to_owned();
    let logs = |more: &[&str]| sandbox.ok(&[&["job", "logs", jid.as_str()], more].concat());
    let says = |words: &str| wait_until(words, || logs(&[]).ends_with(&format!("{words}\n")));
    for attempt in ["1", "2"] {
        says(&format!("out {attempt}"));
        sandbox.script(&format!("a{attempt}"), "");
        says(&format!("err {attempt}"));
        sandbox.script(&format!("b{attempt}"), "");
        says(&format!("end {attempt}"));
    }
    sandbox.ok(&["job", "wait", &jid]);
    assert_eq!(logs(&[]), "out 1\nerr 1\nend 1\nout 2\nerr 2\nend 2\n", "as it was printed");
    assert_eq!(logs(&["--stream", "stderr"]), "err 1\nerr 2\n");
    assert_eq!(logs(&["--stream", "stdout", "--attempt", "2"]), "out 2\nend 2\n");
    let lines = stamped(&logs(&["--timestamps"]));
    let streams: Vec<&str> = lines.iter().map(|line| line.1.as_str()).collect();
    assert_eq!(streams, ["stdout", "stderr", "stdout", "stdout", "stderr", "stdout"]);
    assert!(lines.windows(2).all(|two| two[0].0 <= two[1].0) && lines[0].0 < lines[5].0, "{lines:?}");
    assert_eq!(lines[4].2, "err 2");
    // `--since` is inclusive to the millisecond.
    assert_eq!(logs(&["--since", &lines[3].0]), "out 2\nerr 2\nend 2\n");
    assert_eq!(logs(&["--until", &lines[3].0]), "out 1\nerr 1\nend 1\n");
    let group = sandbox.path("state").join("logs").join(&jid[jid.len() - 2..]);
    let index = std::fs::metadata(group.join(format!("{jid}.idx"))).unwrap();
    assert_eq!((index.len(), index.permissions().mode() & 0o777), (6 * 16, 0o600));
    // Short output needs no index file, and still has its stream and time.
    let short = sandbox.put(&["echo", "hello"]);
    sandbox.ok(&["job", "wait", &short]);
    let one = stamped(&sandbox.ok(&["job", "logs", "-t", &short])).remove(0);
    assert_eq!((one.1.as_str(), one.2.as_str()), ("stdout", "hello"));
    assert!(one.0 > lines[5].0, "{one:?}");
    let group = sandbox.path("state").join("logs").join(&short[short.len() - 2..]);
    assert!(!group.join(format!("{short}.idx")).exists());
}

#[test]
fn a_job_is_followed_with_times_and_by_stream() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "1"]);
    let script = "echo out; until test -e go; do sleep 0.05; done; echo err >&2; echo end";
    let jid = sandbox.put(&["sh", "-c", script]);
    let heard = std::fs::File::create(sandbox.path("heard")).unwrap();
    let mut command = sandbox.command(&["job", "logs", "-f", "-t", "--stream", "stdout", &jid]);
    let mut follower = command.stdout(heard).spawn().unwrap();
    let told = || std::fs::read_to_string(sandbox.path("heard")).unwrap();
    wait_until("the first line is printed", || told().ends_with(" stdout out\n"));
    sandbox.script("go", "");
    assert!(follower.wait().unwrap().success());
    let lines = stamped(&told());
    let texts: Vec<&str> = lines.iter().map(|line| line.2.as_str()).collect();
    assert_eq!(texts, ["out", "end"]);
}

#[test]
fn emptied_output_keeps_its_streams_apart_while_it_is_followed() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "1"]);
    let script = "echo out 1; echo long error 1 >&2; until test -e go; do sleep 0.05; done; echo err 2 >&2; \
                  until test -e on; do sleep 0.05; done; echo out 2";
    let jid = sandbox.put(&["sh", "-c", script]);
    let logs = |stream: &str| sandbox.ok(&["job", "logs", "--stream", stream, &jid]);
    wait_until("both streams are written", || logs("stdout") + &logs("stderr") == "out 1\nlong error 1\n");
    let heard = std::fs::File::create(sandbox.path("heard")).unwrap();
    let mut command = sandbox.command(&["job", "logs", "-f", "--stream", "stdout", &jid]);
    let mut follower = command.stdout(heard).spawn().unwrap();
    let told = || std::fs::read_to_string(sandbox.path("heard")).unwrap();
    wait_until("it is followed", || told() == "out 1\n");
    let file = sandbox.path("state").join("logs").join(&jid[jid.len() - 2..]).join(format!("{jid}.log"));
    // As logrotate does with copytruncate.
    std::fs::File::options().write(true).open(&file).unwrap().set_len(0).unwrap();
    sandbox.script("go", "");
    wait_until("the job has printed more", || logs("stderr") == "err 2\n");
    sandbox.script("on", "");
    assert!(follower.wait().unwrap().success());
    assert_eq!(
        (told(), logs("stdout"), logs("stderr")),
        ("out 1\nout 2\n".into(), "out 2\n".into(), "err 2\n".into())
    );
}
