//! Supervisors among many: a thousand words a second from others, and a thousand places of their own.

use std::time::{Duration, Instant};

use crate::Scripted;
use crate::sandbox::wait_until;
use crate::supervisors::Scene;

/// How often a script was called.
fn calls(other: &mut Scripted) -> u64 {
    let stats: String = other.raw("INFO commandstats");
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:"));
    line.and_then(|line| line.split("calls=").nth(1)?.split(',').next()?.parse().ok()).unwrap_or(0)
}

#[test]
fn a_flood_of_words_after_which_there_is_nothing_costs_few_fetches_and_hides_no_job() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "2"]);
    scene.ok(&["job", "wait", scene.ok(&["put", "--", "true"]).trim()]);
    let mut other = scene.other();
    for event in ["lock_lost", "put", "config_set"] {
        let text = format!(r#"{{"jid":"x","event":"{event}","queue":"default","worker":"else"}}"#);
        let (before, began, mut told) = (calls(&mut other), Instant::now(), 0);
        while began.elapsed() < Duration::from_secs(2) {
            let _: u64 = other.raw_call(&["PUBLISH", "ql:log", &text]);
            told += 1;
        }
        let fetches = calls(&mut other) - before;
        assert!(told > 500 && fetches < 60, "{event}: {told} words, {fetches} fetches");
        // In the midst of it.
        let now = Scene::now();
        let exec = r#"{"argv":["true"],"cwd":"/","umask":18}"#;
        let _: String = other.call(&["put", &now, "w", "default", event, "exec", exec, "0"]);
        let _: u64 = other.raw(&format!("HSET ql:j:{event} exec 1"));
        scene.ok(&["job", "wait", event]);
    }
}

/// Of what wakes elsewhere nothing is asked here.
#[test]
fn what_happens_in_a_queue_that_nobody_here_serves_wakes_nobody() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "1"]);
    scene.ok(&["job", "wait", scene.ok(&["put", "--", "true"]).trim()]);
    let mut other = scene.other();
    let before = calls(&mut other);
    for _ in 0..1000 {
        let _: u64 =
            other.raw_call(&["PUBLISH", "ql:log", r#"{"jid":"x","event":"put","queue":"elsewhere"}"#]);
    }
    assert!(calls(&mut other) - before < 5);
}

#[test]
fn five_thousand_places_are_asked_for_and_settled_a_thousand_at_a_time() {
    let scene = Scene::new();
    let root = env!("CARGO_MANIFEST_DIR");
    let app = "from taskvisor import job\n\n@job('K')\nasync def k():\n    pass\n";
    std::fs::write(scene.sandbox.work("short.py"), app).unwrap();
    let mut other = scene.other();
    let _: String = other.raw("CONFIG SET slowlog-log-slower-than 0");
    let _: String = other.raw("CONFIG SET slowlog-max-len 100000");
    let mut put = redis::pipe();
    for number in 0..6000 {
        put.zadd("ql:q:default-work", format!("j{number}"), -number);
        let job = [("jid", "j"), ("klass", "K"), ("data", "{}"), ("queue", "default"), ("state", "waiting")];
        put.hset_multiple(format!("ql:j:j{number}"), &job);
    }
    put.exec(&mut other.redis).unwrap();
    let path = format!("PYTHONPATH={root}/python:{}", scene.sandbox.path("work").display());
    let args = ["-w", "5", "-m", "coroutine", "--concurrency", "1000", "--env", &path];
    let command = ["--env", "PYTHONDONTWRITEBYTECODE=1", "--", "python3", "-m", "taskvisor.worker", "short"];
    let _running = scene.start(&[&args[..], &command].concat());
    wait_until("all are complete", || other.raw::<u64>("ZCARD ql:completed") == 6000);
    assert_eq!(other.raw::<u64>("EXISTS ql:q:default-locks"), 0);
    // What the log of slow commands leaves out of one it counts: two arguments for each place.
    let most = longest(&mut other);
    assert!((1000..2200).contains(&most), "{most} arguments");
}

/// The arguments of the longest command for fetches and renewals.
fn longest(other: &mut Scripted) -> u64 {
    type Slow = (u64, u64, u64, Vec<String>, String, String);
    let slow: Vec<Slow> = other.raw("SLOWLOG GET 100000");
    let fetches = slow.iter().filter(|entry| entry.3.get(3).is_some_and(|name| name == "taskvisor.fetch"));
    let counted = fetches
        .filter_map(|entry| entry.3.last()?.strip_prefix("... (")?.split(' ').next()?.parse::<u64>().ok());
    counted.max().unwrap_or(0)
}
