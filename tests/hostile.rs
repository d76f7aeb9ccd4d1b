//! Hostile jobs, settings and users: none of them ends the supervisor, gains its rights or makes it hang.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/sandbox.rs"]
mod sandbox;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sandbox::{Running, Sandbox, Setting, alive, is_root, mode, wait_until};
use serde_json::{Value, json};

/// Another user of the machine.
const STRANGER: u32 = 64322;

fn start<'a>(sandbox: &'a Sandbox, settings: &str) -> Running<'a> {
    let file = file(sandbox, settings);
    sandbox.start(&["-c", &file])
}

fn file(sandbox: &Sandbox, settings: &str) -> String {
    let path = sandbox.work("settings.yaml");
    fs::write(&path, settings).unwrap();
    path.display().to_string()
}

fn run(sandbox: &Sandbox, argv: &[&str]) -> Value {
    let jid = sandbox.put(argv);
    sandbox.run(&["job", "wait", &jid, "--timeout", "60s"]);
    sandbox.job(&jid)
}

/// Each process forks the next; the last one writes a file.
const CHAIN: &str = "import os, sys, time
for left in range(int(sys.argv[1])):
    if os.fork():
        time.sleep(1000)
open('begun', 'w').close()
time.sleep(1000)";

#[test]
fn deep_process_chain_is_ended_at_its_time_limit_and_the_supervisor_lives() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running =
        start(&sandbox, "pools: [{name: default, workers: 1, grace: 200ms, limits: {time: 8s}}]\n");
    let supervisor = sandbox.one("tv-supervisor");
    let job = run(&sandbox, &["python3", "-c", CHAIN, "200"]);
    assert!(sandbox.work("begun").exists(), "the chain was not made in time");
    assert_eq!((&job["state"], &job["failure"]["group"]), (&json!("failed"), &json!("time limit")), "{job}");
    assert!(alive(supervisor), "{}", sandbox.stderr());
    sandbox.assert_calm();
}

/// Nested directories, far deeper than a path can be long.
const NEST: &str = "import os
for depth in range(3000):
    os.mkdir('d')
    os.chdir('d')
open('deepest', 'w').close()";

#[test]
fn nested_directories_in_a_sandbox_are_removed_and_the_supervisor_lives() {
    let sandbox = Sandbox::new(Setting::Root);
    let user = if is_root() { "user: daemon, " } else { "" };
    let settings = format!("pools: [{{name: default, workers: 1, sandbox: true, {user}retries: 0}}]\n");
    let _running = start(&sandbox, &settings);
    let supervisor = sandbox.one("tv-supervisor");
    let job = run(&sandbox, &["python3", "-c", NEST]);
    assert_eq!(job["state"], "complete", "{job}");
    wait_until("what the job left is removed", || names(&sandbox.path("state/sandbox")).is_empty());
    assert!(alive(supervisor), "{}", sandbox.stderr());
    sandbox.assert_calm();
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

#[test]
fn next_start_removes_sandbox_directories_of_an_ended_supervisor() {
    let sandbox = Sandbox::new(Setting::Plain);
    let settings = "pools: [{name: default, workers: 1, sandbox: true}]\n";
    drop(start(&sandbox, settings));
    let root = sandbox.path("state/sandbox");
    for left in ["gone.1/a/b", "default-1/c", "default-9/d"] {
        fs::create_dir_all(root.join(left)).unwrap();
    }
    own(&sandbox, &root);
    let _running = start(&sandbox, settings);
    wait_until("all of it is removed", || names(&root).is_empty());
    sandbox.assert_calm();
}

/// Gives a tree to the user of the sandbox.
fn own(sandbox: &Sandbox, tree: &Path) {
    let whose = fs::metadata(sandbox.path("work")).unwrap();
    let mut next = vec![tree.to_owned()];
    while let Some(path) = next.pop() {
        chown(&path, Some(whose.uid()), Some(whose.gid())).unwrap();
        next.extend(fs::read_dir(&path).unwrap().flatten().map(|entry| entry.path()));
    }
}

/// Where a process that changes its user stays open to that user, one that is born in the spawner's memory would be a
/// window into it.
#[test]
fn slot_of_a_user_who_could_look_into_the_spawner_has_a_process_of_its_own() {
    if !is_root() {
        return;
    }
    for (dumpable, is_parked) in [("0", false), ("1", true), ("2", false)] {
        let sandbox = Sandbox::new(Setting::Root);
        let settings = "pools: [{name: default, workers: 1, user: daemon}, {name: own, workers: 1}]\n";
        let file = file(&sandbox, settings);
        // It is one setting for the whole machine, so only what is read of it is another.
        let seen = sandbox.path("suid_dumpable");
        fs::write(&seen, dumpable).unwrap();
        let mount = format!("mount --bind {} /proc/sys/fs/suid_dumpable && exec \"$@\"", seen.display());
        let _running = sandbox.start_under(&["unshare", "-m", "sh", "-c", &mount, "sh"], &["-c", &file]);
        wait_until("it is up", || sandbox::is_up(&sandbox.status()));
        let status = sandbox.status();
        let slots = sandbox::slots(&status);
        let has_process: Vec<bool> = slots.iter().map(|slot| slot["process"]["pid"].is_i64()).collect();
        assert_eq!(has_process, [is_parked, false], "suid_dumpable = {dumpable}: {status}");
        assert_eq!(run(&sandbox, &["true"])["state"], "complete");
        sandbox.assert_calm();
    }
}

#[test]
fn uid_or_gid_4294967295_is_refused_for_a_pool() {
    if !is_root() {
        return;
    }
    let sandbox = Sandbox::new(Setting::Root);
    for who in ["user: 4294967295, group: 1", "group: 4294967295", "user: daemon, group: 4294967295"] {
        let file = file(&sandbox, &format!("pools: [{{name: default, {who}}}]\n"));
        for verb in ["check", "start"] {
            let (code, said) = sandbox.refused(&[verb, "-c", &file]);
            assert!(
                code == 78 && said.contains("4294967295 is nobody's number"),
                "{verb} {who}: {code} {said}"
            );
        }
    }
}

#[test]
fn limits_that_the_kernel_takes_as_unlimited_are_refused() {
    let sandbox = Sandbox::new(Setting::Plain);
    for (limit, words) in [
        ("open_files: 18446744073709551615", "no limit at all"),
        ("nice: -2147483648", "limits.nice"),
        ("oom_score_adj: 2147483647", "limits.oom_score_adj"),
    ] {
        let file = file(&sandbox, &format!("pools: [{{name: default, limits: {{{limit}}}}}]\n"));
        let (code, said) = sandbox.refused(&["check", "-c", &file]);
        assert!(code == 78 && said.contains(words), "{limit}: {code} {said}");
    }
}

#[test]
fn files_of_the_supervisor_are_private_whatever_the_umask() {
    let sandbox = Sandbox::new(Setting::Plain);
    let file = file(&sandbox, "pools: [{name: default, workers: 1, env: {set: {SECRET: hush}}}]\n");
    let running = sandbox.start_under(&["sh", "-c", "umask 000; exec \"$@\"", "sh"], &["-c", &file]);
    wait_until("it is up", || sandbox::is_up(&sandbox.status()));
    sandbox.ok(&["pause"]);
    let jid = sandbox.put(&["true"]);
    sandbox.ok(&["resume"]);
    sandbox.ok(&["job", "wait", &jid]);
    let mut open = Vec::new();
    let mut next = vec![sandbox.path("run"), sandbox.path("state")];
    while let Some(path) = next.pop() {
        if mode(&path) & 0o022 != 0 || (!path.is_dir() && mode(&path) & 0o077 != 0) {
            open.push(format!("{} {:o}", path.display(), mode(&path)));
        }
        let inner = fs::read_dir(&path).into_iter().flatten().flatten();
        next.extend(inner.map(|entry| entry.path()));
    }
    assert_eq!(open, [""; 0]);
    drop(running);
}

/// Listens as another user and prints what the first client sends. The kernel records the peer's uid at `listen`.
const LISTENER: &str = "import os, socket, sys
path, uid = sys.argv[1], int(sys.argv[2])
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
os.chmod(path, 0o777)
os.setresuid(uid, uid, uid)
listener.listen()
print('listens', flush=True)
client, _ = listener.accept()
client.settimeout(30)
print(client.recv(4096), flush=True)";

fn listen_as_stranger(socket: &Path) -> Child {
    let mut command = Command::new("python3");
    command.args(["-c", LISTENER]).arg(socket).arg(STRANGER.to_string()).stdout(Stdio::piped());
    command.spawn().unwrap()
}

/// The Python package as a client, as the user of the sandbox.
fn python_put(sandbox: &Sandbox) -> Command {
    let script = "import os, sys
sys.path.insert(0, sys.argv[1])
from taskvisor.client import outside
os.setresuid(*[int(sys.argv[2])] * 3)
outside.put([{'queue': 'q', 'class': 'c', 'data': None}])";
    let uid = fs::metadata(sandbox.path("work")).unwrap().uid().to_string();
    let mut command = Command::new("python3");
    command.args(["-c", script, concat!(env!("CARGO_MANIFEST_DIR"), "/python"), &uid]);
    command.env("TASKVISOR_RUN_DIR", sandbox.path("run")).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

#[test]
fn client_sends_nothing_to_a_listener_of_another_user() {
    if !is_root() {
        return;
    }
    // A plain user whose run directory another user has created, and root in a directory of its own.
    for (setting, owner) in [(Setting::Plain, STRANGER), (Setting::Root, 0)] {
        let sandbox = Sandbox::new(setting);
        let (run, socket) = (sandbox.path("run"), sandbox.path("run/ctl.sock"));
        fs::create_dir(&run).unwrap();
        fs::set_permissions(&run, fs::Permissions::from_mode(0o755)).unwrap();
        chown(&run, Some(owner), Some(owner)).unwrap();
        for client in ["put", "python"] {
            let mut listener = listen_as_stranger(&socket);
            let mut said = BufReader::new(listener.stdout.take().unwrap()).lines();
            assert_eq!(said.next().unwrap().unwrap(), "listens");
            let mut command = match client {
                "put" => sandbox.command(&["put", "--", "true"]),
                _ => python_put(&sandbox),
            };
            let output = command.stdin(Stdio::null()).output().unwrap();
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && error.contains("belongs to uid 64322"), "{client}: {error}");
            assert_eq!(said.next().unwrap().unwrap(), "b''", "{client} said something");
            listener.wait().unwrap();
            fs::remove_file(&socket).unwrap();
        }
    }
}

#[test]
fn files_named_by_users_are_never_read_without_end() {
    let sandbox = Sandbox::new(Setting::Plain);
    let fifo = sandbox.work("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::from_bits_truncate(0o666)).unwrap();
    let fifo = fifo.display().to_string();
    let brackets = file(&sandbox, &"[".repeat(100_000));
    let begun = Instant::now();
    for (args, words) in [
        (vec!["check", "-c", "/dev/zero"], "it is no regular file"),
        (vec!["check", "-c", &fifo], "it is no regular file"),
        (vec!["check", "-c", &brackets], "100000 opening brackets"),
        (vec!["option", "load", "/dev/zero"], "it is no regular file"),
        (vec!["status", "--url", "http://127.0.0.1:1", "--token-file", &fifo], "is no file"),
    ] {
        let (code, said) = sandbox.refused(&args);
        assert!(code != 101 && said.contains(words), "{args:?}: {code} {said}");
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn check_handles_1000_pools_quickly_and_refuses_more() {
    let sandbox = Sandbox::new(Setting::Plain);
    let pools = |count: usize| -> String {
        let pool = |number| format!("  - name: p{number}\n    queues: [shared, q{number}]\n    workers: 1\n");
        format!("pools:\n{}", (0..count).map(pool).collect::<String>())
    };
    let begun = Instant::now();
    let found = sandbox.run(&["check", "-c", &file(&sandbox, &pools(1000)), "--json"]);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert!(found.status.code().is_some_and(|code| code < 2), "{found:?}");
    let (code, said) = sandbox.refused(&["check", "-c", &file(&sandbox, &pools(1001))]);
    assert!(code == 78 && said.contains("there are 1001 pools, 1000 are the most"), "{code} {said}");
}

/// A worker that requests eight times the job that its own job names, and reads no answer before the last request.
const GREEDY: &str = "import json, socket, time
channel = socket.socket(fileno=3).makefile('rwb')
def say(frame):
    channel.write(json.dumps(frame).encode() + b'\\n')
    channel.flush()
say({'hello': {'protocol': 1, 'sdk': 'greedy'}})
say({'ready': {}})
for line in channel:
    frame = json.loads(line)
    if 'run' in frame:
        job = frame['run']['job']
        if job['class'] == 'Deaf':
            ask = {'call': {'n': 0, 'verb': 'job', 'args': {'id': job['data']}}}
            channel.write((json.dumps(ask) + '\\n').encode() * 200)
            channel.flush()
            open('deaf', 'w').close()
            time.sleep(1000)
        for n in range(8):
            say({'call': {'n': n, 'verb': 'job', 'args': {'id': job['data']}}})
        replies = [json.loads(channel.readline())['reply'] for n in range(8)]
        whole = sum('ok' in reply for reply in replies)
        say({'done': {'job': job['id'], 'fence': job['fence'], 'outcome': 'complete', 'result': [whole, replies[0].get('error')]}})
    elif 'shutdown' in frame:
        break
";

/// A figure of /proc/PID/status, in MB.
fn megabytes(pid: i32, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() >> 10
}

#[test]
fn worker_that_requests_large_jobs_costs_the_supervisor_little_memory() {
    let sandbox = Sandbox::new(Setting::Plain);
    let large = |size: usize| {
        fs::write(sandbox.work("large"), format!("\"{}\"", "x".repeat(size))).unwrap();
    };
    let put = |args: &[&str]| sandbox.ok(args).trim().to_owned();
    large(39 << 20);
    let too_large = put(&["put", "-q", "elsewhere", "-d", "@large", "--", "true"]);
    large(11 << 20);
    let just_fits = put(&["put", "elsewhere", "Large", "@large"]);
    let worker = sandbox.script("greedy.py", GREEDY);
    let _running =
        start(&sandbox, &format!("pools: [{{name: default, workers: 1, command: python3 {worker}}}]\n"));
    let supervisor = sandbox.one("tv-supervisor");
    for (jid, whole, words) in [(&too_large, 0, "40894466 bytes"), (&just_fits, 8, "")] {
        let asking = sandbox.ok(&["put", "default", "Ask", &format!("\"{jid}\"")]).trim().to_owned();
        sandbox.run(&["job", "wait", &asking, "--timeout", "60s"]);
        let job = sandbox.job(&asking);
        assert_eq!(job["state"], "complete", "{job}");
        let result = job["result"].to_string();
        assert!(result.contains(&format!("[{whole},")) && result.contains(words), "{job}");
    }
    let (peak, now) = (megabytes(supervisor, "VmHWM"), megabytes(supervisor, "VmRSS"));
    assert!(peak < 300 && now < 120, "the supervisor took {peak} MB, and has {now} MB");

    // One that asks 200 times and reads no answer is heard no further than the answer that it does not read.
    put(&["put", "default", "Deaf", &format!("\"{just_fits}\"")]);
    wait_until("all is asked", || sandbox.work("deaf").exists());
    (0..50).for_each(|_| drop(sandbox.ok(&["status"])));
    let peak = megabytes(supervisor, "VmHWM");
    assert!(peak < 300, "the supervisor took {peak} MB for answers that nobody reads");
    sandbox.ok(&["stop", "--now"]);
}

#[test]
fn put_of_millions_of_jobs_costs_the_supervisor_little_memory() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "1"]);
    let job = r#"{"queue":"q","class":"c"}"#;
    let body = format!(r#"{{"jobs":[{}]}}"#, vec![job; 2_000_000].join(","));
    let answer = post(&sandbox, "/v1/jobs", &body);
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("50000 are the most"), "{answer}");
    let peak = megabytes(sandbox.one("tv-supervisor"), "VmHWM");
    assert!(peak < 300, "the supervisor took {peak} MB for a body of {} MB", body.len() >> 20);
}

/// Sends a body to the API and returns the whole answer.
fn post(sandbox: &Sandbox, path: &str, body: &str) -> String {
    let mut stream = UnixStream::connect(sandbox.path("run/ctl.sock")).unwrap();
    let head =
        format!("POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}", body.len());
    stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn put_refuses_impossible_program_arguments_and_non_objects() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "1"]);
    let post = |path: &str, body: &str| post(&sandbox, path, body);
    let exec = |exec: &str| format!(r#"{{"jobs": [{{"queue": "q", "class": "exec", "exec": {exec}}}]}}"#);
    for (path, body, words) in [
        ("/v1/jobs", "[[]]".to_owned(), "expected an object"),
        ("/v1/jobs", r#"{"jobs": [[null, "refuse", "q", "c", {"data": "1"}]]}"#.into(), "expected an object"),
        ("/v1/jobs", exec(r#"[["true"], "/", 18]"#), "expected an object"),
        ("/v1/jobs", exec(r#"{"argv": [], "cwd": "/", "umask": "022"}"#), "the command is empty"),
        ("/v1/jobs", exec(r#"{"argv": [""], "cwd": "/", "umask": "022"}"#), "the command is empty"),
        ("/v1/jobs", exec(r#"{"argv": ["a", "b\u0000c"], "cwd": "/", "umask": "022"}"#), "zero byte"),
        ("/v1/jobs", exec(r#"{"argv": ["a"], "cwd": "/\u0000", "umask": "022"}"#), "zero byte"),
        ("/v1/jobs", exec(r#"{"argv": ["a"], "cwd": "/", "umask": "37777777777"}"#), "is no umask"),
        ("/v1/jobs", exec(r#"{"argv": ["a"], "cwd": "a/b", "umask": "022"}"#), "cwd 'a/b' is relative"),
        ("/v1/stop", r#"["graceful"]"#.into(), "expected an object"),
    ] {
        let answer = post(path, &body);
        assert!(answer.starts_with("HTTP/1.1 400") && answer.contains(words), "{body}: {answer}");
    }
    let fine = post("/v1/jobs", &exec(r#"{"argv": ["true"], "cwd": "/", "umask": "022"}"#));
    assert!(fine.starts_with("HTTP/1.1 200"), "{fine}");
}
