//! A redis-sentinel for one test.

// Each test binary uses only a part of this module.
#![allow(dead_code)]

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

/// A sentinel that watches a primary called `jobs`.
pub struct Sentinel {
    child: Child,
    pub port: u16,
    _dir: tempfile::TempDir,
}

impl Sentinel {
    /// Starts a sentinel for the primary at this port, with the program of redis-server and more lines of settings.
    pub fn of(program: &str, primary: u16, more: &str) -> Sentinel {
        let dir = tempfile::tempdir().expect("it goes");
        let port =
            TcpListener::bind("127.0.0.1:0").expect("it goes").local_addr().expect("an address").port();
        let file = dir.path().join("sentinel.conf");
        let text = format!(
            "bind 127.0.0.1\nport {port}\ndir {}\nsentinel monitor jobs 127.0.0.1 {} 1\n\
             sentinel down-after-milliseconds jobs 500\nsentinel failover-timeout jobs 5000\n{more}",
            dir.path().display(),
            primary
        );
        std::fs::write(&file, text).expect("it goes");
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", program])
            .arg(&file)
            .arg("--sentinel")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it goes");
        let mut lines = BufReader::new(child.stdout.take().expect("it goes")).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("+monitor master jobs")), "a sentinel comes up");
        std::thread::spawn(move || lines.for_each(drop));
        Sentinel { child, port, _dir: dir }
    }

    pub fn knows_replicas(&self) -> bool {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port)).expect("it goes");
        let mut asked = client.get_connection().expect("it goes");
        let known: Vec<redis::Value> =
            redis::cmd("SENTINEL").arg(&["replicas", "jobs"]).query(&mut asked).expect("it goes");
        !known.is_empty()
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        // The sentinel may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
