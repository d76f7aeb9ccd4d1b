//! complete: a job ends or advances, its dependents are released, expired jobs are removed.

use serde_json::json;

use crate::Scene;

/// Worker `w` has held `j` since 0.
fn held(more: &[&str]) -> Scene {
    let mut scene = Scene::new();
    scene.put("j", "q", &[&["retries", "3"], more].concat());
    assert_eq!(scene.pop("0", "q", "w", 1), ["j"]);
    scene
}

#[test]
fn complete_is_refused_without_the_lease_or_with_invalid_arguments() {
    let mut scene = held(&[]);
    scene.put("idle", "q", &[]);
    scene.refused(&[
        ("complete 1", "Complete(): Arg \"jid\" missing"),
        ("complete 1 j", "Complete(): Arg \"worker\" missing"),
        ("complete 1 j w", "Complete(): Arg \"queue\" missing"),
        ("complete 1 j w q", "Complete(): Arg \"data\" missing or not JSON: nil"),
        ("complete 1 j w q {", "Complete(): Arg \"data\" missing or not JSON: {"),
        ("complete 1 j w q {} delay 5", "Complete(): \"delay\" cannot be used without a \"next\"."),
        ("complete 1 j w q {} depends []", "Complete(): \"depends\" cannot be used without a \"next\"."),
        ("complete 1 j w q {} next r delay soon", "Complete(): Arg \"delay\" not a number: soon"),
        ("complete 1 j w q {} next r depends idle", "Complete(): Arg \"depends\" not JSON: idle"),
        ("complete 1 j w q {} next", "Odd number of additional args"),
        ("complete 1 none w q {}", "Complete(): Job none does not exist"),
        ("complete 1 idle w q {}", "Complete(): Job idle is not currently running: waiting"),
        ("complete 1 j x q {}", "Complete(): Job j has been handed out to another worker: w"),
        ("complete 1 j w r {}", "Complete(): Job j running in another queue: q"),
    ]);
}

#[test]
fn completed_job_is_published_counted_and_kept() {
    let mut scene = held(&["tags", r#"["t"]"#]);
    let _: i64 = scene.script.raw("ZADD ql:tracked 0 j");
    assert_eq!(scene.script.line::<String>("complete 4.25 j w q {\"id\":12345678901234567890}"), "complete");
    assert_eq!(
        scene.ears.heard(),
        ["ql:completed j", r#"ql:log {"jid":"j","event":"completed","queue":"q"}"#]
    );
    let job = scene.script.json("get 5 j");
    assert_eq!(
        job,
        json!({
            "jid": "j", "klass": "klass", "state": "complete", "queue": "", "worker": "", "tracked": true,
            "priority": 0, "expires": 0, "retries": 3, "remaining": 3, "data": "{\"id\":12345678901234567890}",
            "tags": ["t"], "history": [
                {"when": 0, "what": "put", "q": "q"}, {"when": 0, "what": "popped", "worker": "w"},
                {"when": 4, "what": "done"},
            ],
            "failure": {}, "spawned_from_jid": false, "dependents": {}, "dependencies": {},
        })
    );
    let kept = scene.script.everything();
    assert_eq!(kept["ql:completed"], r#"["j", "4.25"]"#);
    assert_eq!(kept["ql:s:run:0:q"], r#"{"mean": "4.25", "s4": "1", "total": "1", "vk": "0"}"#);
    assert!(!kept.contains_key("ql:q:q-locks") && !kept.contains_key("ql:w:w:jobs"));
}

#[test]
fn a_clock_that_goes_back_makes_no_negative_times() {
    let mut scene = Scene::new();
    let _: String = scene.script.line("put 100 me q j klass {} 0");
    scene.pop("50", "q", "w", 1);
    let _: String = scene.script.line("complete 20 j w q {}");
    let kept = scene.script.everything();
    assert_eq!(kept["ql:s:wait:0:q"], r#"{"mean": "0", "s0": "1", "total": "1", "vk": "0"}"#);
    assert_eq!(kept["ql:s:run:0:q"], kept["ql:s:wait:0:q"]);
}

#[test]
fn job_advances_to_the_next_queue() {
    let mut scene = held(&["priority", "2"]);
    assert_eq!(scene.script.line::<String>("complete 5 j w q {} next r"), "waiting");
    assert_eq!(scene.ears.heard(), [r#"ql:log {"jid":"j","to":"r","event":"advanced","queue":"q"}"#]);
    let job = scene.script.json("get 5 j");
    assert_eq!((&job["queue"], &job["state"], &job["worker"]), (&json!("r"), &json!("waiting"), &json!("")));
    assert_eq!(job["history"][3], json!({"when": 5, "what": "put", "q": "r"}));
    let kept = scene.script.everything();
    assert_eq!(kept["ql:queues"], r#"["q", "0", "r", "5"]"#);
    assert!(!kept.contains_key("ql:completed"));
    assert_eq!(scene.pop("6", "r", "x", 1), ["j"]);
}

#[test]
fn job_that_advances_with_a_delay_is_scheduled() {
    let mut scene = held(&[]);
    assert_eq!(scene.script.line::<String>("complete 5 j w q {} next r delay 10"), "scheduled");
    assert_eq!(scene.script.json("get 5 j")["state"], "scheduled");
    assert_eq!(scene.script.everything()["ql:q:r-scheduled"], r#"["j", "15"]"#);
}

#[test]
fn job_that_advances_waits_for_its_dependencies() {
    let mut scene = held(&[]);
    scene.put("a", "q", &[]);
    let answer: String = scene.script.line("complete 5 j w q {} next r delay 10 depends [\"a\",\"gone\"]");
    assert_eq!(answer, "depends");
    let job = scene.script.json("get 5 j");
    assert_eq!((&job["state"], &job["dependencies"]), (&json!("depends"), &json!(["a"])));
    scene.pop("6", "q", "w", 1);
    let _: String = scene.script.line("complete 7 a w q {}");
    let kept = scene.script.everything();
    assert_eq!(
        (&*kept["ql:q:r-scheduled"], scene.script.json("get 7 j")["state"].as_str()),
        (r#"["j", "15"]"#, Some("scheduled"))
    );
    assert_eq!(scene.script.field("j", "scheduled"), None);
    assert!(!kept.contains_key("ql:q:r-depends") && !kept.contains_key("ql:j:a-dependents"));
}

#[test]
fn dependents_wait_for_the_last_of_their_dependencies() {
    let mut scene = Scene::new();
    scene.put("a", "q", &[]);
    scene.put("b", "q", &[]);
    scene.put("j", "r", &["priority", "3", "depends", r#"["a","b"]"#]);
    scene.pop("1", "q", "w", 2);
    let _: String = scene.script.line("complete 2 a w q {}");
    assert_eq!(scene.script.json("get 2 j")["state"], "depends");
    let _: String = scene.script.line("complete 3 b w q {}");
    let job = scene.script.json("get 3 j");
    assert_eq!((&job["state"], &job["dependencies"]), (&json!("waiting"), &json!({})));
    assert_eq!(scene.pop("4", "r", "w", 1), ["j"]);
}

#[test]
fn completed_jobs_expire_by_age_and_by_count() {
    let mut scene = Scene::new();
    for jid in ["a", "b", "c", "d"] {
        scene.put(jid, "q", &["tags", r#"["t"]"#]);
    }
    scene.pop("0", "q", "w", 4);
    let _: i64 = scene.script.raw("HSET ql:config jobs-history 100");
    let _: String = scene.script.line("complete 1 a w q {}");
    let _: String = scene.script.line("complete 100 b w q {}");
    assert_eq!(scene.script.everything()["ql:completed"], r#"["a", "1", "b", "100"]"#);
    let _: String = scene.script.line("complete 101 c w q {}");
    let kept = scene.script.everything();
    assert_eq!(kept["ql:completed"], r#"["b", "100", "c", "101"]"#);
    assert!(!kept.contains_key("ql:j:a") && !kept.contains_key("ql:j:a-history"));
    assert_eq!(kept["ql:tags"], r#"["t", "3"]"#);
    let _: i64 = scene.script.raw("HSET ql:config jobs-history-count 1");
    let _: String = scene.script.line("complete 102 d w q {}");
    let kept = scene.script.everything();
    assert_eq!((&*kept["ql:completed"], &*kept["ql:tags"]), (r#"["d", "102"]"#, r#"["t", "1"]"#));
}

#[test]
fn requeued_job_is_not_removed_with_expired_jobs() {
    let mut scene = held(&[]);
    scene.put("again", "q", &[]);
    let _: i64 = scene.script.raw("ZADD ql:completed 1 again");
    let _: i64 = scene.script.raw("HSET ql:config jobs-history 10");
    let _: String = scene.script.line("complete 50 j w q {}");
    assert_eq!(scene.script.json("get 50 again")["state"], "waiting");
    assert_eq!(scene.script.everything()["ql:completed"], r#"["j", "50"]"#);
}

#[test]
fn statistics_of_a_day_expire() {
    let mut scene = held(&[]);
    let _: i64 = scene.script.raw("HSET ql:config stats-history 2");
    let _: String = scene.script.line("complete 1 j w q {}");
    let days =
        |scene: &mut Scene, key| (scene.script.raw::<i64>(&format!("TTL {key}")) as f64 / 86400.0).round();
    assert_eq!((days(&mut scene, "ql:s:wait:0:q"), days(&mut scene, "ql:s:run:0:q")), (30.0, 2.0));
}
