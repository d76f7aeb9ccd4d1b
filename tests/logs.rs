//! The supervisor's own log, the output of slots and the output of jobs, with working and failing disks and readers, by
//! the real binary.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/sandbox.rs"]
mod sandbox;

use std::fs;
use std::io::{PipeReader, PipeWriter, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Stdio;

use sandbox::{Running, Sandbox, Setting, is_root, kill, wait_until};
use serde_json::Value;

const ACTOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/actor.py");

/// Writes a settings file and returns its path.
fn settings(sandbox: &Sandbox, text: &str) -> String {
    let path = sandbox.work("settings.yaml");
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// A supervisor with a log directory and a pool of programs.
fn start_with_dir<'a>(sandbox: &'a Sandbox, more: &str) -> Running<'a> {
    let dir = sandbox.work("logs");
    let file = settings(sandbox, &format!("log: {{dir: {}, {more}}}\n", dir.display()));
    sandbox.start(&["-c", &file])
}

fn own_log(sandbox: &Sandbox) -> PathBuf {
    sandbox.work("logs").join("taskvisor.log")
}

fn read(path: impl AsRef<std::path::Path>) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Cancels a job, which makes the supervisor log a line about it; returns its id.
fn cancel_one(sandbox: &Sandbox) -> String {
    let jid = sandbox.put(&["sleep", "1000"]);
    wait_until("the job runs", || sandbox.state(&jid) == "running");
    sandbox.ok(&["job", "cancel", "--wait", &jid]);
    jid
}

/// Runs a job that dies of a signal; returns its id and the name of its worker.
fn crash_one(sandbox: &Sandbox) -> (String, String) {
    let job = run(sandbox, &["sh", "-c", "ulimit -c 0; kill -SEGV $$"]);
    let worker = &job["worker"];
    let name = format!("{}#{}", worker["slot"].as_str().unwrap(), worker["generation"]);
    (job["id"].as_str().unwrap().to_owned(), name)
}

fn run(sandbox: &Sandbox, argv: &[&str]) -> Value {
    let jid = sandbox.put(argv);
    sandbox.run(&["job", "wait", &jid, "--timeout", "40s"]);
    sandbox.job(&jid)
}

fn assert_works(sandbox: &Sandbox) {
    assert_eq!(run(sandbox, &["true"])["state"], "complete");
}

#[test]
fn log_and_slot_output_go_to_files_that_may_be_rotated_by_usr1() {
    let sandbox = Sandbox::new(Setting::Root);
    let dir = sandbox.work("logs");
    let text = format!(
        "log: {{dir: {}}}\npools: [{{name: mail, grace: 300ms, command: [sh, -c, 'echo a stray word; exec python3 {ACTOR}']}}]\n",
        dir.display()
    );
    let mut running = sandbox.start(&["-c", &settings(&sandbox, &text)]);
    let own = dir.join("taskvisor.log");
    wait_until("it logs", || read(&own).contains("supervisor is up"));
    wait_until("the slot's output is kept", || read(dir.join("slot-mail.1.log")) == "a stray word\n");
    assert_eq!(sandbox::mode(&own), 0o600);
    fs::rename(&own, dir.join("old")).unwrap();
    fs::rename(dir.join("slot-mail.1.log"), dir.join("old-slot")).unwrap();
    running.signal("USR1");
    wait_until("the log is there again, without a line", || own.exists());
    kill(sandbox.one("python3"), "KILL");
    wait_until("another worker prints", || read(dir.join("slot-mail.1.log")) == "a stray word\n");
    sandbox.ok(&["stop"]);
    assert!(running.wait().success());
    assert!(read(&own).contains("a worker died: signal 9"), "{}", read(&own));
    assert!(!read(&own).contains("stray") && sandbox.stderr().is_empty(), "{}", sandbox.stderr());
    sandbox.assert_nothing_left();
}

#[test]
fn start_refuses_a_log_directory_it_cannot_use() {
    let sandbox = Sandbox::new(Setting::Plain);
    let refused = |dir: &std::path::Path, code: i32, words: &[&str]| {
        let file = settings(&sandbox, &format!("log: {{dir: {}}}\n", dir.display()));
        let output = sandbox.run(&["start", "-c", &file]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{said}");
        for word in words {
            assert!(said.contains(word), "no {word:?} in {said}");
        }
    };
    let file = sandbox.work("file");
    fs::write(&file, "").unwrap();
    refused(&file, 74, &["failed to make the directory", "work/file", "File exists"]);
    let closed = sandbox.path("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    refused(&closed.join("logs"), 77, &["closed/logs", "Permission denied"]);
    let open = sandbox.work("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    refused(&open, 77, &["open"]);
    assert!(!sandbox.path("state").join("lock").exists(), "nothing was begun");
}

#[test]
fn start_refuses_a_directory_in_place_of_the_log_file() {
    let sandbox = Sandbox::new(Setting::Root);
    fs::create_dir_all(own_log(&sandbox)).unwrap();
    fs::set_permissions(sandbox.work("logs"), fs::Permissions::from_mode(0o700)).unwrap();
    let file = settings(&sandbox, &format!("log: {{dir: {}}}\n", sandbox.work("logs").display()));
    let output = sandbox.run(&["start", "-c", &file]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(74), "{said}");
    assert!(said.contains("failed to open the log") && said.contains("Is a directory"), "{said}");
    assert!(said.contains("hint: log.dir"), "{said}");
}

#[test]
fn lost_log_file_blocks_nothing_and_is_reported_until_it_is_back() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = start_with_dir(&sandbox, "");
    let own = own_log(&sandbox);
    wait_until("it logs", || read(&own).contains("supervisor is up"));
    fs::rename(&own, sandbox.work("logs/old")).unwrap();
    fs::create_dir(&own).unwrap();
    let jid = cancel_one(&sandbox);
    wait_until("the trouble is reported", || {
        let reasons = sandbox.reasons();
        reasons.contains("taskvisor.log: Is a directory") && reasons.contains("kept in memory")
    });
    assert_works(&sandbox);
    fs::remove_dir(&own).unwrap();
    sandbox.wait_healthy();
    assert!(read(&own).contains(&jid), "nothing was lost: {}", read(&own));
    // The log directory itself is removed and comes back.
    fs::rename(sandbox.work("logs"), sandbox.work("elsewhere")).unwrap();
    cancel_one(&sandbox);
    wait_until("the trouble is reported", || sandbox.reasons().contains("No such file"));
    fs::rename(sandbox.work("elsewhere"), sandbox.work("logs")).unwrap();
    sandbox.wait_healthy();
}

/// A small pipe whose reader does not read.
fn pipe() -> (PipeReader, PipeWriter) {
    std::io::pipe().unwrap()
}

/// A worker that prints many lines before it takes jobs; each becomes a line of the log.
fn chatter(lines: &str) -> [String; 3] {
    ["sh".into(), "-c".into(), format!("yes x | head -n {lines}; exec python3 {ACTOR}")]
}

#[test]
fn hanging_reader_of_stderr_delays_no_job_and_dropped_lines_are_counted() {
    let sandbox = Sandbox::new(Setting::Root);
    let (mut reader, writer) = pipe();
    let chatter = chatter("20000");
    let args = ["-w", "2", "--grace", "300ms", "--", &chatter[0], &chatter[1], &chatter[2]];
    let mut running = sandbox.start_with(&args, |command| {
        command.stderr(writer);
    });
    let mut seen = Value::Null;
    wait_until("dropped lines are reported", || {
        seen = sandbox.status();
        seen["logs"]["lines_dropped"].as_u64().is_some_and(|lines| lines > 1000)
    });
    let told = seen["reasons"].to_string();
    assert!(told.contains("nobody reads the log (stderr)") && seen["health"] == "degraded", "{seen}");
    assert!(sandbox.ok(&["status"]).contains(" lines of the log"));
    let jid = sandbox.ok(&["put", "default", "fine", "null"]);
    sandbox.ok(&["job", "wait", jid.trim(), "--timeout", "40s"]);
    // The keeper logs a line, too.
    kill(sandbox.status()["supervisor"]["pid"].as_i64().unwrap() as i32, "KILL");
    wait_until("it was started again", || sandbox.status()["supervisor_restarts"] == 1);
    wait_until("lines are dropped again", || sandbox.status()["logs"]["lines_dropped"].as_u64() > Some(1000));
    let all = std::thread::spawn(move || {
        let mut text = String::new();
        reader.read_to_string(&mut text).map(|_| text)
    });
    sandbox.wait_healthy();
    let dropped = sandbox.status()["logs"]["lines_dropped"].as_u64().unwrap();
    sandbox.ok(&["stop"]);
    assert!(running.wait().success());
    drop(running);
    let text = all.join().unwrap().unwrap();
    let line =
        text.lines().find(|line| line.contains("lines of this log were dropped")).expect("it is reported");
    assert!(line.contains(&format!("dropped={dropped}")), "{line}: {dropped}");
    sandbox.assert_nothing_left();
}

#[test]
fn stop_does_not_wait_for_a_hanging_reader_of_stderr() {
    let sandbox = Sandbox::new(Setting::Root);
    let (_reader, writer) = pipe();
    let chatter = chatter("20000");
    let args = ["--grace", "300ms", "--", &chatter[0], &chatter[1], &chatter[2]];
    let mut running = sandbox.start_with(&args, |command| {
        command.stderr(writer);
    });
    wait_until("lines are dropped", || sandbox.status()["logs"]["lines_dropped"].as_u64() > Some(1000));
    sandbox.ok(&["stop", "--timeout", "20s"]);
    assert!(running.wait().success());
    sandbox.assert_nothing_left();
}

#[test]
fn closed_stderr_ends_neither_keeper_nor_supervisor() {
    for closed in [true, false] {
        let sandbox = Sandbox::new(Setting::Root);
        let (reader, writer) = pipe();
        let mut running = match closed {
            // stderr is closed from the start.
            true => sandbox.start_under(&["sh", "-c", "exec \"$@\" 2>&-", "sh"], &["-w", "1"]),
            // The reader of stderr goes away.
            false => sandbox.start_with(&["-w", "1"], |command| {
                command.stderr(writer);
            }),
        };
        sandbox.wait_healthy();
        drop(reader);
        cancel_one(&sandbox);
        if !closed {
            wait_until("it is reported", || sandbox.reasons().contains("to stderr: Broken pipe"));
        }
        assert_works(&sandbox);
        kill(sandbox.status()["supervisor"]["pid"].as_i64().unwrap() as i32, "KILL");
        wait_until("it was started again", || sandbox.status()["supervisor_restarts"] == 1);
        assert_works(&sandbox);
        sandbox.ok(&["stop"]);
        assert!(running.wait().success());
        sandbox.assert_nothing_left();
    }
}

/// The next journal entry that contains this.
fn entry(journal: &UnixDatagram, part: &str) -> String {
    let mut buffer = vec![0; 1 << 20];
    journal.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    loop {
        let len = journal.recv(&mut buffer).expect("an entry");
        let text = String::from_utf8_lossy(&buffer[..len]).into_owned();
        if text.contains(part) {
            return text;
        }
    }
}

#[test]
fn json_log_has_one_object_per_event_with_the_same_fields() {
    let sandbox = Sandbox::new(Setting::Root);
    let mut running = sandbox.start(&["-w", "1", "--log-format", "json"]);
    let jid = cancel_one(&sandbox);
    let (crashed, worker) = crash_one(&sandbox);
    sandbox.ok(&["stop"]);
    assert!(running.wait().success());
    let stderr = sandbox.stderr();
    let events: Vec<Value> = stderr.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let find = |message: &str| events.iter().find(|event| event["message"] == message).expect("a line");
    let order = find("a job is to be canceled");
    assert_eq!((&order["job"], &order["level"]), (&Value::from(jid), &Value::from("INFO")));
    assert!(order["by"].as_str().is_some_and(|by| by.starts_with("uid ")), "{order}");
    let failed = find("a job has failed for good: crashed: the worker died: signal 11");
    assert_eq!((&failed["job"], &failed["level"]), (&Value::from(crashed), &Value::from("WARN")));
    assert_eq!((&failed["pool"], &failed["worker"]), (&Value::from("default"), &Value::from(worker)));
}

#[test]
fn journal_gets_entries_with_fields_also_after_it_was_away() {
    if !is_root() {
        return sandbox::missing("root");
    }
    let sandbox = Sandbox::new(Setting::Root);
    let dir = sandbox.path("journal");
    fs::create_dir(&dir).unwrap();
    let mount = format!(
        "mount -t tmpfs none /run && mkdir -p /run/systemd/journal && mount --bind {} /run/systemd/journal && exec \"$@\"",
        dir.display()
    );
    let wrapper = ["unshare", "-m", "sh", "-c", &mount, "sh"];
    let mut refused = sandbox.start_under(&wrapper, &["--log-format", "journald"]);
    assert_eq!(refused.wait().code(), Some(74));
    assert!(
        sandbox.stderr().contains("failed to open the log /run/systemd/journal/socket"),
        "{}",
        sandbox.stderr()
    );
    let socket = dir.join("socket");
    let journal = UnixDatagram::bind(&socket).unwrap();
    // As under systemd: stderr is connected to the journal, so no flag is needed.
    let stderr = format!("JOURNAL_STREAM=$(stat -Lc %d:%i /dev/stderr) && export JOURNAL_STREAM && {mount}");
    let mut running = sandbox.start_under(&["unshare", "-m", "sh", "-c", &stderr, "sh"], &["-w", "1"]);
    let up = entry(&journal, "supervisor is up");
    assert!(up.contains("\nPRIORITY=6\nSYSLOG_IDENTIFIER=taskvisor\n"), "{up}");
    let (jid, worker) = crash_one(&sandbox);
    let failed = entry(&journal, "MESSAGE=a job has failed for good: crashed: the worker died: signal 11 ");
    for field in [format!("JOB={jid}\n"), format!("WORKER={worker}\n"), "POOL=default\n".into()] {
        assert!(failed.contains(&format!("\nTASKVISOR_{field}")), "{field} in {failed}");
    }
    fs::remove_file(&socket).unwrap();
    drop(journal);
    cancel_one(&sandbox);
    wait_until("it is reported", || {
        sandbox.reasons().contains("to the journal at /run/systemd/journal/socket: ")
    });
    assert_works(&sandbox);
    let journal = UnixDatagram::bind(&socket).unwrap();
    sandbox.wait_healthy();
    entry(&journal, "MESSAGE=a job is to be canceled ");
    sandbox.ok(&["stop"]);
    assert!(running.wait().success());
    assert!(!sandbox.stderr().contains(&jid) && !sandbox.stderr().contains("supervisor is up"));
}

#[test]
fn job_that_floods_its_output_is_told_in_one_wording_while_it_runs() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "1", "-c", &settings(&sandbox, "log: {job_cap: 1MiB}\n")]);
    let script = "head -c 5242880 /dev/zero | tr '\\0' x; until test -e go; do sleep 0.05; done";
    let jid = sandbox.put(&["sh", "-c", script]);
    let told = "floods its output: 5.0M, of which 4.0M are dropped";
    wait_until("status tells it", || sandbox.ok(&["status"]).contains(told));
    let why = sandbox.ok(&["why", "job", &jid]);
    assert!(why.contains(&format!("It {told}.")), "{why}");
    let flood = &sandbox.status()["pools"][0]["slots"][0]["jobs"][0]["flood"];
    assert_eq!(flood, &serde_json::json!({"printed": 5 << 20, "dropped": 4 << 20}));
    let log = sandbox.stderr();
    assert_eq!(log.matches("a job floods its output: the rest of it is dropped").count(), 1, "{log}");
    std::fs::write(sandbox.work("go"), "").unwrap();
    sandbox.ok(&["job", "wait", &jid]);
    assert!(!sandbox.ok(&["status"]).contains("floods"), "it is over");
}

#[test]
fn endless_output_of_a_job_is_cut_and_marked_and_the_rest_counted() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "2", "-c", &settings(&sandbox, "log: {job_cap: 1MiB}\n")]);
    // 100 MB of one line without an end.
    let job = run(&sandbox, &["sh", "-c", "head -c 100000000 /dev/zero | tr '\\0' x"]);
    assert_eq!(job["state"], "complete", "{job}");
    assert_eq!(job["forensics"]["output_dropped"], 100_000_000 - (1 << 20), "{job}");
    let log = sandbox.ok(&["job", "logs", job["id"].as_str().unwrap()]);
    let (kept, mark) = log.split_once('\n').unwrap();
    assert_eq!(kept.len(), 1 << 20);
    assert_eq!(mark, "[taskvisor: output over 1048576 bytes was dropped]\n");
    let job = run(&sandbox, &["sh", "-c", "printf '\\377\\000\\033[2Jx' >&2"]);
    let output = sandbox.run(&["job", "logs", job["id"].as_str().unwrap()]);
    assert_eq!(output.stdout, b"\xff\0\x1b[2Jx");
    sandbox.wait_healthy();
}

#[test]
fn worker_output_in_the_log_cannot_forge_a_log_line() {
    let sandbox = Sandbox::new(Setting::Root);
    let prints = format!("printf 'a\\033[2J\\377\\rb\\000c'; exec python3 {ACTOR}");
    let _running = sandbox.start(&["--grace", "300ms", "--", "sh", "-c", &prints]);
    wait_until("it is logged", || sandbox.stderr().contains("[2J"));
    let stderr = sandbox.stderr();
    let line = stderr.lines().find(|line| line.contains("[2J")).unwrap();
    assert!(
        line.contains("a\u{fffd}[2J\u{fffd}\u{fffd}b\u{fffd}c worker=default.1#")
            && line.contains("pool=\"default\""),
        "{line}"
    );
}

#[test]
fn output_over_the_quota_is_removed_oldest_first_and_job_logs_reports_it() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "2", "-c", &settings(&sandbox, "log: {quota: 100KiB}\n")]);
    let running =
        sandbox.put(&["sh", "-c", "echo begun; while [ ! -e go ]; do sleep 0.02; done; echo ended"]);
    wait_until("it prints", || sandbox.ok(&["job", "logs", &running]) == "begun\n");
    let print = || run(&sandbox, &["sh", "-c", "head -c 20000 /dev/zero"])["id"].as_str().unwrap().to_owned();
    let first = print();
    let mut last = print();
    wait_until("the first is gone", || {
        last = print();
        sandbox.ok(&["job", "logs", &first]).is_empty()
    });
    let said = String::from_utf8(sandbox.run(&["job", "logs", &first]).stderr).unwrap();
    assert!(said.contains("was removed (log.keep, log.quota)"), "{said}");
    assert_eq!(sandbox.ok(&["job", "logs", &last]).len(), 20_000);
    fs::write(sandbox.work("go"), "").unwrap();
    sandbox.ok(&["job", "wait", &running]);
    assert_eq!(sandbox.ok(&["job", "logs", &running]), "begun\nended\n");
}

#[test]
fn job_logs_follower_that_does_not_read_delays_no_job() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "1"]);
    let jid = sandbox.put(&["sh", "-c", "while [ ! -e go ]; do sleep 0.02; done; head -c 3000000 /dev/zero"]);
    let mut follower = sandbox.command(&["job", "logs", "-f", &jid]).stdout(Stdio::piped()).spawn().unwrap();
    fs::write(sandbox.work("go"), "").unwrap();
    sandbox.ok(&["job", "wait", &jid, "--timeout", "40s"]);
    assert!(follower.try_wait().unwrap().is_none(), "its pipe is full");
    let mut all = Vec::new();
    follower.stdout.take().unwrap().read_to_end(&mut all).unwrap();
    assert!(follower.wait().unwrap().success());
    assert_eq!(all.len(), 3_000_000);
}

#[test]
fn full_log_disk_stops_no_job_and_is_reported_until_it_has_space() {
    if !is_root() {
        return sandbox::missing("root");
    }
    let sandbox = Sandbox::new(Setting::Root);
    let dir = sandbox.work("logs");
    fs::create_dir(&dir).unwrap();
    let text = format!(
        "log: {{dir: {}}}\npools: [{{grace: 300ms, command: [sh, -c, 'yes stray | head -n 1000; exec python3 {ACTOR}']}}]\n",
        dir.display()
    );
    let file = settings(&sandbox, &text);
    let mount = format!("mount -t tmpfs -o size=256k,mode=700 none {} && exec \"$@\"", dir.display());
    let running = sandbox.start_under(&["unshare", "-m", "sh", "-c", &mount, "sh"], &["-c", &file]);
    sandbox.wait_healthy();
    let disk = PathBuf::from(format!("/proc/{}/root{}", running.child.id(), dir.display()));
    fs::write(disk.join("filler"), vec![0; 1 << 20]).unwrap_err();
    let seen = || sandbox.status()["pools"][0]["slots"][0]["process"]["pid"].as_i64();
    seen().into_iter().for_each(|pid| kill(pid as i32, "KILL"));
    wait_until("the trouble is reported", || sandbox.reasons().contains("/slot-default.1.log: No space"));
    let jid = sandbox.ok(&["put", "default", "fine", "null"]);
    sandbox.ok(&["job", "wait", jid.trim(), "--timeout", "40s"]);
    assert!(sandbox.status()["logs"]["output_dropped"].as_u64() > Some(0));
    fs::remove_file(disk.join("filler")).unwrap();
    // No further output follows: the recovery is noticed without it.
    wait_until("all is well again", || sandbox.status()["health"] == "healthy");
}

#[test]
fn broker_password_appears_in_no_command_line_and_no_message() {
    let sandbox = Sandbox::new(Setting::Plain);
    for flag in ["-b", "--broker"] {
        let output = sandbox.run(&["start", flag, "amqp://user:hunter2@host/0"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.code() == Some(78) && !said.contains("hunter2") && !said.contains("user"),
            "{said}"
        );
    }
    let url = format!("sqlite:{}/hunter2.db", sandbox.path("state").display());
    for args in
        [&["-b", &url][..], &["--broker", &url], &[&format!("--broker={url}")], &[&format!("-b{url}")]]
    {
        let mut running = sandbox.start(&[&["-w", "1"], args].concat());
        let shown = sandbox
            .processes()
            .iter()
            .map(|seen| read(format!("/proc/{}/cmdline", seen.pid)))
            .collect::<String>();
        assert!(shown.contains("supervisor") && !shown.contains("hunter2"), "{shown}");
        assert_eq!(sandbox.status()["broker"], Value::from(url.as_str()), "it is used nevertheless");
        sandbox.ok(&["stop"]);
        assert!(running.wait().success());
    }
}
