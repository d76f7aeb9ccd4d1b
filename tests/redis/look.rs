//! get, multiget, jobs, track, failed, unfail.

use serde_json::json;

use crate::Scene;

#[test]
fn invalid_queries_are_refused() {
    Scene::new().refused(&[
        ("get 1", "Get(): Arg \"jid\" missing"),
        ("jobs 1", "Jobs(): Arg \"state\" missing"),
        ("jobs 1 running", "Jobs(): Arg \"queue\" missing"),
        ("jobs 1 asleep q", "Jobs(): Unknown type \"asleep\""),
        ("jobs 1 running q first", "Jobs(): Arg \"offset\" not a number: first"),
        ("jobs 1 complete 0 all", "Jobs(): Arg \"count\" not a number: all"),
        ("track 1 follow j", "Track(): Unknown action \"follow\""),
        ("track 1 track", "Track(): Arg \"jid\" missing"),
        ("track 1 track j", "Track(): Job does not exist"),
        ("failed 1 group first", "Failed(): Arg \"start\" is not a number: first"),
        ("failed 1 group 0 all", "Failed(): Arg \"limit\" is not a number: all"),
        ("unfail 1", "Unfail(): Arg \"queue\" missing"),
        ("unfail 1 q", "Unfail(): Arg \"group\" missing"),
        ("unfail 1 q group all", "Unfail(): Arg \"count\" not a number: all"),
    ]);
}

#[test]
fn jobs_are_shown_by_id() {
    let mut scene = Scene::new();
    scene.put("a", "q", &[]);
    scene.put("b", "q", &[]);
    assert_eq!(scene.script.line::<Option<String>>("get 1 none"), None);
    let jobs = scene.script.json("multiget 1 b none a");
    assert_eq!(
        (&jobs[0]["jid"], &jobs[1]["jid"], jobs.as_array().unwrap().len()),
        (&json!("b"), &json!("a"), 2)
    );
    assert_eq!(scene.script.line::<String>("multiget 1 none"), "{}");
}

#[test]
fn jobs_are_listed_by_state() {
    let mut scene = Scene::new();
    for jid in ["a", "b", "c", "d"] {
        scene.put(jid, "q", &[]);
    }
    scene.pop("0", "q", "w", 1);
    scene.pop("10", "q", "w", 1);
    scene.pop("10", "q", "x", 2);
    let _: String = scene.script.line("complete 11 a x q {}");
    let _: String = scene.script.line("complete 12 b x q {}");
    scene.put("waits", "q", &["depends", "[\"c\"]"]);
    let _: String = scene.script.line("put 0 me q later klass {} 100");
    let _: String = scene.script.line("put 0 me q soon klass {} 50");
    let _: String = scene.script.line("recur 0 q r klass {} interval 60 500");
    let list = |scene: &mut Scene, line: &str| scene.script.line::<Vec<String>>(line);
    assert_eq!(list(&mut scene, "jobs 60 complete"), ["b", "a"]);
    assert_eq!(list(&mut scene, "jobs 60 complete 1 1"), ["a"]);
    assert_eq!(list(&mut scene, "jobs 65 running q"), ["c"]);
    assert_eq!(list(&mut scene, "jobs 65 stalled q"), ["d"]);
    assert_eq!(list(&mut scene, "jobs 75 stalled q 0 -1"), ["d", "c"]);
    assert_eq!(list(&mut scene, "jobs 60 scheduled q"), ["later"]);
    assert_eq!(scene.script.json("get 60 soon")["state"], "waiting");
    assert_eq!(list(&mut scene, "jobs 60 depends q"), ["waits"]);
    assert_eq!(list(&mut scene, "jobs 60 recurring q"), ["r"]);
}

#[test]
fn tracked_job_is_shown_while_it_exists_and_listed_as_expired_afterwards() {
    let mut scene = Scene::new();
    scene.put("a", "q", &[]);
    scene.put("b", "q", &[]);
    assert_eq!(scene.script.line::<String>("track 1 track a"), "1");
    assert_eq!(scene.script.line::<String>("track 2 track a"), "0");
    assert_eq!(scene.script.line::<String>("track 2 track b"), "1");
    assert_eq!(scene.ears.heard(), ["ql:track a", "ql:track a", "ql:track b"]);
    assert_eq!(scene.script.json("get 2 a")["tracked"], true);
    let _: Vec<String> = scene.script.line("cancel 3 a");
    let tracked = scene.script.json("track 4");
    assert_eq!((&tracked["jobs"][0]["jid"], &tracked["expired"]), (&json!("b"), &json!(["a"])));
    // Long after, the expired job is listed once more and then forgotten; an existing job stays tracked.
    assert_eq!(scene.script.json("track 999999")["expired"], json!(["a"]));
    assert_eq!(scene.script.json("track 999999")["expired"], json!({}));
    scene.ears.heard();
    assert_eq!(scene.script.line::<String>("track 5 untrack b"), "1");
    assert_eq!(scene.ears.heard(), ["ql:untrack b"]);
    assert_eq!(scene.script.line::<String>("track 6"), r#"{"jobs":{},"expired":{}}"#);
}

/// Jobs `a`, `b`, `c` failed in this order at the beginning of a day.
fn failed() -> Scene {
    let mut scene = Scene::new();
    for jid in ["a", "b", "c"] {
        scene.put(jid, "q", &["retries", "2"]);
    }
    scene.pop("86400", "q", "w", 3);
    for jid in ["a", "b", "c"] {
        let _: String = scene.script.line(&format!("fail 86400 {jid} w group why"));
    }
    scene.ears.heard();
    scene
}

#[test]
fn failures_are_counted_and_listed_newest_first() {
    let mut scene = failed();
    assert_eq!(scene.script.json("failed 1"), json!({"group": 3}));
    assert_eq!(scene.script.json("failed 1 group"), json!({"total": 3, "jobs": ["c", "b", "a"]}));
    assert_eq!(scene.script.json("failed 1 group 1 1"), json!({"total": 3, "jobs": ["b"]}));
    assert_eq!(scene.script.json("failed 1 none"), json!({"total": 0, "jobs": {}}));
}

#[test]
fn unfail_requeues_the_oldest_failures_first_and_uncounts_them() {
    let mut scene = failed();
    assert_eq!(scene.script.line::<i64>("unfail 200000 r group 2"), 2);
    assert_eq!(scene.script.json("failed 1"), json!({"group": 1}));
    let job = scene.script.json("get 1 a");
    assert_eq!(
        (&job["state"], &job["queue"], &job["remaining"]),
        (&json!("waiting"), &json!("r"), &json!(2))
    );
    assert_eq!((&job["failure"]["group"], &job["expires"]), (&json!("group"), &json!(0)));
    assert_eq!(job["history"][3], json!({"when": 200_000, "what": "put", "q": "r"}));
    assert_eq!(scene.script.everything()["ql:s:stats:86400:q"], r#"{"failed": "1", "failures": "3"}"#);
    assert_eq!(scene.script.line::<i64>("unfail 200000 r group"), 1);
    assert_eq!(scene.script.line::<String>("failed 1"), "{}");
    let kept = scene.script.everything();
    assert_eq!(kept["ql:s:stats:86400:q"], r#"{"failed": "0", "failures": "3"}"#);
    assert!(!kept.contains_key("ql:failures") && !kept.contains_key("ql:f:group"));
    assert_eq!(kept["ql:queues"], r#"["q", "0"]"#);
    assert_eq!(scene.ears.heard(), Vec::<String>::new());
}

#[test]
fn unfail_of_a_group_skips_a_job_that_is_gone() {
    let mut scene = failed();
    let _: i64 = scene.script.raw("DEL ql:j:b");
    assert_eq!(scene.script.line::<i64>("unfail 1 q group 0"), 0);
    assert_eq!(scene.script.line::<i64>("unfail 1 q group"), 2);
    assert_eq!(scene.script.line::<String>("failed 1"), "{}");
}

#[test]
fn list_that_is_read_in_parts_misses_no_job_when_those_before_it_are_taken_meanwhile() {
    let mut scene = Scene::new();
    let all: Vec<String> = (10..40).rev().map(|number| format!("j{number}")).collect();
    all.iter().for_each(|jid| scene.put(jid, "q", &[]));
    let read = |scene: &mut Scene, after: &str| -> (String, Vec<String>) {
        let asked = ["taskvisor.adopt", "0", "1", after, "20", "1", "ql:q:q-work"];
        let (_, last, met): (i64, String, Vec<redis::Value>) = scene.script.call(&asked);
        let text = met.into_iter().filter_map(|value| redis::from_redis_value::<String>(value).ok());
        (last, text.filter(|text| text.starts_with('j')).collect())
    };
    let (last, first) = read(&mut scene, "");
    assert_eq!((&first[..], last.as_str()), (&all[..20], "j20"));
    // Some of those before, and then all of them with the one behind which it goes on.
    scene.pop("10", "q", "w", 8);
    assert_eq!(read(&mut scene, &last).1, all[20..]);
    scene.pop("10", "q", "w", 15);
    assert_eq!(read(&mut scene, &last).1, all[23..]);
}
