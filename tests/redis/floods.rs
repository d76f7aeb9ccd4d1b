//! Load: a thousand events a second from other clients, and thousands of places for jobs.

use std::time::{Duration, Instant};

use crate::Scripted;
use crate::sandbox::wait_until;
use crate::supervisors::Scene;

/// The number of script calls.
fn calls(other: &mut Scripted) -> u64 {
    let stats: String = other.raw("INFO commandstats");
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:"));
    line.and_then(|line| line.split("calls=").nth(1)?.split(',').next()?.parse().ok()).unwrap_or(0)
}

#[test]
fn flood_of_events_without_jobs_costs_few_fetches_and_hides_no_job() {
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
        // A job is put during the flood.
        let now = Scene::now();
        let exec = r#"{"argv":["true"],"cwd":"/","umask":18}"#;
        let _: String = other.call(&["put", &now, "w", "default", event, "exec", exec, "0"]);
        let _: u64 = other.raw(&format!("HSET ql:j:{event} exec 1"));
        scene.ok(&["job", "wait", event]);
    }
}

/// Events of queues that this supervisor does not serve cause no fetch.
#[test]
fn events_of_unserved_queues_cause_no_fetch() {
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
fn fetch_asks_for_at_most_a_thousand_jobs_at_a_time() {
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
    // The slow log truncates long commands but gives the number of arguments: two for each place.
    let most = longest(&mut other);
    assert!((1000..2200).contains(&most), "{most} arguments");
}

/// The arguments of the longest fetch.
fn longest(other: &mut Scripted) -> u64 {
    type Slow = (u64, u64, u64, Vec<String>, String, String);
    let slow: Vec<Slow> = other.raw("SLOWLOG GET 100000");
    let fetches = slow.iter().filter(|entry| entry.3.get(3).is_some_and(|name| name == "taskvisor.fetch"));
    let counted = fetches
        .filter_map(|entry| entry.3.last()?.strip_prefix("... (")?.split(' ').next()?.parse::<u64>().ok());
    counted.max().unwrap_or(0)
}

/// Other clients accept any bytes as an id.
#[test]
fn job_with_an_id_that_is_no_utf8_fails_once() {
    let scene = Scene::new();
    let mut other = scene.other();
    let now = Scene::now();
    let ids: [&[u8]; 5] =
        [b"bad\xff\xfe", b"over\xc0\xaf", b"half\xed\xa0\x80", b"cut\xe2\x82", b"\xf4\x90\x80\x80"];
    let good = ["\u{e9}", "\u{7ff}\u{800}\u{ffff}", "\u{10000}\u{10ffff}"];
    for id in ids.into_iter().chain(good.map(str::as_bytes)) {
        let put = redis::cmd("ZADD").arg("ql:q:default-work").arg(now.as_str()).arg(id).to_owned();
        put.exec(&mut other.redis).unwrap();
        let key = [b"ql:j:", id].concat();
        let exec = r#"{"argv":["true"],"cwd":"/","umask":18}"#;
        let fields =
            [("klass", "exec"), ("data", exec), ("exec", "1"), ("queue", "default"), ("state", "waiting")];
        redis::Cmd::hset_multiple(key, &fields).exec(&mut other.redis).unwrap();
    }
    let _running = scene.start(&["-w", "2"]);
    wait_until("those that can be run are", || other.raw::<u64>("ZCARD ql:completed") == 3);
    let failed: Vec<Vec<u8>> = other.raw("LRANGE ql:f:taskvisor-jid 0 -1");
    assert_eq!(failed.len(), 5, "{failed:?}");
    assert!(ids.iter().all(|id| failed.iter().any(|failed| failed == id)));
    let mut why = redis::cmd("HGET");
    why.arg(b"ql:j:bad\xff\xfe").arg("why");
    let why: String = why.query(&mut other.redis).unwrap();
    assert!(why.contains(r"not UTF-8, so it cannot be run: bad\\xff\\xfe"), "{why}");
    assert!(scene.ok(&["failed"]).contains("taskvisor-jid"));
    assert_eq!(other.raw::<u64>("ZCARD ql:q:default-work"), 0);
    assert_eq!(other.raw::<u64>("ZCARD ql:q:default-locks"), 0);
}
