//! Figures for a StatsD server.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::time::Duration;

use super::*;

/// A server that hears on a port of its own.
fn server() -> (UdpSocket, String) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let place = socket.local_addr().unwrap().to_string();
    (socket, place)
}

/// What is heard until the last line of a round, which sorts behind all others.
fn heard(socket: &UdpSocket, last: &str) -> BTreeSet<String> {
    let (mut lines, mut packet) = (BTreeSet::new(), [0; 2000]);
    while !lines.iter().any(|line: &String| line.starts_with(last)) {
        let length = socket.recv(&mut packet).unwrap();
        lines.extend(text(&packet[..length]).lines().map(str::to_owned));
    }
    lines
}

#[test]
fn the_figures_of_all_queues_are_sent_with_and_without_a_supervisor() {
    let sandbox = Sandbox::new(Setting::Root);
    let (socket, place) = server();
    let running = sandbox.start(&["-w", "1"]);
    let good = sandbox.put(&["true"]);
    sandbox.ok(&["job", "wait", &good]);
    let bad = sandbox.put(&["false"]);
    sandbox.run(&["job", "wait", &bad]);
    sandbox.ok(&["put", "-q", "mail.out", "--", "true"]);
    for there in [true, false] {
        if !there {
            sandbox.ok(&["stop"]);
        }
        assert_eq!(sandbox.ok(&["stats", "--statsd", &place, "--prefix", "jobs"]), "");
        let lines = heard(&socket, "jobs.queues.mail_out.waiting:");
        for line in [
            "jobs.failed:1|g",
            "jobs.failures.exit_1:1|g",
            "jobs.queues.default.completed:1|g",
            "jobs.queues.default.popped:2|g",
            "jobs.queues.default.failed:1|g",
            "jobs.queues.default.paused:0|g",
            "jobs.queues.mail_out.waiting:1|g",
        ] {
            assert!(lines.contains(line), "{line}: {lines:#?}");
        }
    }
    drop(running);
}

#[test]
fn they_are_sent_again_until_the_stop() {
    let sandbox = Sandbox::new(Setting::Root);
    let (socket, place) = server();
    sandbox.put(&["true"]);
    let mut child = sandbox
        .command(&["stats", "--statsd", &place, "--every", "1s"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let last = "taskvisor.queues.default.waiting:";
    assert!(heard(&socket, last).contains("taskvisor.queues.default.waiting:1|g"));
    sandbox.put(&["true"]);
    wait_until("the second job is told", || {
        heard(&socket, last).contains("taskvisor.queues.default.waiting:2|g")
    });
    sandbox::kill(child.id() as i32, "TERM");
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_server_that_cannot_be_found_is_an_error() {
    let sandbox = Sandbox::new(Setting::Root);
    let (code, said) = sandbox.refused(&["stats", "--statsd", "nobody.invalid:8125"]);
    assert_eq!(code, 69, "{said}");
    assert!(said.contains("failed to find the StatsD server nobody.invalid:8125"), "{said}");
    let (code, said) = sandbox.refused(&["stats", "--statsd", "localhost"]);
    assert_eq!(code, 2);
    assert!(said.contains("is no HOST:PORT"), "{said}");
    let (code, _) = sandbox.refused(&["stats", "--statsd", "localhost:8125", "--every", "10ms"]);
    assert_eq!(code, 2);
}
