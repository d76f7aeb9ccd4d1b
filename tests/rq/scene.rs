//! A Redis, the real client of RQ, and a taskvisor on it.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::python;
use crate::redis_server::RedisServer;
use crate::sandbox::{Running, Sandbox, Setting, is_up, wait_until};

pub const NEWEST: &str = "3.0.0";
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The client: it evaluates Python, with RQ at hand.
struct Client {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Client {
    fn new(path: &str, port: u16) -> Client {
        let mut child = Command::new("python3")
            .args([&format!("{ROOT}/tests/rq/client.py"), &port.to_string()])
            .env("PYTHONPATH", path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3");
        let to = child.stdin.take().expect("its input");
        let from = BufReader::new(child.stdout.take().expect("its output"));
        Client { child, to, from }
    }

    fn ask(&mut self, expression: &str) -> Value {
        writeln!(self.to, "{}", expression.replace('\n', " ")).expect("the client listens");
        let mut line = String::new();
        self.from.read_line(&mut line).expect("the client answers");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{expression}: {error}: {line}"))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

pub struct Scene {
    pub server: RedisServer,
    pub sandbox: Sandbox,
    client: RefCell<Client>,
    path: String,
}

impl Scene {
    pub fn new() -> Scene {
        Scene::with(NEWEST)
    }

    /// A scene with a version of RQ.
    pub fn with(version: &str) -> Scene {
        Scene::on(version, &[])
    }

    /// The same with more arguments for the server.
    pub fn on(version: &str, args: &[&str]) -> Scene {
        let server = RedisServer::start_with(args);
        let path = format!("{}:{ROOT}/python:{ROOT}/tests/rq", python::rq(version));
        let client = RefCell::new(Client::new(&path, server.port));
        Scene { client, server, sandbox: Sandbox::new(Setting::Root), path }
    }

    pub fn url(&self) -> String {
        format!("rq+{}", self.server.url())
    }

    /// Starts a supervisor with slots for these queues and waits until they are up.
    pub fn start(&self, args: &[&str]) -> Running<'_> {
        self.start_in(&self.sandbox, &self.url(), args)
    }

    /// The same in another state directory, as on another host.
    pub fn start_in<'a>(&self, sandbox: &'a Sandbox, url: &str, args: &[&str]) -> Running<'a> {
        self.start_workers(sandbox, url, args, &[])
    }

    /// The same with flags for the workers.
    pub fn start_workers<'a>(
        &self,
        sandbox: &'a Sandbox,
        url: &str,
        args: &[&str],
        flags: &[&str],
    ) -> Running<'a> {
        let (path, redis) = (format!("PYTHONPATH={}", self.path), format!("RQ_REDIS_URL={url}"));
        let own = ["--broker", url, "-m", "fork", "--env", &path, "--env", &redis];
        let own = [&own[..], &["--env", "PYTHONDONTWRITEBYTECODE=1", "--grace", "1s"]].concat();
        let args = [&own[..], args, &["--", "python3", "-m", "taskvisor.rq"], flags].concat();
        let running = sandbox.start_with(&args, |_| ());
        wait_until("all slots are up", || is_up(&sandbox.status()));
        running
    }

    /// PYTHONPATH with RQ, our package and the jobs.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Has RQ's client ask the server at another port from now on.
    pub fn ask_at(&self, port: u16) {
        self.client.replace(Client::new(&self.path, port));
    }

    /// Evaluates a Python expression in RQ's client.
    pub fn rq(&self, expression: &str) -> Value {
        let mut answer = self.client.borrow_mut().ask(expression);
        assert!(answer.get("error").is_none(), "{expression}: {answer}");
        answer["ok"].take()
    }

    pub fn text(&self, expression: &str) -> String {
        self.rq(expression).as_str().unwrap_or_else(|| panic!("{expression} is no text")).to_owned()
    }

    /// Puts a job with RQ's client; returns its id.
    pub fn put(&self, call: &str) -> String {
        self.text(&format!("{call}.id"))
    }

    pub fn status(&self, job: &str) -> String {
        self.rq(&format!("status({job:?})")).as_str().unwrap_or("gone").to_owned()
    }

    pub fn wait(&self, job: &str, status: &str) {
        wait_until(&format!("a job is {status}"), || self.status(job) == status);
    }

    pub fn result(&self, job: &str) -> Value {
        self.rq(&format!("job({job:?}).return_value()"))
    }

    /// The failure of a job as RQ reports it.
    pub fn exception(&self, job: &str) -> String {
        self.text(&format!("job({job:?}).latest_result().exc_string"))
    }

    /// A file for jobs and tests.
    pub fn file(&self, name: &str) -> PathBuf {
        self.sandbox.work(name)
    }

    /// Puts a job that runs until the file is removed, and waits until it runs.
    pub fn put_waiting(&self, name: &str, more: &str) -> (String, PathBuf) {
        let file = self.file(name);
        std::fs::write(&file, "").expect("a file");
        let id = self.put(&format!("q().enqueue(tasks.waits, {file:?}{more})"));
        wait_until("the job has begun", || begun(&file).is_some());
        (id, file)
    }

    pub fn lines(&self, name: &str) -> usize {
        std::fs::read_to_string(self.file(name)).unwrap_or_default().lines().count()
    }
}

/// The pid of a job that waits for the removal of its file; `None` before it has begun.
pub fn begun(file: &Path) -> Option<i32> {
    let text = std::fs::read_to_string(format!("{}.begun", file.display())).ok()?;
    text.lines().last()?.parse().ok()
}

/// Stops the supervisor with TERM and waits.
pub fn stop(running: &mut Running<'_>) -> std::process::ExitStatus {
    running.signal("TERM");
    running.wait()
}
