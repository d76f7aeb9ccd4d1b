//! Notifications while the broker is away: refused, or kept in the state directory and put later in order.

use super::*;
use crate::redis_server::RedisServer;
use crate::sandbox::{is_up, kill};

/// A supervisor on a Redis, with one worker.
fn start_on<'a>(sandbox: &'a Sandbox, url: &str, when_away: &str) -> Running<'a> {
    start(sandbox, |settings| {
        let settings = settings.replace("workers: 2", "workers: 1");
        format!("broker: {url}\n{settings}").replace("wq:\n", &format!("wq:\n  when_away: {when_away}\n"))
    })
}

/// Starts an empty server on the same port.
fn again(port: u16) -> RedisServer {
    let mut server = None;
    wait_until("the port is free, and the server is back", || {
        server = RedisServer::start_at(port, &[]);
        server.is_some()
    });
    server.unwrap()
}

/// The entities in the order in which they were inserted.
fn inserted(sandbox: &Sandbox) -> Vec<String> {
    let Ok(rows) = Connection::open(sandbox.work("rows.db")) else { return Vec::new() };
    rows.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
    let Ok(mut all) = rows.prepare("SELECT id FROM entity ORDER BY rowid") else { return Vec::new() };
    all.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

fn supervisor(sandbox: &Sandbox) -> i32 {
    python::pid_of(&sandbox.status()["supervisor"])
}

fn waits(sandbox: &Sandbox, jobs: &str) -> bool {
    sandbox::reasons(&sandbox.status())
        .contains(&format!("{jobs} in {}", sandbox.path("state/outbox.db").display()))
}

#[test]
fn notifications_wait_in_the_outbox_while_the_broker_is_away_and_run_in_order() {
    let (sandbox, server) = (python::new(), RedisServer::start());
    let port = server.port;
    let mut running = start_on(&sandbox, &server.url(), "keep");
    let kept = |name: &str| {
        let (code, answer) = ask(&sandbox, "POST /v1/tasks/notify", &[], &room(name));
        assert_eq!(code, 200, "{answer}");
        serde_json::from_str::<Value>(&answer).unwrap()["kept"] == true
    };
    assert!(!kept("r00"), "the broker is there");
    wait_until("its row is there", || inserted(&sandbox) == ["r00"]);
    drop(server);
    let names: Vec<String> = (1..=20).map(|n| format!("r{n:02}")).collect();
    assert!(names[..10].iter().all(|name| kept(name)));
    let answer = answer_of(&sandbox, "POST /v2/notify", &[], &room("r11"));
    assert!(answer.to_lowercase().contains("\r\ntaskvisor-kept: true\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n\"Notification successfully processed\""), "{answer}");
    wait_until("status says so", || waits(&sandbox, "11 new jobs wait"));
    // The outbox is on disk: it survives the death of the supervisor and of the keeper.
    kill(supervisor(&sandbox), "KILL");
    running.signal("KILL");
    running.wait();
    let server = again(port);
    let mut running = start_on(&sandbox, &server.url(), "keep");
    // Kept or put directly, depending on the progress of the outbox.
    names[11..].iter().for_each(|name| _ = kept(name));
    wait_until("all rows are there", || inserted(&sandbox).len() == 21);
    assert_eq!(inserted(&sandbox)[1..], names, "in the order in which they came");
    wait_until("status says no more of it", || !waits(&sandbox, "wait"));
    assert!(!kept("r99"), "the next one is put at once");
    wait_until("the last row is there", || inserted(&sandbox).len() == 22);
    sandbox.ok(&["stop", "--now"]);
    running.wait();
}

#[test]
fn killed_supervisor_loses_no_notification_while_the_broker_is_away() {
    let (sandbox, server) = (python::new(), RedisServer::start());
    let port = server.port;
    let mut running = start_on(&sandbox, &server.url(), "keep");
    drop(server);
    let names: Vec<String> = (0..30).map(|n| format!("r{n:02}")).collect();
    names.iter().for_each(|name| drop(notify(&sandbox, &[], &room(name))));
    let first = supervisor(&sandbox);
    kill(first, "KILL");
    let _server = again(port);
    wait_until("another supervisor is up", || {
        let status = sandbox.status();
        is_up(&status) && status["supervisor"]["pid"] != first
    });
    wait_until("all rows are there", || inserted(&sandbox).len() == 30);
    assert_eq!(inserted(&sandbox), names);
    sandbox.ok(&["stop", "--now"]);
    running.wait();
}

#[test]
fn when_away_refuse_rejects_notifications_and_still_drains_the_outbox() {
    let (sandbox, server) = (python::new(), RedisServer::start());
    let port = server.port;
    let mut running = start_on(&sandbox, &server.url(), "keep");
    drop(server);
    notify(&sandbox, &[], &room("kept"));
    sandbox.ok(&["stop", "--now"]);
    running.wait();
    let server = again(port);
    let mut running = start_on(&sandbox, &server.url(), "refuse");
    wait_until("what was kept has run", || inserted(&sandbox) == ["kept"]);
    drop(server);
    let (code, answer) = ask(&sandbox, "POST /v2/notify", &[], &room("refused"));
    assert!(code == 500 && answer.contains("redis://"), "{code} {answer}");
    let _server = again(port);
    sandbox.ok(&["stop", "--now"]);
    running.wait();
}
