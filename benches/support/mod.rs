//! Shared by the benches: /proc, rusage, and a raw client of the API.

// Each bench uses only a part of this module.
#![allow(dead_code)]

pub mod profile;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::poll::{PollFd, PollFlags, poll};

use crate::sandbox::Sandbox;

/// Samples of one figure.
#[derive(Default)]
pub struct Figures(Vec<f64>);

impl Figures {
    pub fn of(value: f64) -> Figures {
        Figures(vec![value])
    }

    pub fn add(&mut self, value: f64) {
        self.0.push(value);
    }

    pub fn median(&self) -> f64 {
        self.at(0.5)
    }

    fn at(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[((sorted.len() - 1) as f64 * share).round() as usize]
    }
}

/// Prints the table: all rows, or those named after `--only`; the row `long` only on request.
pub fn table(rows: &[(&str, fn())], long: &str) {
    let args: Vec<String> = std::env::args().collect();
    let wanted = |name: &str| match args.iter().position(|arg| arg == "--only") {
        Some(at) => args[at + 1..].iter().any(|arg| arg == name),
        None => name != long || is_long(),
    };
    println!("| what | to reach | median | p99 | note |\n|---|---|---|---|---|");
    rows.iter().filter(|(name, _)| wanted(name)).for_each(|(_, measure)| measure());
}

/// Whether `--long` was given.
pub fn is_long() -> bool {
    std::env::args().any(|arg| arg == "--long")
}

/// Prints a row. A goal is `>= 2`, `<= 2` or `2`, compared with the median; a row without a goal is for information.
pub fn row(what: &str, goal: &str, figures: &Figures, unit: &str) {
    let median = figures.at(0.5);
    let number = |text: &str| text.trim().parse::<f64>().expect("a number in the goal");
    let reached = match (goal.strip_prefix(">="), goal.strip_prefix("<=")) {
        (Some(least), _) => median >= number(least),
        (_, Some(most)) => median <= number(most),
        _ => goal.is_empty() || median == number(goal),
    };
    let verdict = match (goal.is_empty(), reached) {
        (true, _) => "",
        (false, true) => "reached, ",
        (false, false) => "**missed**, ",
    };
    let goal = if goal.is_empty() { String::new() } else { format!("{goal} {unit}") };
    let count = figures.0.len();
    let range = match count {
        2..=20 => format!(", {:.2} to {:.2}", figures.at(0.0), figures.at(1.0)),
        _ => String::new(),
    };
    let note = format!("{verdict}n={count}{range}");
    println!("| {what} | {goal} | {median:.2} {unit} | {:.2} | {note} |", figures.at(0.99));
}

/// Runs a program with this on its stdin.
pub fn feed(mut command: Command, input: &str) -> Output {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a child");
    Write::write_all(&mut child.stdin.take().expect("stdin"), input.as_bytes()).expect("input");
    child.wait_with_output().expect("the child")
}

pub fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// A fresh connection to a supervisor's API.
pub struct Api(UnixStream);

impl Api {
    pub fn connect(sandbox: &Sandbox) -> Api {
        Api(UnixStream::connect(sandbox.path("run").join("ctl.sock")).expect("a supervisor"))
    }

    pub fn answers(sandbox: &Sandbox) -> bool {
        let Ok(stream) = UnixStream::connect(sandbox.path("run").join("ctl.sock")) else { return false };
        stream.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
        let mut api = Api(stream);
        api.try_call("GET", "/v1/status", "").is_some_and(|body| body.contains("\"pools\""))
    }

    pub fn put(&mut self, argv: &[&str]) -> String {
        let exec = serde_json::json!({"argv": argv, "cwd": self.cwd(), "umask": "022"});
        let job = serde_json::json!({"queue": "default", "class": "exec", "exec": exec});
        let body = self.call("POST", "/v1/jobs", &serde_json::json!({ "jobs": [job] }).to_string());
        let answer: serde_json::Value = serde_json::from_str(&body).expect("json");
        answer["ids"][0].as_str().unwrap_or_else(|| panic!("an id in {body}")).to_owned()
    }

    /// Puts a job of a class.
    pub fn put_class(&mut self, class: &str) -> String {
        self.put_classes("default", &[class]).remove(0)
    }

    /// Puts a job of each class into a queue.
    pub fn put_classes(&mut self, queue: &str, classes: &[&str]) -> Vec<String> {
        let job = |class| serde_json::json!({"queue": queue, "class": class, "data": {}});
        let jobs: Vec<_> = classes.iter().map(job).collect();
        let body = self.call("POST", "/v1/jobs", &serde_json::json!({ "jobs": jobs }).to_string());
        let answer: serde_json::Value = serde_json::from_str(&body).expect("json");
        let ids = answer["ids"].as_array().unwrap_or_else(|| panic!("ids in {body}"));
        ids.iter().map(|id| id.as_str().expect("an id").to_owned()).collect()
    }

    /// GETs a path.
    pub fn get(&mut self, path: &str) -> serde_json::Value {
        serde_json::from_str(&self.call("GET", path, "")).expect("json")
    }

    /// GETs a path as text; returns the milliseconds too.
    pub fn time(&mut self, path: &str) -> (f64, String) {
        let start = Instant::now();
        let text = self.call("GET", path, "");
        (start.elapsed().as_secs_f64() * 1e3, text)
    }

    /// POSTs a body to a path.
    pub fn post(&mut self, path: &str, body: &str) {
        self.call("POST", path, body);
    }

    /// Resumes a queue.
    pub fn resume(&mut self, queue: &str) {
        self.call("POST", &format!("/v1/queues/{queue}/resume"), "{}");
    }

    /// Cancels a job and waits for the proof of death; returns the milliseconds.
    pub fn cancel(&mut self, jid: &str) -> f64 {
        let start = Instant::now();
        self.call("POST", "/v1/cancel", &serde_json::json!({ "jobs": [jid] }).to_string());
        let body = self.call("GET", &format!("/v1/jobs/{jid}/wait"), "");
        let took = start.elapsed().as_secs_f64() * 1e3;
        assert!(body.contains("\"canceled\""), "{body}");
        took
    }

    fn cwd(&self) -> String {
        let address = self.0.peer_addr().expect("an address");
        let run = address.as_pathname().expect("a path").parent().expect("the run dir");
        run.parent().expect("the sandbox").join("work").display().to_string()
    }

    fn call(&mut self, method: &str, path: &str, body: &str) -> String {
        self.try_call(method, path, body).expect("an answer")
    }

    fn try_call(&mut self, method: &str, path: &str, body: &str) -> Option<String> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: taskvisor\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.0.write_all(format!("{head}{body}").as_bytes()).ok()?;
        let mut reader = BufReader::new(&self.0);
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        String::from_utf8(body).ok()
    }
}

pub fn boottime() -> u64 {
    clock::now().0
}

/// A program that records when its main() began.
pub fn stamp(file: &str) {
    let now = boottime();
    std::fs::write(file, now.to_string()).expect("the stamp");
}

/// CPU time of all children that were waited for, with their descendants.
pub fn cpu_of_children() -> Duration {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_CHILDREN).expect("usage");
    let time = |at: nix::sys::time::TimeVal| {
        Duration::from_micros(at.tv_sec() as u64 * 1_000_000 + at.tv_usec() as u64)
    };
    time(usage.user_time()) + time(usage.system_time())
}

/// CPU time of all threads of a process, to the nanosecond.
pub fn cpu_of(pid: i32) -> Duration {
    threads(pid).values().map(|thread| thread.cpu).sum()
}

/// CPU time of the children that a process has waited for, with their descendants; `None` when it is gone.
pub fn cpu_of_reaped(pid: i32) -> Duration {
    let stat = stat(pid);
    let ticks = stat.iter().skip(13).take(2).map(|ticks| ticks.parse::<u64>().expect("ticks")).sum::<u64>();
    Duration::from_millis(ticks * 10)
}

/// The fields of a process's `stat` after its name, the state first; `None` when it is gone.
fn stat(pid: i32) -> Vec<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = text.rsplit_once(") ").map(|(_, fields)| fields).unwrap_or_default();
    fields.split_whitespace().map(str::to_owned).collect()
}

/// Whether the process is a zombie.
pub fn is_zombie(pid: i32) -> bool {
    stat(pid).first().is_some_and(|state| state == "Z")
}

/// Waits for the end of a process; returns its wall clock time in milliseconds.
pub fn end_of(pid: i32) -> f64 {
    let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
    if let Ok(process) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
        let mut ends = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut ends, 60_000_u16), Ok(1), "process {pid:?} does not end");
    }
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs_f64() * 1e3
}

/// CPU time and context switches of a thread so far.
#[derive(Clone, Copy, Default)]
pub struct Thread {
    pub cpu: Duration,
    pub switches: u64,
}

/// The threads of a process by name, summed for equal names; empty when it is gone.
pub fn threads(pid: i32) -> BTreeMap<String, Thread> {
    let mut threads: BTreeMap<String, Thread> = BTreeMap::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let nanos = read("schedstat").split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0);
        let thread = threads.entry(read("comm").trim().to_owned()).or_default();
        thread.cpu += Duration::from_nanos(nanos);
        thread.switches += switches_of(&task.path());
    }
    threads
}

/// A process and all its descendants.
pub fn tree(pid: i32) -> Vec<i32> {
    let mut found = vec![pid];
    for child in children(pid) {
        found.extend(tree(child));
    }
    found
}

pub fn children(pid: i32) -> Vec<i32> {
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

pub fn comm(pid: i32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

fn field(path: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().find_map(|word| word.parse().ok()).unwrap_or(0)
}

/// Proportional set size in KB.
pub fn pss(pid: i32) -> u64 {
    field(&format!("/proc/{pid}/smaps_rollup"), "Pss:")
}

/// Private dirty memory in KB.
pub fn private(pid: i32) -> u64 {
    field(&format!("/proc/{pid}/smaps_rollup"), "Private_Dirty:")
}

/// Resident set size in KB.
pub fn rss(pid: i32) -> u64 {
    field(&format!("/proc/{pid}/status"), "VmRSS:")
}

/// Number of open descriptors.
pub fn descriptors(pid: i32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).expect("descriptors").count()
}

/// Context switches of all threads so far.
pub fn switches(pid: i32) -> u64 {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    tasks.flatten().map(|task| switches_of(&task.path())).sum()
}

fn switches_of(task: &std::path::Path) -> u64 {
    let status = task.join("status").display().to_string();
    field(&status, "voluntary_ctxt_switches:") + field(&status, "nonvoluntary_ctxt_switches:")
}
