//! A Redis with the tutorial's keys, and a taskvisor on it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;

use redis::{Connection, FromRedisValue};
use serde_json::{Value, json};

use crate::sandbox::{Running, Sandbox, Setting, is_up, wait_until};
use crate::support::RedisServer;

pub struct Scene {
    pub server: RedisServer,
    pub url: String,
    pub sandbox: Sandbox,
    redis: RefCell<Connection>,
}

impl Scene {
    pub fn new() -> Scene {
        Scene::on(RedisServer::start())
    }

    pub fn on(server: RedisServer) -> Scene {
        let url = format!("reliable+{}?exec=yes", server.url());
        let redis = RefCell::new(server.connect());
        Scene { server, url, sandbox: Sandbox::new(Setting::Root), redis }
    }

    /// Starts a supervisor and waits until its slots are up.
    pub fn start(&self, args: &[&str]) -> Running<'_> {
        start(&self.sandbox, &self.url, args)
    }

    /// Runs a plain Redis command.
    pub fn raw<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let asked = redis::cmd(words[0]).arg(&words[1..]).query(&mut *self.redis.borrow_mut());
        asked.unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// Connects to the restarted server.
    pub fn connect_again(&mut self, server: RedisServer) {
        self.redis = RefCell::new(server.connect());
        self.server = server;
    }

    /// Puts as the tutorial's producers do: two calls, nothing published.
    pub fn enqueue(&self, id: &str, value: &str) {
        self.raw::<i64>(&["HSET", "values", id, value]);
        self.raw::<i64>(&["LPUSH", "pending", id]);
    }

    /// Puts a value that runs a shell script in the work directory. Two that run at once for one id leave a file.
    pub fn shell(&self, id: &str, script: &str) {
        let lock = format!("exec 9>>lock-{id}; flock -n 9 || echo {id} >>doubles; {script}");
        let cwd = self.sandbox.path("work");
        let value = json!({"class": "exec", "data": {"argv": ["/bin/sh", "-c", lock], "cwd": cwd}});
        self.enqueue(id, &value.to_string());
    }

    pub fn result(&self, id: &str) -> Option<String> {
        self.raw(&["HGET", "results", id])
    }

    pub fn results(&self) -> BTreeMap<String, String> {
        self.raw(&["HGETALL", "results"])
    }

    pub fn pending(&self) -> Vec<String> {
        self.raw(&["LRANGE", "pending", "0", "-1"])
    }

    pub fn working(&self) -> Vec<String> {
        self.raw(&["ZRANGE", "working", "0", "-1"])
    }

    /// The dead letter of a job: why it is not retried.
    pub fn dead(&self, id: &str) -> Option<Value> {
        let text: Option<String> = self.raw(&["HGET", "taskvisor:dead", id]);
        text.map(|text| serde_json::from_str(text.split_once(' ').expect("a fence").1).expect("JSON"))
    }

    pub fn said(&self, name: &str) -> String {
        fs::read_to_string(self.sandbox.work(name)).unwrap_or_default()
    }

    pub fn jobs(&self, args: &[&str]) -> Vec<Value> {
        self.sandbox.lines(&[&["job", "list", "--json"], args].concat())
    }

    /// The server's time, in seconds.
    pub fn time(&self) -> f64 {
        let (seconds, micros): (i64, i64) = self.raw(&["TIME"]);
        seconds as f64 + micros as f64 / 1e6
    }

    /// Waits until all jobs are done; asserts that none ran at two places at a time and that no bookkeeping is left.
    #[track_caller]
    pub fn assert_done(&self, ids: &[String]) {
        wait_until("all have results", || {
            let results = self.results();
            ids.iter().all(|id| results.contains_key(id))
        });
        wait_until("nothing waits or runs", || self.pending().is_empty() && self.working().is_empty());
        assert_eq!(self.said("doubles"), "", "ran at two places at a time");
        for key in ["taskvisor:until", "taskvisor:jobs", "taskvisor:dead"] {
            assert_eq!(self.raw::<i64>(&["EXISTS", key]), 0, "{key}");
        }
    }
}

/// Starts a supervisor and waits until its slots are up.
pub fn start<'a>(sandbox: &'a Sandbox, url: &str, args: &[&str]) -> Running<'a> {
    let running = sandbox.start_raw(&[&["--broker", url], args].concat());
    wait_until("all slots are up", || is_up(&sandbox.status()));
    running
}

/// The ids of `count` jobs.
pub fn ids(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("j{n}")).collect()
}
