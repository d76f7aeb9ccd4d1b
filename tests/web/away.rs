//! The pages while the Redis of the supervisor is away.

use std::time::{Duration, Instant};

use crate::page::{Served, status};
use crate::redis_server::RedisServer;
use crate::sandbox::{Sandbox, Setting, kill, wait_until};

/// The page waits five seconds for an answer and one for the reasons; the rest is for a busy machine. It is
/// less than the patience of the client.
const BOUND: Duration = Duration::from_secs(25);

/// Each kind of page that a reader may be on.
fn paths(job: &str) -> Vec<String> {
    let listed = [
        "",
        "jobs",
        "failures",
        "queues",
        "batches",
        "recurring",
        "workers",
        "fleet",
        "events",
        "config",
        "doctor",
    ];
    let named = ["queue/default", "batch/letters", "recurring/nightly", "pool/default", "slot/default.1"];
    let all = listed.iter().chain(&named).map(|path| format!("/{path}"));
    all.chain([format!("/job/{job}"), format!("/act?act=cancel&job={job}")]).collect()
}

/// All pages at a time, each with how long it took.
fn asked(page: &Served, cookie: &str, paths: &[String]) -> Vec<(String, String, Duration)> {
    std::thread::scope(|scope| {
        let ask = |path: &String| {
            let (path, begun) = (path.clone(), Instant::now());
            scope.spawn(move || (page.ask("GET", &path, &[cookie], ""), begun.elapsed(), path))
        };
        let asking: Vec<_> = paths.iter().map(ask).collect();
        asking
            .into_iter()
            .map(|one| one.join().unwrap())
            .map(|(said, took, path)| (path, said, took))
            .collect()
    })
}

/// Takes the Redis away and asks for every page.
fn holds(leave: impl FnOnce(RedisServer) -> Option<RedisServer>) {
    let redis = RedisServer::start();
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-b", &redis.url(), "--retries", "0"]);
    sandbox.ok(&["recur", "put", "nightly", "--cron", "0 3 * * *", "--", "true"]);
    sandbox.ok(&["put", "--batch", "letters", "--", "false"]);
    let job = sandbox.put(&["false"]);
    wait_until("it has failed", || sandbox.state(&job) == "failed");
    let page = Served::start(&sandbox, &[]);
    let (cookie, paths) = (page.enter(), paths(&job));
    for (path, said, _) in asked(&page, &cookie, &paths) {
        assert_eq!(status(&said), 200, "before: {path}: {said}");
    }
    let left = leave(redis);
    wait_until("status names it", || sandbox.reasons().contains("broker: cannot"));
    // What was known 200 ms ago serves several pages.
    wait_until("the page knows it", || page.ask("GET", "/", &[&cookie], "").contains("<bdi>broker: cannot"));
    for (path, said, took) in asked(&page, &cookie, &paths) {
        assert!(took < BOUND, "{path} took {took:?}");
        // What the supervisor knows by itself is shown as ever, and so is a question; the rest has the reasons, too.
        if !path.starts_with("/act") {
            assert!(said.contains("<bdi>broker: cannot"), "{path}: {said}");
        }
        assert!(!said.contains("Nothing has failed."), "{path} does not know: {said}");
    }
    drop(left);
}

#[test]
fn each_page_names_the_outage_of_a_redis_that_has_ended() {
    holds(|redis| {
        drop(redis);
        None
    });
}

#[test]
fn each_page_names_the_outage_of_a_redis_that_stands_still() {
    holds(|redis| {
        kill(redis.pid() as i32, "STOP");
        Some(redis)
    });
}

#[test]
fn jobs_of_a_redis_without_workers_are_looked_at_and_canceled() {
    let redis = RedisServer::start();
    let sandbox = Sandbox::new(Setting::Root);
    let broker = redis.url();
    let job =
        sandbox.ok(&["-b", &broker, "put", "--batch", "letters", "mail", "Send", "1"]).trim().to_owned();
    let page = Served::start(&sandbox, &["-b", &broker]);
    let (cookie, own) = (page.enter(), format!("origin: http://127.0.0.1:{}", page.port));
    let ask = |path: &str| page.ask("GET", path, &[&cookie], "");
    for path in ["/", "/jobs", "/failures", "/queue/mail", "/batch/letters", "/recurring", "/fleet"] {
        assert_eq!(status(&ask(path)), 200, "{path}: {}", ask(path));
    }
    assert!(ask("/jobs?q=class:Send").contains(&job));
    assert!(ask(&format!("/job/{job}")).contains("No supervisor runs here"));
    // Those of other hosts, of whom none is there yet.
    let shown = ask("/workers");
    assert!(status(&shown) == 200 && shown.contains("No supervisor has given a sign of life"), "{shown}");
    assert_eq!(status(&ask("/pool/default")), 503);
    let order = format!("act=cancel&job={job}&reason=a+mistake");
    assert_eq!(status(&page.ask("POST", "/act", &[&cookie, &own], &order)), 303);
    let history = sandbox.json(&["-b", &broker, "job", "show", "--json", &job])["history"].to_string();
    assert!(history.contains("a mistake") && history.contains("web"), "{history}");
}
