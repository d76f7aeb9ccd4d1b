//! Jobs that another program has put or holds, as they are shown: what is known, and nothing else.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::supervisors::Scene;

/// The lines of the timeline without their times.
fn timeline(page: &str) -> Vec<String> {
    let lines = page.lines().skip_while(|line| *line != "timeline").skip(1);
    let lines = lines.take_while(|line| line.starts_with("  2"));
    lines
        .map(|line| line[21..].trim_start_matches(|letter| "+0123456789.msh ".contains(letter)).to_owned())
        .collect()
}

/// The time that clients of qless give, moved by some seconds.
fn at(seconds: f64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    format!("{:.3}", now + seconds)
}

#[test]
fn the_worker_of_another_program_is_named_with_its_lease_and_nothing_is_made_up() {
    let scene = Scene::new();
    let mut other = scene.other();
    scene.ok(&["put", "-q", "elsewhere", "--jid", "j", "--", "true"]);
    let _: String = other.call(&["pop", &at(0.0), "elsewhere", "host-1", "1"]);
    let page = scene.ok(&["job", "show", "j"]);
    assert!(page.contains("running, leased to worker host-1 of another program until 2"), "{page}");
    assert!(!page.contains("attempt"), "{page}");
    let told = timeline(&page);
    assert!(told[0].starts_with("put by uid"), "{page}");
    assert_eq!(told[1..], ["popped by host-1"], "{page}");
    let why = scene.ok(&["why", "job", "j"]);
    assert!(why.contains("Worker host-1 of another program has had it for "), "{why}");
    assert!(why.contains("Its lease ends in ") && !why.contains("Attempt"), "{why}");
    assert_eq!(scene.job("j")["holder"], "host-1");
}

#[test]
fn what_others_do_to_a_job_of_ours_stands_in_its_timeline_in_its_order() {
    let scene = Scene::new();
    let mut other = scene.other();
    let _running = scene.start(&["-w", "1"]);
    let (jid, _) = scene.a_long_job();
    let _: redis::Value = other.call(&["timeout", &Scene::now(), &jid]);
    let _: String = other.call(&["put", &Scene::now(), "me", "elsewhere", &jid, "k", "{}", "0"]);
    let page = scene.ok(&["job", "show", &jid]);
    let told = timeline(&page);
    let is = |number: usize, text: &str| told.get(number).is_some_and(|line| line.starts_with(text));
    assert!(is(0, "put by ") && is(1, "attempt 1 assigned"), "{page}");
    assert_eq!(told[2..], ["timed-out", "put into queue elsewhere"], "{page}");
}

#[test]
fn a_delayed_job_of_another_program_was_put_before_it_was_taken() {
    let scene = Scene::new();
    let mut other = scene.other();
    let _: String = other.call(&["put", &at(-9.0), "me", "elsewhere", "j", "k", "{}", "5"]);
    let _: String = other.call(&["pop", &at(0.0), "elsewhere", "host-1", "1"]);
    assert_eq!(timeline(&scene.ok(&["job", "show", "j"])), ["put", "popped by host-1"]);
    let age =
        &scene.sandbox.json(&["-b", &scene.url, "job", "list", "--state", "running", "--json"])["put_at"];
    assert_eq!(*age, scene.job("j")["put_at"]);
    assert!(scene.job("j")["started_at"].as_i64().unwrap() - age.as_i64().unwrap() >= 8000);
}

#[test]
fn a_date_that_nobody_knows_is_not_shown() {
    let scene = Scene::new();
    let mut other = scene.other();
    let _: i64 = other.raw("HSET ql:j:bare state waiting queue elsewhere klass k data {}");
    let _: i64 = other.raw("ZADD ql:q:elsewhere-work 0 bare");
    let _: i64 = other.raw("ZADD ql:queues 1 elsewhere");
    let _: i64 = other.raw("SADD ql:paused_queues elsewhere");
    let _: String = other.call(&["recur", &at(0.0), "elsewhere", "rep", "k", "{}", "interval", "60", "0"]);
    for line in
        ["job show bare", "job list --queue elsewhere", "why job bare", "recur show rep", "queue list"]
    {
        let shown = scene.ok(&line.split(' ').collect::<Vec<_>>());
        assert!(
            !shown.contains("1970") && !shown.contains("000d") && !shown.contains("y ago"),
            "{line}: {shown}"
        );
        assert!(!shown.contains("paused 2"), "{line}: {shown}");
    }
    let rep = scene.ok(&["recur", "show", "rep"]);
    assert!(rep.contains("at an unknown time by another program"), "{rep}");
}
