//! The figures of what is shown: `cargo bench --bench faces` prints the table.

#[path = "../tests/support/sandbox.rs"]
mod sandbox;

mod support;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use sandbox::{Sandbox, Setting, wait_until};
use support::{Figures, row};

/// Requests for each figure.
const TIMES: usize = 50;

fn main() {
    println!("| what | to reach | median | p99 | note |\n|---|---|---|---|---|");
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "1000"]);
    for queue in 0..100 {
        sandbox.ok(&["put", "-q", &format!("q{queue}"), "--", "true"]);
    }
    row("`status` of 1,000 slots", "<= 50", &answers(&sandbox, "/v1/status"), "ms");
    row("`/metrics` of 1,000 slots and 100 queues", "<= 20", &answers(&sandbox, "/metrics"), "ms");
    row("`/readyz`", "", &answers(&sandbox, "/readyz"), "ms");
    hangs(&sandbox);
}

/// Somebody else writes to the store and does not end, so that the supervisor's own next word to it does not come back.
fn hangs(sandbox: &Sandbox) {
    let store = rusqlite::Connection::open(sandbox.path("state").join("store.db")).expect("the store");
    store.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let mut put = sandbox.command(&["put", "--", "true"]);
    let mut put = put.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a put");
    let (first, _) = loop {
        let (took, answer) = ask(sandbox, "/v1/status");
        if answer.contains("\"no answer for") {
            break (took, answer);
        }
    };
    row("the first `status` when the broker hangs", "", &Figures::of(first), "ms");
    row("`status` of 1,000 slots while it hangs", "<= 50", &answers(sandbox, "/v1/status"), "ms");
    assert!(ask(sandbox, "/v1/status").1.contains("\"no answer for"), "it has hung all the time");
    store.execute_batch("ROLLBACK").expect("the lock's end");
    put.wait().expect("the put");
    wait_until("the broker answers", || ask(sandbox, "/v1/status").1.contains("\"broker_trouble\":null"));
}

fn answers(sandbox: &Sandbox, path: &str) -> Figures {
    ask(sandbox, path);
    let mut figures = Figures::default();
    for _ in 0..TIMES {
        figures.add(ask(sandbox, path).0);
        std::thread::park_timeout(Duration::from_millis(10));
    }
    figures
}

/// Milliseconds from connecting to the last byte, and the answer.
fn ask(sandbox: &Sandbox, path: &str) -> (f64, String) {
    let start = Instant::now();
    let mut stream = UnixStream::connect(sandbox.path("run").join("ctl.sock")).expect("a supervisor");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    (start.elapsed().as_secs_f64() * 1e3, answer)
}
