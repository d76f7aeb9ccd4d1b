//! The verbs against a fake supervisor: the real binary, a real socket, a fake service.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by a panic")]
#![allow(clippy::wildcard_enum_match_arm, reason = "what is not played is refused")]

#[path = "support/played.rs"]
mod played;

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use api::{Limits, router, serve};
use config::log_file;
use model::{JobRecord, JobState, NewJob, Payload};
use played::Played;
use serde_json::{Value, json};

struct Stage {
    played: Arc<Played>,
    dir: tempfile::TempDir,
}

impl Stage {
    /// Starts a fake supervisor; its thread ends with the test's process.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listener = std::os::unix::net::UnixListener::bind(dir.path().join("ctl.sock")).unwrap();
        listener.set_nonblocking(true).unwrap();
        let played = Arc::new(Played::default());
        let routes = router(played.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::UnixListener::from_std(listener).unwrap();
                serve(listener, routes, Limits::default(), |_| ()).await;
            });
        });
        Stage { played, dir }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_taskvisor"));
        command.args(args).env_clear().current_dir(self.dir.path());
        command.env("TASKVISOR_STATE_DIR", self.dir.path()).env("TASKVISOR_RUN_DIR", self.dir.path());
        command.stdin(Stdio::null());
        command
    }

    #[track_caller]
    fn check(&self, args: &[&str], code: i32, stdout: &str, stderr: &str) {
        shown(&self.command(args).output().unwrap(), code, stdout, stderr);
    }

    fn feed(&self, args: &[&str], input: &[u8], stdout: Stdio) -> Output {
        let mut child =
            self.command(args).stdin(Stdio::piped()).stdout(stdout).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap()
    }

    fn asked(&self) -> Vec<String> {
        self.played.asked.lock().unwrap().clone()
    }

    /// The command lines of all jobs put, and the sizes of the batches.
    fn put(&self) -> (Vec<Vec<Vec<u8>>>, Vec<usize>) {
        let batches = self.played.batches.lock().unwrap();
        let argv = |job: &NewJob| match &job.payload {
            Payload::Exec(exec) => exec.argv.iter().map(|word| word.0.clone()).collect(),
            Payload::Data(_) => vec![],
        };
        (batches.iter().flatten().map(argv).collect(), batches.iter().map(Vec::len).collect())
    }
}

#[track_caller]
fn shown(output: &Output, code: i32, stdout: &str, stderr: &str) {
    let texts = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), texts.0.as_ref(), texts.1.as_ref()), (Some(code), stdout, stderr));
}

#[test]
fn put_captures_working_directory_umask_and_data_of_the_command() {
    let stage = Stage::new();
    std::fs::write(stage.dir.path().join("letter"), b"\xff\0").unwrap();
    let typed = [
        "put",
        "-q",
        "mail",
        "--priority",
        "-3",
        "--delay",
        "1m",
        "--tag",
        "a",
        "-d",
        "@letter",
        "--",
        "cat",
        "-",
    ];
    stage.check(&typed, 0, "j0\n", "");
    let batches = stage.played.batches.lock().unwrap();
    let job = &batches[0][0];
    assert_eq!((job.queue.as_str(), job.priority, job.delay.as_secs()), ("mail", -3, 60));
    let Payload::Exec(exec) = &job.payload else { panic!("no program") };
    let here: PathBuf = stage.dir.path().canonicalize().unwrap();
    assert_eq!(Path::new(exec.cwd.as_os_str()), here);
    assert_eq!(exec.stdin.0, b"\xff\0");
    assert!(exec.umask <= 0o777);
}

/// Class and data of all jobs.
fn carried(stage: &Stage) -> Vec<(String, String)> {
    let data = |job: &NewJob| match &job.payload {
        Payload::Data(data) => (format!("{} {}", job.queue, job.class), data.to_text().into_owned()),
        Payload::Exec(_) => panic!("a program"),
    };
    stage.played.batches.lock().unwrap().iter().flatten().map(data).collect()
}

#[test]
fn put_keeps_the_data_of_a_class_byte_for_byte() {
    let stage = Stage::new();
    std::fs::write(stage.dir.path().join("letter"), "{\n \"n\": 1.0e0 }\n").unwrap();
    stage.check(
        &["put", "mail", "Send", "{\"a\":  1}", "--priority", "-3", "--jid", "x", "--tag", "t"],
        0,
        "j0\n",
        "",
    );
    stage.check(&["put", "mail", "Send"], 0, "j1\n", "");
    stage.check(&["put", "--json", "mail", "Send", "@letter"], 0, "{\"id\":\"j2\"}\n", "");
    shown(&stage.feed(&["put", "mail", "Send", "-"], b"[1]", Stdio::piped()), 0, "j3\n", "");
    shown(&stage.feed(&["put", "--raw", "mail", "Send", "-"], b"{", Stdio::piped()), 0, "j4\n", "");
    // Tokens stay as typed; newlines between them become blanks.
    let data = ["{\"a\":  1}", "null", "{  \"n\": 1.0e0 }", "[1]", "{"];
    assert_eq!(carried(&stage), data.map(|data| ("mail Send".into(), data.into())));
    let batches = stage.played.batches.lock().unwrap();
    let first = &batches[0][0];
    assert_eq!((first.priority, first.id.as_ref().unwrap().as_str(), first.tags.len()), (-3, "x", 1));
}

#[test]
fn put_lines_stops_at_the_first_line_that_is_no_json() {
    let stage = Stage::new();
    let lines = b"{\"n\": 1}\n\n[2]\r\n{\"n\": }\n{\"n\": 4}\n";
    let output = stage.feed(&["put", "--lines", "mail", "Send"], lines, Stdio::piped());
    let refusal = "error: failed to put line 4 of stdin; jobs queued before it: 2\n\
                   caused by: it is not JSON: expected value at column 7\n\
                   hint: a text as JSON has quotes: '\"hello\"'; --raw puts bytes that are not JSON; a command stands behind --\n";
    shown(&output, 2, "j0\nj1\n", refusal);
    let output = stage.feed(&["put", "--lines", "--raw", "mail", "Send"], b"{\nx", Stdio::piped());
    shown(&output, 0, "j2\nj3\n", "");
    let data: Vec<String> = carried(&stage).into_iter().map(|(_, data)| data).collect();
    assert_eq!(data, ["{\"n\": 1}", "[2]", "{", "x"]);
}

#[test]
fn put_lines_makes_one_job_per_line_in_batches() {
    let stage = Stage::new();
    let input: Vec<u8> = (0..1234).flat_map(|n| format!("f{n}\n").into_bytes()).collect();
    let output = stage.feed(&["put", "--lines", "--", "gzip", "-t", "./{}"], &input, Stdio::piped());
    let ids: String = (0..1234).map(|n| format!("j{n}\n")).collect();
    shown(&output, 0, &ids, "");
    let (jobs, sizes) = stage.put();
    assert_eq!(jobs[1233], [&b"gzip"[..], b"-t", b"./f1233"]);
    assert!(sizes.iter().all(|size| *size <= 500), "{sizes:?}");
}

#[test]
fn put_lines_of_which_some_are_refused_prints_a_line_for_each() {
    let stage = Stage::new();
    let args = ["put", "--lines", "torn", "Send"];
    let output = stage.feed(&args, b"1\n2\n3\n", Stdio::piped());
    let refusal = "error: failed to put 3 jobs\ncaused by: some jobs were put, the others were not\n";
    shown(&output, 69, "j0\n\nj2\n", refusal);
    let output = stage.feed(&[&args[..], &["--json"]].concat(), b"1\n2\n", Stdio::piped());
    let printed: Vec<Value> =
        output.stdout.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    assert_eq!(printed, [json!({"id": "j0", "batch": printed[0]["batch"]}), json!({"id": null})]);
    assert!(printed[0]["batch"].as_str().unwrap().starts_with("lines-"), "{printed:?}");
}

#[test]
fn put_lines_accepts_any_byte_in_a_line() {
    let stage = Stage::new();
    let output = stage.feed(&["put", "--lines", "-0", "--", "ls"], b"a\nb\xff\0\0 c", Stdio::piped());
    shown(&output, 0, "j0\nj1\n", "");
    assert_eq!(stage.put().0, [[&b"ls"[..], b"a\nb\xff"], [b"ls", b" c"]]);
}

#[test]
fn put_lines_puts_all_jobs_though_stdout_is_closed() {
    let stage = Stage::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let input = b"x\n".repeat(1100);
    let output = stage.feed(&["put", "--lines", "--", "true"], &input, writer.into());
    shown(&output, 0, "", "");
    assert_eq!(stage.put().0.len(), 1100);
}

#[test]
fn job_wait_reports_outcomes_by_its_exit_code() {
    let stage = Stage::new();
    stage.check(&["job", "wait", "c1", "c2"], 0, "c1 complete\nc2 complete\n", "");
    stage.check(&["job", "wait", "f1", "c2"], 1, "f1 failed\nc2 complete\n", "");
    stage.check(&["job", "wait", "x", "c2"], 7, "c2 complete\n", "error: no job has the id 'x'\n");
    let late = "error: not all jobs have ended within 50ms\nhint: they go on; taskvisor why job r1\n";
    stage.check(&["job", "wait", "c1", "r1", "--timeout", "50ms"], 124, "c1 complete\n", late);
    stage.check(&["job", "wait", "f1", "c1", "--timeout", "0s"], 1, "f1 failed\nc1 complete\n", "");
    stage.check(&["job", "wait", "r1", "c1", "--timeout", "50ms"], 124, "c1 complete\n", late);
    let at_once = "error: not all jobs have ended within 0s\nhint: they go on; taskvisor why job r1\n";
    stage.check(&["job", "wait", "r1", "c1", "--timeout", "0s"], 124, "c1 complete\n", at_once);
    stage.check(&["job", "wait", "x", "--timeout", "0s"], 7, "", "error: no job has the id 'x'\n");
}

#[test]
fn orders_reach_the_supervisor() {
    let stage = Stage::new();
    stage.check(&["job", "cancel", "c1", "--wait"], 0, "c1 complete\n", "");
    stage.check(&["job", "cancel", "--json", "r1"], 0, "{\"id\":\"r1\",\"state\":\"canceling\"}\n", "");
    stage.check(&["job", "retry", "f1", "x"], 7, "f1 waiting\n", "error: no job has the id 'x'\n");
    stage.check(&["queue", "pause", "mail", "--reason", "smtp down"], 0, "", "");
    stage.check(&["queue", "resume", "mail"], 0, "", "");
    stage.check(&["status"], 69, "", "error: the supervisor is starting\n");
    let expected =
        ["cancel c1 false", "cancel r1 false", "retry f1", "pause mail Some(\"smtp down\")", "resume mail"];
    assert_eq!(stage.asked(), expected);
}

#[test]
fn stop_waits_for_the_lock() {
    let stage = Stage::new();
    let path = stage.dir.path().join("lock");
    let file = std::fs::File::create(&path).unwrap();
    stage.check(&["stop"], 0, "", "");
    let held = nix::fcntl::Flock::lock(file, nix::fcntl::FlockArg::LockExclusive).unwrap();
    let late = "error: the supervisor has not ended within 0.9s\n\
                hint: it goes on ending; taskvisor stop --now or --kill goes a stage further\n";
    stage.check(&["stop", "--kill", "--timeout", "900ms"], 124, "", late);
    drop(held);
    assert_eq!(stage.asked(), ["stop Drain", "stop Kill"]);
}

#[test]
fn job_list_json_prints_one_object_per_line() {
    let stage = Stage::new();
    let output = stage.command(&["job", "list", "-n", "2", "--json"]).output().unwrap();
    let jobs: Vec<JobRecord> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(jobs.iter().map(|job| job.state).collect::<Vec<_>>(), [JobState::Complete, JobState::Failed]);
    // Whether there are more than these two.
    assert_eq!(stage.asked(), ["list 2", "count 10000"]);
}

#[test]
fn job_logs_prints_the_exact_bytes() {
    let stage = Stage::new();
    stage.check(&["job", "logs", "c1"], 0, "", "");
    let path = log_file(stage.dir.path(), &"c1".into());
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, b"\x1b[1mx\xff\n").unwrap();
    for args in [&["job", "logs", "c1"][..], &["job", "logs", "-f", "c1"]] {
        let output = stage.command(args).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"\x1b[1mx\xff\n"[..]));
    }
    stage.check(&["job", "logs", "x"], 7, "", "error: no job has the id 'x'\n");
}

#[test]
fn job_logs_reports_removed_output() {
    let stage = Stage::new();
    let logs = config::logs(stage.dir.path());
    std::fs::create_dir_all(&logs).unwrap();
    std::fs::write(logs.join("removed"), "1790000000000").unwrap();
    let mut command = stage.command(&["job", "logs", "c1"]);
    let output = command.env("TZ", "UTC").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && output.stdout.is_empty());
    assert_eq!(
        said,
        "output written before 2026-09-21 14:13:20Z was removed (log.keep, log.quota); this job has none that is newer\n"
    );
    // The removal was more than a minute before the put, more than clocks can differ.
    std::fs::write(logs.join("removed"), "-60001").unwrap();
    stage.check(&["job", "logs", "c1"], 0, "", "");
}

#[test]
fn job_logs_follow_continues_when_the_file_is_truncated_or_replaced() {
    use std::io::{BufRead, BufReader};
    let stage = Stage::new();
    let path = log_file(stage.dir.path(), &"r1".into());
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, "first\n").unwrap();
    let mut child = stage.command(&["job", "logs", "-f", "r1"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "first");
    let log = std::fs::File::options().append(true).open(&path).unwrap();
    log.set_len(0).unwrap();
    writeln!(&log, "now").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "now");
    writeln!(&log, "last").unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "new file\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "last");
    assert_eq!(lines.next().unwrap().unwrap(), "new file");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn job_logs_follow_prints_new_output() {
    use std::io::{BufRead, BufReader};
    let stage = Stage::new();
    let mut child = stage.command(&["job", "logs", "-f", "r1"]).stdout(Stdio::piped()).spawn().unwrap();
    let path = log_file(stage.dir.path(), &"r1".into());
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut log = std::fs::File::create(&path).unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for word in ["one", "two", "three"] {
        writeln!(log, "{word}").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), word);
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn put_lines_queues_each_line_of_a_slow_writer_at_once() {
    use std::io::{BufRead, BufReader};
    let stage = Stage::new();
    let mut command = stage.command(&["put", "--lines", "--", "echo"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut ids = BufReader::new(child.stdout.take().unwrap()).lines();
    for id in ["j0", "j1", "j2"] {
        input.write_all(b"line\nhalf ").unwrap();
        assert_eq!(ids.next().unwrap().unwrap(), id);
    }
    drop(input);
    assert_eq!(ids.next().unwrap().unwrap(), "j3");
    assert!(child.wait().unwrap().success());
}
