//! What the benches measure with: /proc, rusage, and a raw client of the API.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::sandbox::Sandbox;

/// Figures of one kind.
#[derive(Default)]
pub struct Figures(Vec<f64>);

impl Figures {
    pub fn of(value: f64) -> Figures {
        Figures(vec![value])
    }

    pub fn add(&mut self, value: f64) {
        self.0.push(value);
    }

    fn at(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[((sorted.len() - 1) as f64 * share).round() as usize]
    }
}

pub fn row(what: &str, goal: &str, figures: &Figures, unit: &str) {
    let note = format!("n={}", figures.0.len());
    println!("| {what} | {goal} {unit} | {:.2} | {:.2} | {note} |", figures.at(0.5), figures.at(0.99));
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
        let exec = serde_json::json!({"argv": argv, "cwd": self.cwd(), "umask": 18});
        let job = serde_json::json!({"queue": "default", "class": "exec", "payload": {"exec": exec}});
        let body = self.call("POST", "/v1/jobs", &serde_json::json!({ "jobs": [job] }).to_string());
        let answer: serde_json::Value = serde_json::from_str(&body).expect("json");
        answer["ids"][0].as_str().unwrap_or_else(|| panic!("an id in {body}")).to_owned()
    }

    /// Cancels and waits for the proof: milliseconds.
    pub fn cancel(&mut self, jid: &str) -> f64 {
        let start = Instant::now();
        let body = self.call("POST", &format!("/v1/jobs/{jid}/cancel"), "{\"wait\":true}");
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
    taskvisor::clock::now().0
}

/// What the measured program does: write down when its main() began.
pub fn stamp(file: &str) {
    let now = boottime();
    std::fs::write(file, now.to_string()).expect("the stamp");
}

/// CPU time of all children that were waited for, and theirs.
pub fn cpu_of_children() -> Duration {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_CHILDREN).expect("usage");
    let time = |at: nix::sys::time::TimeVal| {
        Duration::from_micros(at.tv_sec() as u64 * 1_000_000 + at.tv_usec() as u64)
    };
    time(usage.user_time()) + time(usage.system_time())
}

/// CPU time of all threads of a process, to the nanosecond.
pub fn cpu_of(pid: i32) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("tasks").flatten();
    let time = |task: std::fs::DirEntry| {
        let line = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        line.split(' ').next().and_then(|nanos| nanos.parse::<u64>().ok()).unwrap_or(0)
    };
    Duration::from_nanos(tasks.map(time).sum())
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

/// Memory of its own in KB, apart from what it only reads.
pub fn private(pid: i32) -> u64 {
    field(&format!("/proc/{pid}/smaps_rollup"), "Private_Dirty:")
}

/// Resident set size in KB.
pub fn rss(pid: i32) -> u64 {
    field(&format!("/proc/{pid}/status"), "VmRSS:")
}

/// Context switches of all threads so far.
pub fn switches(pid: i32) -> u64 {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    let count = |task: std::fs::DirEntry| {
        let status = task.path().join("status").display().to_string();
        field(&status, "voluntary_ctxt_switches:") + field(&status, "nonvoluntary_ctxt_switches:")
    };
    tasks.flatten().map(count).sum()
}
