//! The brokers, each with its own server, and the outages of that server.

// Each test binary uses only a part of this module.
#![allow(dead_code)]

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rusqlite::Connection;
use serde_json::json;

use crate::fake::{FakeSqs, Knobs};
use crate::outage::Outage;
use crate::proxy::{Flow, Proxy};
use crate::python;
use crate::redis_server::RedisServer;
use crate::sandbox::{Sandbox, kill, wait_until};

/// From a failure to its retry: shorter than an outage.
const RETRY_DELAY: Duration = Duration::from_secs(4);
const PUT_OF_RQ: &str = "import sys, json, redis, rq
q, ids = rq.Queue('default', connection=redis.Redis(port=int(sys.argv[1]))), []
for script, needs in json.loads(sys.argv[3]):
    retry, needs = rq.Retry(max=1, interval=int(sys.argv[2])), [] if needs is None else [ids[needs]]
    ids.append(q.enqueue('subprocess.check_call', ['sh', '-c', script], retry=retry, depends_on=needs).id)
print('\\n'.join(ids))";
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A kind of broker.
#[allow(non_camel_case_types, reason = "these are also the names of the modules of tests")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broker {
    embedded,
    qless,
    rq,
    reliable,
    sqs,
}

impl Broker {
    /// Whether its jobs can wait for the end of others.
    pub fn knows_needs(self) -> bool {
        matches!(self, Broker::embedded | Broker::qless | Broker::rq)
    }

    /// Whether hosts share it; each host of SQS may get what another one could not hide in time.
    pub fn is_shared(self) -> bool {
        self != Broker::sqs
    }
}

/// A broker of a test: where its jobs wait.
pub struct Server {
    pub broker: Broker,
    service: Service,
    store_lock: Option<Connection>,
}

enum Service {
    Store(String),
    Redis { server: Option<RedisServer>, port: u16, dir: tempfile::TempDir, proxy: Proxy },
    Sqs(FakeSqs),
}

impl Server {
    /// Starts a server; the embedded store is in the sandbox.
    pub fn start(broker: Broker, sandbox: &Sandbox) -> Server {
        Server::start_with(broker, &sandbox.path("jobs.db"))
    }

    /// The same with the embedded store in this file.
    pub fn start_with(broker: Broker, store: &Path) -> Server {
        let service = match broker {
            Broker::embedded => Service::Store(store.display().to_string()),
            Broker::qless | Broker::rq | Broker::reliable => redis(),
            Broker::sqs => Service::Sqs(FakeSqs::start()),
        };
        Server { broker, service, store_lock: None }
    }

    /// Its address for supervisors.
    pub fn url(&self) -> String {
        let scheme = match self.broker {
            Broker::rq => "rq+",
            Broker::reliable => "reliable+",
            Broker::embedded | Broker::qless | Broker::sqs => "",
        };
        let more = if self.broker == Broker::reliable { "?exec=yes" } else { "" };
        match &self.service {
            Service::Store(path) => format!("sqlite:{path}"),
            Service::Redis { proxy, .. } => format!("{scheme}{}{more}", proxy.url()),
            Service::Sqs(fake) => {
                format!("sqs://eu-west-1?endpoint={}&create=yes&exec=yes", fake.endpoint())
            }
        }
    }

    /// The port of its Redis, past the proxy.
    pub fn port(&self) -> Option<u16> {
        match &self.service {
            Service::Redis { port, .. } => Some(*port),
            Service::Store(_) | Service::Sqs(_) => None,
        }
    }

    /// Makes it slow: Redis answers nothing for three seconds, SQS takes a second for each call, refuses and drops
    /// some. `Server::end` undoes what does not end by itself.
    pub fn slow(&mut self) {
        match &self.service {
            Service::Redis { server: Some(server), .. } => ask(server, &["CLIENT", "PAUSE", "3000", "ALL"]),
            Service::Sqs(fake) => fake.knobs(|knobs| {
                knobs.latency = Duration::from_secs(1);
                (knobs.throttle, knobs.fail_entries, knobs.drop_replies) = (20, 10, 10);
            }),
            Service::Redis { .. } | Service::Store(_) => {}
        }
    }

    /// The settings of a pool that runs its jobs.
    pub fn pool(&self) -> String {
        if self.broker != Broker::rq {
            return format!(", retries: 1, retry_delay: {}s", RETRY_DELAY.as_secs());
        }
        let path = format!("{}:{ROOT}/python", python::rq("3.0.0"));
        format!(
            ", mode: fork, command: python3 -m taskvisor.rq, env: {{set: {{PYTHONPATH: '{path}', \
             RQ_REDIS_URL: '{}', PYTHONDONTWRITEBYTECODE: '1'}}}}",
            self.url()
        )
    }

    /// Puts jobs that run shell scripts, each once the one at that place is complete, with one retry; gives their ids.
    pub fn put(&self, sandbox: &Sandbox, scripts: &[(String, Option<usize>)]) -> Vec<String> {
        let (Service::Redis { port, .. }, Broker::rq) = (&self.service, self.broker) else {
            let mut ids: Vec<String> = Vec::new();
            for (script, needs) in scripts {
                let needs = needs.map(|place| format!("--depends={}", ids[place]));
                let words = needs.iter().map(String::as_str).chain(["--", "sh", "-c", script]);
                let words: Vec<_> = ["put"].into_iter().chain(words).collect();
                ids.push(sandbox.ok(&words).trim().to_owned());
            }
            return ids;
        };
        let mut python = Command::new("python3");
        python.args(["-c", PUT_OF_RQ, &port.to_string(), &RETRY_DELAY.as_secs().to_string()]);
        python.arg(json!(scripts).to_string()).env("PYTHONPATH", python::rq("3.0.0"));
        let output = python.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().map(Into::into).collect()
    }

    /// Begins the part of an outage that happens to the server.
    pub fn begin(&mut self, outage: Outage) {
        match (&mut self.service, outage) {
            (Service::Store(path), Outage::StoreLocked) => {
                let other = Connection::open(path).unwrap();
                other.busy_timeout(Duration::from_secs(20)).unwrap();
                other.execute_batch("BEGIN IMMEDIATE").unwrap();
                self.store_lock = Some(other);
            }
            (Service::Redis { server: Some(server), .. }, Outage::ServerStill | Outage::AllStill) => {
                kill(server.pid() as i32, "STOP");
            }
            (Service::Redis { server, .. }, Outage::ServerKilled) => drop(server.take()),
            (Service::Redis { server: Some(server), .. }, Outage::ReadOnly) => {
                ask(server, &["REPLICAOF", "127.0.0.1", "1"]);
            }
            (Service::Redis { server: Some(server), .. }, Outage::Full) => {
                ask(server, &["CONFIG", "SET", "maxmemory", "1"]);
            }
            (Service::Redis { proxy, .. }, Outage::NetworkLost) => proxy.swallow(Flow::Both),
            (Service::Sqs(fake), Outage::Unanswered) => {
                fake.knobs(|knobs| knobs.stalled = ACTIONS.map(Into::into).to_vec());
            }
            (Service::Sqs(fake), Outage::Unhidden) => {
                fake.knobs(|knobs| knobs.stalled = vec!["ChangeMessageVisibilityBatch".into()]);
            }
            (Service::Sqs(fake), Outage::Gone) => fake.knobs(|knobs| knobs.gone = true),
            (Service::Sqs(fake), Outage::Denied) => fake.knobs(|knobs| knobs.access_denied = true),
            (_, Outage::SupervisorStopped | Outage::HostStill) => {}
            (_, outage) => panic!("{:?} has no outage {outage:?}", self.broker),
        }
    }

    /// Ends what [`Server::begin`] began.
    pub fn end(&mut self, outage: Outage) {
        match (&mut self.service, outage) {
            (Service::Redis { server: Some(server), .. }, Outage::ServerStill | Outage::AllStill) => {
                kill(server.pid() as i32, "CONT");
            }
            (Service::Redis { server, port, dir, .. }, Outage::ServerKilled) => {
                wait_until("the server is there again", || {
                    *server = durable(*port, dir);
                    server.is_some()
                });
            }
            (Service::Redis { server: Some(server), .. }, Outage::ReadOnly) => {
                ask(server, &["REPLICAOF", "NO", "ONE"]);
            }
            (Service::Redis { server: Some(server), .. }, Outage::Full) => {
                ask(server, &["CONFIG", "SET", "maxmemory", "0"]);
            }
            (Service::Redis { proxy, .. }, Outage::NetworkLost) => {
                proxy.pass_on();
                proxy.cut();
            }
            (Service::Sqs(fake), _) => fake.knobs(|knobs| *knobs = Knobs::default()),
            (_, _) => self.store_lock = None,
        }
    }

    /// How often the broker has a put job: SQS keeps each message of a put that was sent again without an answer.
    pub fn copies(&self, job: &str) -> u64 {
        match &self.service {
            Service::Sqs(fake) => fake.sent_for(job).max(1),
            Service::Store(_) | Service::Redis { .. } => 1,
        }
    }

    /// What is left of jobs at the broker after all are complete; empty if it is as it should be.
    pub fn left(&self) -> String {
        match (&self.service, self.broker) {
            (Service::Sqs(fake), _) => fake.bodies("default").join("\n"),
            (Service::Redis { server: Some(server), .. }, Broker::reliable) => {
                let mut redis = server.connect();
                let mut count = |words: &[&str]| -> i64 {
                    redis::cmd(words[0]).arg(&words[1..]).query(&mut redis).unwrap()
                };
                let left = [
                    ("pending", count(&["LLEN", "pending"])),
                    ("working", count(&["ZCARD", "working"])),
                    ("taskvisor:jobs", count(&["HLEN", "taskvisor:jobs"])),
                    ("taskvisor:dead", count(&["HLEN", "taskvisor:dead"])),
                ];
                let left = left.iter().filter(|(_, count)| *count > 0);
                left.map(|(key, count)| json!({ *key: count }).to_string()).collect()
            }
            (Service::Redis { .. } | Service::Store(_), _) => String::new(),
        }
    }
}

const ACTIONS: [&str; 6] = [
    "ReceiveMessage",
    "DeleteMessageBatch",
    "ChangeMessageVisibilityBatch",
    "SendMessageBatch",
    "GetQueueUrl",
    "GetQueueAttributes",
];

/// A server that keeps its data in a directory, behind a proxy.
fn redis() -> Service {
    let dir = tempfile::tempdir().unwrap();
    let mut found = None;
    wait_until("a server is there", || {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        found = durable(port, &dir);
        found.is_some()
    });
    let server = found.unwrap();
    let (port, proxy) = (server.port, Proxy::to(server.port));
    Service::Redis { server: Some(server), port, dir, proxy }
}

fn durable(port: u16, dir: &tempfile::TempDir) -> Option<RedisServer> {
    let dir = dir.path().to_str().unwrap();
    RedisServer::start_at(port, &["--dir", dir, "--appendonly", "yes", "--appendfsync", "always"])
}

fn ask(server: &RedisServer, words: &[&str]) {
    redis::cmd(words[0]).arg(&words[1..]).exec(&mut server.connect()).unwrap();
}
