//! A Redis for one test, and a client of our script.

// Each test binary uses only a part of this module.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use redis::{Connection, FromRedisValue, RedisError, Value};
use serde_json::Value as Json;

/// A server on a free loopback port, without persistence; it ends with this value, and with the thread that made it.
pub struct RedisServer {
    child: Child,
    pub port: u16,
    _dir: tempfile::TempDir,
}

impl RedisServer {
    pub fn start() -> RedisServer {
        RedisServer::start_with(&[])
    }

    /// Starts with more arguments. `TASKVISOR_TEST_REDIS` names another program: a Valkey, or another release.
    pub fn start_with(args: &[&str]) -> RedisServer {
        RedisServer::start_anywhere("Ready to accept connections", args)
    }

    /// Starts a replica and waits until it is in sync.
    pub fn start_replica(&self) -> RedisServer {
        let args = ["--replicaof", "127.0.0.1", &self.port.to_string()];
        RedisServer::start_anywhere("sync: Finished with success", &args)
    }

    /// Whether a replica has all writes so far. WAIT alone would ask about writes of its own connection only.
    pub fn is_replicated(&self) -> bool {
        let mut redis = self.connect();
        redis::cmd("SET").arg(&["test:replicated", "1"]).exec(&mut redis).expect("written");
        redis::cmd("WAIT").arg(&["1", "1000"]).query(&mut redis) == Ok(1)
    }

    /// Starts on a free port and waits for a text in the log.
    fn start_anywhere(said: &str, args: &[&str]) -> RedisServer {
        // Another process may have taken the free port meanwhile: then the server ends, and the next port is tried.
        for _ in 0..20 {
            let port =
                TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
            if let Some(server) = RedisServer::start_until(said, port, args) {
                return server;
            }
        }
        panic!("no redis-server came up on any port");
    }

    pub fn start_at(port: u16, args: &[&str]) -> Option<RedisServer> {
        RedisServer::start_until("Ready to accept connections", port, args)
    }

    /// Waits for a text in the server's log.
    pub fn start_until(said: &str, port: u16, args: &[&str]) -> Option<RedisServer> {
        let dir = tempfile::tempdir().expect("a directory");
        let program = RedisServer::program();
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", &program, "--bind", "127.0.0.1", "--port", &port.to_string()])
            .args(["--save", "", "--appendonly", "no", "--loglevel", "notice", "--logfile", "", "--dir"])
            .arg(dir.path())
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("redis-server, by setpriv");
        let mut lines =
            BufReader::new(child.stdout.take().expect("its output")).lines().map_while(Result::ok);
        let ready = lines.any(|line| line.contains(said));
        std::thread::spawn(move || lines.for_each(drop));
        let server = RedisServer { child, port, _dir: dir };
        ready.then_some(server)
    }

    /// The server program.
    pub fn program() -> String {
        std::env::var("TASKVISOR_TEST_REDIS").unwrap_or_else(|_| "redis-server".into())
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    pub fn connect(&self) -> Connection {
        let client = redis::Client::open(self.url()).expect("an address");
        let connection = client.get_connection().expect("a connection");
        connection.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        connection
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // The server may have ended by itself or by the test.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Hears each command that a server runs, also those of scripts.
pub struct Monitor {
    lines: BufReader<TcpStream>,
    redis: Connection,
}

impl Monitor {
    pub fn new(server: &RedisServer) -> Monitor {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("a connection");
        stream.write_all(b"MONITOR\r\n").expect("written");
        let mut lines = BufReader::new(stream);
        let mut said = String::new();
        lines.read_line(&mut said).expect("an answer");
        assert_eq!(said, "+OK\r\n");
        Monitor { lines, redis: server.connect() }
    }

    /// How many calls have had this argument since it was last asked.
    pub fn calls(&mut self, word: &str) -> usize {
        let word = format!("\"{word}\"");
        self.lines().iter().filter(|line| line.contains(&word) && !line.contains(" lua] \"")).count()
    }

    /// What was heard since the last time.
    fn lines(&mut self) -> Vec<String> {
        let end = "this is all";
        redis::cmd("ECHO").arg(end).exec(&mut self.redis).expect("heard");
        let mut lines = Vec::new();
        loop {
            let mut line = Vec::new();
            self.lines.read_until(b'\n', &mut line).expect("a line");
            lines.push(String::from_utf8_lossy(&line).chars().take(200).collect());
            if lines.last().is_some_and(|line: &String| line.contains(end)) {
                return lines;
            }
        }
    }

    /// The largest number of commands that one call of a script has run since it was last asked, and the beginning of
    /// that call.
    pub fn most(&mut self) -> (usize, String) {
        let (mut most, mut count, mut call) = ((0, String::new()), 0, String::new());
        for said in self.lines() {
            if said.contains(" lua] \"") {
                count += 1;
                continue;
            }
            if count > most.0 {
                most = (count, call);
            }
            (count, call) = (0, said);
        }
        most
    }
}

/// A client that calls a script on the server.
pub struct Scripted {
    pub redis: Connection,
    sha: String,
}

impl Scripted {
    pub fn new(server: &RedisServer, script: &str) -> Scripted {
        let mut redis = server.connect();
        let sha =
            redis::cmd("SCRIPT").arg("LOAD").arg(script).query(&mut redis).expect("a script without faults");
        Scripted { redis, sha }
    }

    /// The answer or error of a command; `line` is command, time and arguments, separated by blanks.
    pub fn try_line(&mut self, line: &str) -> Result<Value, RedisError> {
        self.try_call(&line.split(' ').collect::<Vec<_>>())
    }

    pub fn try_call(&mut self, args: &[&str]) -> Result<Value, RedisError> {
        redis::cmd("EVALSHA").arg(&self.sha).arg(0).arg(args).query(&mut self.redis)
    }

    pub fn call<T: FromRedisValue>(&mut self, args: &[&str]) -> T {
        let value = self.try_call(args).unwrap_or_else(|error| panic!("{args:?}: {error}"));
        redis::from_redis_value(value).unwrap_or_else(|error| panic!("{args:?}: {error}"))
    }

    /// The answer to a command line.
    pub fn line<T: FromRedisValue>(&mut self, line: &str) -> T {
        self.call(&line.split(' ').collect::<Vec<_>>())
    }

    /// The JSON answer to a command line.
    pub fn json(&mut self, line: &str) -> Json {
        let text: String = self.line(line);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{line}: {text}: {error}"))
    }

    /// The text of an error.
    pub fn refusal(&mut self, args: &[&str]) -> String {
        match self.try_call(args) {
            Ok(value) => panic!("{args:?} was not refused: {value:?}"),
            Err(error) => error.to_string(),
        }
    }

    /// A plain Redis command, separated by blanks.
    pub fn raw<T: FromRedisValue>(&mut self, line: &str) -> T {
        self.raw_call(&line.split(' ').collect::<Vec<_>>())
    }

    pub fn raw_call<T: FromRedisValue>(&mut self, args: &[&str]) -> T {
        let answer = redis::cmd(args[0]).arg(&args[1..]).query(&mut self.redis);
        answer.unwrap_or_else(|error| panic!("{args:?}: {error}"))
    }

    /// A field of a job's hash.
    pub fn field(&mut self, jid: &str, field: &str) -> Option<String> {
        self.raw(&format!("HGET ql:j:{jid} {field}"))
    }

    /// All keys with their content as text.
    pub fn everything(&mut self) -> BTreeMap<String, String> {
        let keys: Vec<String> = self.raw("KEYS *");
        let content =
            |redis: &mut Scripted, key: &str| match redis.raw_call::<String>(&["TYPE", key]).as_str() {
                "hash" => format!("{:?}", redis.raw_call::<BTreeMap<String, String>>(&["HGETALL", key])),
                "zset" => {
                    format!("{:?}", redis.raw_call::<Vec<String>>(&["ZRANGE", key, "0", "-1", "WITHSCORES"]))
                }
                "list" => format!("{:?}", redis.raw_call::<Vec<String>>(&["LRANGE", key, "0", "-1"])),
                "set" => {
                    let mut members: Vec<String> = redis.raw_call(&["SMEMBERS", key]);
                    members.sort();
                    format!("{members:?}")
                }
                _ => redis.raw_call(&["GET", key]),
            };
        keys.into_iter().map(|key| (key.clone(), content(self, &key))).collect()
    }
}

/// A subscription to all channels.
pub struct Ears {
    listener: Connection,
    teller: Connection,
}

impl Ears {
    pub fn new(server: &RedisServer) -> Ears {
        let mut listener = server.connect();
        let listen = redis::cmd("PSUBSCRIBE").arg("*").get_packed_command();
        listener.send_packed_command(&listen).expect("to listen");
        listener.recv_response().expect("ears");
        Ears { listener, teller: server.connect() }
    }

    /// The messages since the last call, as `channel text`, in order; without the wake-ups among supervisors.
    pub fn heard(&mut self) -> Vec<String> {
        let end = "test:end";
        let _: i64 = redis::cmd("PUBLISH").arg(end).arg("").query(&mut self.teller).expect("a last word");
        let mut heard = Vec::new();
        loop {
            let message = self.listener.recv_response().expect("a message");
            let [_, _, channel, text]: [String; 4] =
                redis::from_redis_value::<Vec<String>>(message).expect("text").try_into().expect("a message");
            if channel == end {
                return heard;
            }
            if channel != "ql:taskvisor" {
                heard.push(format!("{channel} {text}"));
            }
        }
    }
}
