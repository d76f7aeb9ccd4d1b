//! The jobs of a round: what was put and acknowledged, and what each run said.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use serde_json::{Value, json};

use crate::blows::now;
use crate::python;
use crate::random::Random;
use crate::sandbox::Sandbox;
use crate::servers::{Broker, Server};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// Most jobs of a round.
const MOST: usize = 300;

/// A job that was acknowledged.
#[derive(Clone, Debug)]
pub struct Job {
    pub name: String,
    pub id: String,
    pub put_at: u64,
    /// The runs that fail by themselves.
    pub fails: u64,
    pub retries: u64,
    /// Somebody asked for its end, acknowledged or not.
    pub canceled: bool,
    /// Somebody retried it by hand.
    pub retried: bool,
}

/// What the runs of a job said.
#[derive(Debug, Default)]
pub struct Said {
    /// When each run began; the process of each.
    pub begun: Vec<(i32, u64)>,
    pub ended: Vec<u64>,
    /// Whether a run began beside something of another.
    pub twice: bool,
}

impl Said {
    pub fn of(sandbox: &Sandbox, name: &str) -> Said {
        let mut said = Said::default();
        for line in fs::read_to_string(sandbox.work("said").join(name)).unwrap_or_default().lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["begun", pid, at] => said.begun.push((pid.parse().unwrap(), at.parse().unwrap())),
                ["ended", at] => said.ended.push(at.parse().unwrap()),
                ["twice"] => said.twice = true,
                _ => {}
            }
        }
        said
    }
}

/// All acknowledged jobs.
#[derive(Default)]
pub struct Jobs(Mutex<Vec<Job>>);

impl Jobs {
    pub fn all(&self) -> Vec<Job> {
        self.0.lock().unwrap().clone()
    }

    pub fn change(&self, id: &str, change: impl FnOnce(&mut Job)) {
        if let Some(job) = self.0.lock().unwrap().iter_mut().find(|job| job.id == id) {
            change(job);
        }
    }
}

/// Puts jobs, and remembers which were acknowledged.
pub struct Putter<'a> {
    sandbox: &'a Sandbox,
    random: &'a Random,
    jobs: &'a Jobs,
    /// The pools; jobs of a pool wait in its queue.
    pools: &'a [&'static str],
    url: String,
    rq: Option<Rq>,
    number: usize,
}

impl<'a> Putter<'a> {
    pub fn new(
        server: &Server,
        sandbox: &'a Sandbox,
        pools: &'a [&'static str],
        random: &'a Random,
        jobs: &'a Jobs,
    ) -> Putter<'a> {
        let rq = server.port().filter(|_| server.broker == Broker::rq).map(Rq::new);
        Putter { sandbox, random, jobs, pools, url: server.url(), rq, number: 0 }
    }

    /// Puts one to four jobs for one pool. Gives how many were asked for.
    pub fn put(&mut self) -> usize {
        if self.number >= MOST {
            return 0;
        }
        let pool = self.random.pick(self.pools).unwrap();
        let fails = u64::from(self.random.dice(5) == 0);
        let retries = if self.random.dice(4) == 0 { 0 } else { 6 };
        let count = 1 + self.random.dice(4) as usize;
        let jobs: Vec<Job> = (0..count).map(|_| self.next(pool, fails, retries)).collect();
        let ids = match &mut self.rq {
            Some(rq) => jobs.iter().map(|job| rq.put(self.sandbox, job)).collect(),
            None => self.put_lines(pool, &jobs),
        };
        let put = jobs.into_iter().zip(ids).filter_map(|(job, id)| id.map(|id| Job { id, ..job }));
        self.jobs.0.lock().unwrap().extend(put);
        count
    }

    fn next(&mut self, pool: &str, fails: u64, retries: u64) -> Job {
        self.number += 1;
        let lasts = [0.0, 0.1, 0.3, 0.6, 1.5, 4.0][self.random.dice(6) as usize];
        let kind = if pool == "programs" && self.random.dice(4) == 0 { "leaves" } else { "plain" };
        let name = format!("{}-{lasts}-{fails}-{kind}", self.number);
        Job { name, id: String::new(), put_at: now(), fails, retries, canceled: false, retried: false }
    }

    /// Puts them in one call, each by a line of its stdin; gives the ids of those that were acknowledged.
    fn put_lines(&self, pool: &str, jobs: &[Job]) -> Vec<Option<String>> {
        let retries = jobs[0].retries.to_string();
        let script = self.sandbox.work("job.sh").display().to_string();
        let mut args = vec!["put", "--lines", "--retries", &retries];
        args.extend(match pool {
            "programs" => vec!["--", &script],
            "coroutine" => vec!["coroutine", "soak.async"],
            pool => vec![pool, "soak"],
        });
        let line = |job: &Job| match pool {
            "programs" => format!("said/{}\n", job.name),
            _ => json!(arguments(self.sandbox, job)).to_string() + "\n",
        };
        let mut command = crate::round::with_broker(self.sandbox.command(&args), &self.url);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        // It may have ended without reading all.
        let lines: String = jobs.iter().map(line).collect();
        child.stdin.take().unwrap().write_all(lines.as_bytes()).ok();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let ids: Vec<Option<String>> =
            text.lines().map(|id| (!id.is_empty()).then(|| id.to_owned())).collect();
        assert!(ids.len() == jobs.len() || !output.status.success(), "as many ids as lines: {text}");
        ids
    }
}

/// Path, duration and failures of a job.
fn arguments(sandbox: &Sandbox, job: &Job) -> Vec<Value> {
    let lasts: f64 = job.name.split('-').nth(1).unwrap().parse().unwrap();
    vec![sandbox.work("said").join(&job.name).display().to_string().into(), lasts.into(), job.fails.into()]
}

/// The real client of RQ.
struct Rq(Child, BufReader<std::process::ChildStdout>);

impl Rq {
    fn new(port: u16) -> Rq {
        let mut child = Command::new("python3")
            .args([&format!("{ROOT}/tests/soak/soak_jobs.py"), &port.to_string()])
            .env("PYTHONPATH", python::rq("3.0.0"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Rq(child, answers)
    }

    /// Gives the id if it was acknowledged.
    fn put(&mut self, sandbox: &Sandbox, job: &Job) -> Option<String> {
        let mut line = arguments(sandbox, job);
        line.push(job.retries.into());
        writeln!(self.0.stdin.as_mut().unwrap(), "{}", json!(line)).unwrap();
        let mut answer = String::new();
        self.1.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap()
    }
}

impl Drop for Rq {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
