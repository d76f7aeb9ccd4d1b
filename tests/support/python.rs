//! Python workers with the package of this tree and the application of `app.py`.

// Each test binary uses only a part of this module.
#![allow(dead_code)]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::sandbox::{Running, Sandbox, Setting, wait_until};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The PYTHONPATH of the workers.
pub fn path() -> String {
    format!("{ROOT}/python:{ROOT}/tests/support")
}

/// The directory in which this version of RQ is installed, once for all tests.
pub fn rq(version: &str) -> String {
    let script = format!("import rq_installed; print(rq_installed.site('{version}'))");
    let mut python = Command::new("python3");
    python.args(["-c", &script]).env("PYTHONPATH", format!("{ROOT}/python/tests"));
    let output = python.output().expect("python3");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("a path").trim().to_owned()
}

pub fn new() -> Sandbox {
    Sandbox::new(Setting::Root)
}

/// Starts a pool in this mode with this application.
pub fn start<'a>(sandbox: &'a Sandbox, mode: &str, module: &str, options: &[&str]) -> Running<'a> {
    let env = format!("PYTHONPATH={}", path());
    let args = ["-m", mode, "--env", &env, "--env", "PYTHONDONTWRITEBYTECODE=1", "--retries", "0"];
    let options = [options, if options.contains(&"--grace") { &[] } else { &["--grace", "1s"] }].concat();
    let command = ["--", "python3", "-m", "taskvisor.worker", module];
    sandbox.start(&args.iter().chain(&options).chain(&command).copied().collect::<Vec<_>>())
}

/// Starts a supervisor with this settings file. `PYTHON` in it stands for the settings of a pool of Python workers, up
/// to the module's name.
pub fn start_file<'a>(sandbox: &'a Sandbox, text: &str) -> Running<'a> {
    let path = file(sandbox, text);
    sandbox.start(&["-c", &path])
}

/// Writes such a settings file.
pub fn file(sandbox: &Sandbox, text: &str) -> String {
    let env = format!("env: {{set: {{PYTHONPATH: '{}', PYTHONDONTWRITEBYTECODE: '1'}}}}", path());
    let text = text.replace("PYTHON ", &format!("{env}, retries: 0, command: python3 -m taskvisor.worker "));
    let path = sandbox.work("pools.yaml");
    fs::write(&path, text).expect("a file of pools");
    path.display().to_string()
}

/// Puts a job of a class and returns its jid.
pub fn put(sandbox: &Sandbox, class: &str, data: &str) -> String {
    sandbox.ok(&["put", "default", class, data]).trim().to_owned()
}

/// Puts one job for each line of data in one call.
pub fn put_lines(
    sandbox: &Sandbox,
    queue: &str,
    class: &str,
    options: &[&str],
    data: &[String],
) -> Vec<String> {
    let input = sandbox.work(".lines");
    fs::write(&input, data.join("\n") + "\n").expect("lines");
    let args: Vec<&str> = ["put", "--lines"].iter().chain(options).copied().chain([queue, class]).collect();
    let mut command = sandbox.command(&args);
    let output = command.stdin(fs::File::open(&input).expect("lines")).output().expect("put");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
}

/// Waits for the end of a job and returns its record.
pub fn ended(sandbox: &Sandbox, jid: &str) -> Value {
    sandbox.run(&["job", "wait", jid, "--timeout", "40s"]);
    sandbox.job(jid)
}

/// Runs a job to its end and returns its record.
pub fn run(sandbox: &Sandbox, class: &str, data: &str) -> Value {
    let jid = put(sandbox, class, data);
    ended(sandbox, &jid)
}

/// The result of a complete job.
#[track_caller]
pub fn result(job: &Value) -> Value {
    assert_eq!(job["state"], "complete", "{job}");
    job["result"].clone()
}

/// Attempt, crashes and interruptions of a job.
pub fn counts(job: &Value) -> [u64; 3] {
    ["attempt", "crashes", "interruptions"].map(|name| job[name].as_u64().expect("a number"))
}

/// All jobs in a state.
pub fn all(sandbox: &Sandbox, state: &str) -> Vec<Value> {
    sandbox.lines(&["job", "list", "-s", state, "-n", "2000", "--json"])
}

pub fn pool(sandbox: &Sandbox, name: &str) -> Value {
    let status = sandbox.status();
    let pools = status["pools"].as_array().into_iter().flatten();
    pools.into_iter().find(|pool| pool["name"] == name).cloned().unwrap_or_default()
}

pub fn slots(sandbox: &Sandbox) -> Vec<Value> {
    pool(sandbox, "default")["slots"].as_array().cloned().unwrap_or_default()
}

/// Waits for a file that a job writes, and returns its text.
pub fn word(sandbox: &Sandbox, name: &str) -> String {
    let path = sandbox.work(name);
    wait_until(&format!("there is a file {name}"), || path.exists());
    fs::read_to_string(path).expect("a word")
}

/// The number of such files with this prefix.
pub fn words(sandbox: &Sandbox, kind: &str) -> usize {
    let found = fs::read_dir(sandbox.path("work")).expect("a directory").flatten();
    found.filter(|entry| entry.file_name().to_string_lossy().starts_with(kind)).count()
}

pub fn touch(sandbox: &Sandbox, name: &str) {
    fs::write(sandbox.work(name), "").expect("a file");
}

pub fn pid_of(status: &Value) -> i32 {
    status["pid"].as_i64().unwrap_or_else(|| panic!("no pid: {status}")) as i32
}

pub fn parent(pid: i32) -> i32 {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).expect("a process");
    let fields = &stat[stat.rfind(')').expect("a name") + 2..];
    fields.split(' ').nth(1).expect("a parent").parse().expect("a pid")
}
