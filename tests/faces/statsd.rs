//! Figures for a StatsD server.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::time::Duration;

use super::*;

/// A StatsD server on a free port.
fn server() -> (UdpSocket, String) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let place = socket.local_addr().unwrap().to_string();
    (socket, place)
}

/// The lines received up to the last line of a round, which sorts behind all others.
fn heard(socket: &UdpSocket, last: &str) -> BTreeSet<String> {
    let (mut lines, mut packet) = (BTreeSet::new(), [0; 2000]);
    while !lines.iter().any(|line: &String| line.starts_with(last)) {
        let length = socket.recv(&mut packet).unwrap();
        lines.extend(text(&packet[..length]).lines().map(str::to_owned));
    }
    lines
}

#[test]
fn stats_sends_the_figures_of_all_queues_with_and_without_a_supervisor() {
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
fn stats_with_every_sends_figures_repeatedly_until_term() {
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
    wait_until("the second job is counted", || {
        heard(&socket, last).contains("taskvisor.queues.default.waiting:2|g")
    });
    sandbox::kill(child.id() as i32, "TERM");
    assert!(child.wait().unwrap().success());
}

#[test]
fn stats_fails_when_the_statsd_host_is_unknown() {
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
