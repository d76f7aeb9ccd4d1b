//! put, requeue, cancel.

use serde_json::json;

use crate::Scene;

#[test]
fn put_publishes_stores_and_returns_the_job() {
    let mut scene = Scene::new();
    let jid: String = scene.script.call(&["put", "12.5", "me", "q", "j", "klass", "{\"n\": [1, {}]}", "0"]);
    assert_eq!(jid, "j");
    assert_eq!(scene.ears.heard(), [r#"ql:log {"jid":"j","event":"put","queue":"q"}"#]);
    let mut kept = scene.script.everything();
    // Server versions format small numbers differently.
    let place = kept.remove("ql:q:q-work").unwrap().replace("e-09", "e-9");
    assert_eq!(place, r#"["j", "-1.25e-9"]"#);
    let keys: Vec<(&str, &str)> = kept.iter().map(|(key, text)| (key.as_str(), text.as_str())).collect();
    assert_eq!(
        keys,
        [
            (
                "ql:j:j",
                r#"{"data": "{\"n\": [1, {}]}", "expires": "0", "jid": "j", "klass": "klass", "priority": "0", "queue": "q", "remaining": "5", "retries": "5", "state": "waiting", "tags": "{}", "time": "12.50000000000000000000", "worker": ""}"#
            ),
            ("ql:j:j-history", r#"["[12,\"put\",{\"q\":\"q\"}]"]"#),
            ("ql:queues", r#"["q", "12.5"]"#),
        ]
    );
}

#[test]
fn put_refuses_invalid_arguments_before_it_writes() {
    let mut scene = Scene::new();
    scene.put("j", "q", &["tags", r#"["old"]"#]);
    scene.refused(&[
        ("put 1 me q", "Put(): Arg \"jid\" missing"),
        ("put 1 me q j", "Put(): Arg \"klass\" missing"),
        ("put 1 me q j klass", "Put(): Arg \"data\" missing or not JSON: nil"),
        ("put 1 me q j klass {nothing 0", "Put(): Arg \"data\" missing or not JSON: {nothing"),
        ("put 1 me q j klass {}", "Put(): Arg \"delay\" not a number: nil"),
        ("put 1 me q j klass {} soon", "Put(): Arg \"delay\" not a number: soon"),
        ("put 1 me q j klass {} nan", "Put(): Arg \"delay\" not a number: nan"),
        ("put 1 me q j klass {} 0 priority high", "Put(): Arg \"priority\" not a number: high"),
        ("put 1 me q j klass {} 0 retries some", "Put(): Arg \"retries\" not a number: some"),
        ("put 1 me q j klass {} 0 tags new", "Put(): Arg \"tags\" not JSON: new"),
        ("put 1 me q j klass {} 0 tags [[1]]", "Put(): Arg \"tags\" not JSON: [[1]]"),
        ("put 1 me q j klass {} 0 depends other", "Put(): Arg \"depends\" not JSON: other"),
        ("put 1 me q j klass {} 0 priority", "Odd number of additional args"),
        ("requeue 1 me q other klass {} 0", "Requeue(): Job other does not exist"),
    ]);
}

#[test]
fn put_accepts_false_and_null_as_data() {
    let mut scene = Scene::new();
    for data in ["false", "null", "7", "\"text\""] {
        let _: String = scene.script.call(&["put", "0", "me", "q", "j", "klass", data, "0"]);
        assert_eq!(scene.script.json("get 0 j")["data"], data);
    }
}

#[test]
fn pop_returns_the_oldest_job_of_the_highest_priority_first() {
    let mut scene = Scene::new();
    for (jid, now, priority) in [("a", "10", "0"), ("b", "5", "0"), ("c", "20", "1"), ("d", "1", "-3")] {
        let _: String =
            scene.script.call(&["put", now, "me", "q", jid, "klass", "{}", "0", "priority", priority]);
    }
    assert_eq!(scene.pop("30", "q", "w", 10), ["c", "b", "a", "d"]);
}

#[test]
fn second_put_keeps_omitted_fields_and_leaves_the_old_queue() {
    let mut scene = Scene::new();
    scene.put("other", "q", &[]);
    scene.put("j", "q", &["priority", "7", "tags", r#"["red","blue"]"#, "retries", "2"]);
    let _: String = scene.script.line("put 3 me r j other {\"a\":1} 10");
    let job = scene.script.json("get 3 j");
    assert_eq!(
        job,
        json!({
            "jid": "j", "klass": "other", "state": "scheduled", "queue": "r", "worker": "", "tracked": false,
            "priority": 7, "expires": 0, "retries": 2, "remaining": 2, "data": "{\"a\":1}", "tags": ["red", "blue"],
            "history": [{"when": 0, "what": "put", "q": "q"}, {"when": 3, "what": "put", "q": "r"}], "failure": {},
            "spawned_from_jid": false, "dependents": {}, "dependencies": {},
        })
    );
    let kept = scene.script.everything();
    assert_eq!(kept["ql:q:q-work"], r#"["other", "0"]"#);
    assert_eq!(kept["ql:q:r-scheduled"], r#"["j", "13"]"#);
    assert_eq!(kept["ql:t:red"], r#"["j", "3"]"#);
    assert_eq!(kept["ql:tags"], r#"["blue", "1", "red", "1"]"#);
    let _: String = scene.script.line("put 4 me r j other {} 0 tags [\"blue\"]");
    let kept = scene.script.everything();
    assert_eq!(kept["ql:tags"], r#"["blue", "1"]"#);
    assert!(!kept.contains_key("ql:t:red"));
}

#[test]
fn worker_is_notified_when_another_client_requeues_its_job() {
    let mut scene = Scene::new();
    scene.put("j", "q", &[]);
    scene.pop("1", "q", "w", 1);
    let _: i64 = scene.script.raw("ZADD ql:tracked 0 j");
    scene.ears.heard();
    let _: String = scene.script.line("put 2 me q j klass {} 0");
    assert_eq!(
        scene.ears.heard(),
        [
            r#"ql:log {"jid":"j","event":"put","queue":"q"}"#,
            r#"ql:w:w {"jid":"j","event":"lock_lost","worker":"w"}"#,
            r#"ql:log {"jid":"j","event":"lock_lost","worker":"w"}"#,
            "ql:put j",
        ]
    );
    let kept = scene.script.everything();
    assert!(!kept.contains_key("ql:w:w:jobs") && !kept.contains_key("ql:q:q-locks"));
    scene.pop("3", "q", "w", 1);
    scene.ears.heard();
    let _: String = scene.script.line("put 4 w q j klass {} 0");
    assert_eq!(scene.ears.heard(), [r#"ql:log {"jid":"j","event":"put","queue":"q"}"#, "ql:put j"]);
}

#[test]
fn job_waits_for_its_incomplete_dependencies() {
    let mut scene = Scene::new();
    scene.put("a", "q", &[]);
    scene.put("b", "q", &[]);
    scene.put("j", "q", &["depends", r#"["a","gone","j"]"#]);
    let job = scene.script.json("get 0 j");
    assert_eq!((&job["state"], &job["dependencies"]), (&json!("depends"), &json!(["a"])));
    assert_eq!(scene.script.json("get 0 a")["dependents"], json!(["j"]));
    // An empty list keeps the dependencies, a non-empty one replaces them.
    scene.put("j", "q", &["depends", "[]"]);
    assert_eq!(scene.script.json("get 0 j")["dependencies"], json!(["a"]));
    let _: String = scene.script.line("put 5 me q j klass {} 10 depends [\"b\"]");
    let kept = scene.script.everything();
    assert!(!kept.contains_key("ql:j:a-dependents"));
    assert_eq!((&*kept["ql:j:b-dependents"], &*kept["ql:j:j-dependencies"]), (r#"["j"]"#, r#"["b"]"#));
    assert_eq!(kept["ql:q:q-depends"], r#"["j", "5"]"#);
    assert_eq!(scene.script.field("j", "scheduled").as_deref(), Some("15"));
}

#[test]
fn second_put_keeps_fields_of_other_programs() {
    let mut scene = Scene::new();
    scene.put("j", "q", &[]);
    let _: i64 = scene.script.raw("HSET ql:j:j throttles [\"ql:q:q\"] grace 1");
    let _: i64 = scene.script.raw("ZADD ql:th:ql:q:q-locks 1 j");
    let _: String = scene.script.line("put 1 me q j klass {} 0");
    assert_eq!(scene.script.field("j", "throttles").as_deref(), Some("[\"ql:q:q\"]"));
    assert_eq!(scene.script.raw::<Option<String>>("ZSCORE ql:th:ql:q:q-locks j").as_deref(), Some("1"));
}

#[test]
fn requeue_is_a_put_of_an_existing_job() {
    let mut scene = Scene::new();
    scene.put("j", "q", &[]);
    assert_eq!(scene.script.line::<String>("requeue 1 me r j klass {} 0 priority 3"), "j");
    let job = scene.script.json("get 1 j");
    assert_eq!((&job["queue"], &job["priority"]), (&json!("r"), &json!(3)));
    assert_eq!(scene.ears.heard(), [r#"ql:log {"jid":"j","event":"put","queue":"r"}"#]);
}

#[test]
fn requeue_of_a_failed_job_uncounts_its_failure() {
    let mut scene = Scene::new();
    scene.put("j", "q", &[]);
    scene.pop("100000", "q", "w", 1);
    let _: String = scene.script.line("fail 100000 j w group message");
    let _: String = scene.script.line("put 300000 me r j klass {} 0");
    let kept = scene.script.everything();
    assert_eq!(kept["ql:s:stats:86400:q"], r#"{"failed": "0", "failures": "1"}"#);
    assert!(!kept.contains_key("ql:s:stats:259200:r") && !kept.contains_key("ql:s:stats:86400:r"));
    assert!(!kept.contains_key("ql:failures") && !kept.contains_key("ql:f:group"));
    // The failure can still be read.
    assert_eq!(scene.script.json("get 300000 j")["failure"]["group"], "group");
}

#[test]
fn cancel_removes_a_job_completely_and_notifies_its_worker() {
    let mut scene = Scene::new();
    scene.put("keep", "q", &[]);
    let before = scene.script.everything();
    scene.put("j", "q", &["tags", r#"["red"]"#, "priority", "9"]);
    scene.pop("1", "q", "w", 1);
    let _: i64 = scene.script.raw("ZADD ql:tracked 0 j");
    assert_eq!(scene.script.line::<Vec<String>>("cancel 2 j nobody"), ["j", "nobody"]);
    assert_eq!(
        scene.ears.heard(),
        [
            r#"ql:log {"jid":"j","queue":"q","event":"canceled","worker":"w"}"#,
            r#"ql:w:w {"jid":"j","queue":"q","event":"canceled","worker":"w"}"#,
            "ql:canceled j",
            r#"ql:log {"jid":"nobody","queue":false,"event":"canceled","worker":false}"#,
        ]
    );
    let mut after = scene.script.everything();
    for of_the_pop in ["ql:workers", "ql:s:wait:0:q", "ql:tracked"] {
        assert!(after.remove(of_the_pop).is_some(), "{of_the_pop}");
    }
    assert_eq!(after, before);
}

#[test]
fn cancel_is_refused_unless_it_names_all_dependents() {
    let mut scene = Scene::new();
    scene.put("a", "q", &[]);
    scene.put("b", "q", &["depends", "[\"a\"]"]);
    scene.refused(&[("cancel 1 a", "Cancel(): a is a dependency of b but is not mentioned to be canceled")]);
    assert_eq!(scene.script.line::<Vec<String>>("cancel 1 b a"), ["b", "a"]);
    assert_eq!(scene.script.everything().into_keys().collect::<Vec<_>>(), ["ql:queues"]);
}

#[test]
fn cancel_keeps_complete_jobs_and_uncounts_failed_ones() {
    let mut scene = Scene::new();
    scene.put("done", "q", &[]);
    scene.put("bad", "q", &[]);
    scene.pop("1", "q", "w", 2);
    let _: String = scene.script.line("complete 2 done w q {}");
    let _: String = scene.script.line("fail 2 bad w group message");
    scene.ears.heard();
    let _: Vec<String> = scene.script.line("cancel 3 done bad");
    assert_eq!(scene.ears.heard(), [r#"ql:log {"jid":"bad","queue":"q","event":"canceled","worker":""}"#]);
    let kept = scene.script.everything();
    assert_eq!(kept["ql:s:stats:0:q"], r#"{"failed": "0", "failures": "1"}"#);
    assert!(
        kept.contains_key("ql:j:done") && !kept.contains_key("ql:j:bad") && !kept.contains_key("ql:failures")
    );
}

#[test]
fn put_accepts_ten_thousand_tags_and_any_jid() {
    let mut scene = Scene::new();
    let jid = "a job, with \"quotes\" and\nlines";
    let tags = serde_json::to_string(&(0..10_000).map(|n| format!("tag {n}")).collect::<Vec<_>>()).unwrap();
    let _: String = scene.script.call(&["put", "0", "me", "a queue", jid, "klass", "{}", "0", "tags", &tags]);
    assert_eq!(
        scene.ears.heard(),
        [r#"ql:log {"jid":"a job, with \"quotes\" and\nlines","event":"put","queue":"a queue"}"#]
    );
    let jobs: String = scene.script.call(&["pop", "1", "a queue", "w", "1"]);
    let jobs: serde_json::Value = serde_json::from_str(&jobs).unwrap();
    assert_eq!((&jobs[0]["jid"], jobs[0]["tags"].as_array().unwrap().len()), (&json!(jid), 10_000));
    let _: Vec<String> = scene.script.call(&["cancel", "2", jid]);
    assert!(!scene.script.everything().contains_key("ql:tags"));
}
