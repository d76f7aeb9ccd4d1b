//! What becomes of messages that come while a supervisor stops.

use std::time::{Duration, Instant};

use crate::jobs::Scene;
use crate::sandbox::{Running, kill, wait_until};

/// A supervisor at rest whose long poll is open.
fn at_rest(scene: &Scene) -> Running<'_> {
    scene.queue("mail");
    let running = scene.start(&["-w", "1", "-q", "mail"]);
    wait_until("a long poll is open", || scene.fake.calls().contains_key("ReceiveMessage"));
    running
}

#[test]
fn message_that_comes_while_a_stop_waits_for_its_open_polls_is_visible_at_once() {
    let scene = Scene::new();
    let _running = at_rest(&scene);
    let mut stop = scene.sandbox.command(&["stop"]).spawn().unwrap();
    wait_until("the stop waits", || {
        scene.sandbox.stderr().contains("waits for the answers to open requests")
    });
    scene.send_shell("mail", "echo ran >>out");
    assert!(stop.wait().unwrap().success());
    assert_eq!(scene.fake.counts("mail"), [1, 0, 0]);
    assert_eq!(scene.said("out"), "", "the next supervisor runs it");
    let calls = scene.fake.calls();
    assert_eq!(calls.get("ReceiveMessage"), Some(&1), "no other receive begins: {calls:?}");
}

#[test]
fn stop_at_once_does_not_wait_for_open_polls() {
    let scene = Scene::new();
    let _running = at_rest(&scene);
    let begun = Instant::now();
    scene.sandbox.ok(&["stop", "--now"]);
    assert!(begun.elapsed() < Duration::from_secs(15), "a long poll takes 20 s");
}

/// SQS goes on to give messages to a long poll whose client is gone, and hides them.
#[test]
fn start_after_a_death_with_an_open_poll_says_what_may_be_hidden() {
    let scene = Scene::new();
    let _running = at_rest(&scene);
    let said = "the last supervisor left a receive from the SQS queue 'mail' without a known answer";
    assert!(!scene.sandbox.reasons().contains(said), "nobody died");
    kill(scene.sandbox.one("tv-supervisor"), "KILL");
    wait_until("status says so", || scene.sandbox.reasons().contains(said));
    assert!(scene.sandbox.stderr().contains(said), "and the log");
    let why = scene.sandbox.ok(&["why", "pool", "default"]);
    assert!(why.contains(&format!("About the broker: {said}")), "{why}");
}

#[test]
fn start_after_an_orderly_stop_says_nothing_of_hidden_messages() {
    let scene = Scene::new();
    let mut running = at_rest(&scene);
    scene.sandbox.ok(&["stop"]);
    running.wait();
    scene.fake.forget_calls();
    let _next = at_rest(&scene);
    assert!(!scene.sandbox.reasons().contains("left a receive"), "{}", scene.sandbox.reasons());
    assert!(!scene.sandbox.stderr().contains("left a receive"));
}
