//! put, requeue, cancel.

use serde_json::json;

use crate::Scene;

#[test]
fn a_job_is_told_kept_and_shown() {
    let mut scene = Scene::new();
    let jid: String = scene.script.call(&["put", "12.5", "me", "q", "j", "klass", "{\"n\": [1, {}]}", "0"]);
    assert_eq!(jid, "j");
    assert_eq!(scene.ears.heard(), [r#"ql:log {"jid":"j","event":"put","queue":"q"}"#]);
    let mut kept = scene.script.everything();
    // Servers write small numbers in their own ways.
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
fn what_put_is_given_is_looked_at_before_anything_is_written() {
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
fn data_that_is_false_or_null_is_data() {
    let mut scene = Scene::new();
    for data in ["false", "null", "7", "\"text\""] {
        let _: String = scene.script.call(&["put", "0", "me", "q", "j", "klass", data, "0"]);
        assert_eq!(scene.script.json("get 0 j")["data"], data);
    }
}

#[test]
fn the_first_of_the_highest_priority_is_handed_out_first() {
    let mut scene = Scene::new();
    for (jid, now, priority) in [("a", "10", "0"), ("b", "5", "0"), ("c", "20", "1"), ("d", "1", "-3")] {
        let _: String =
            scene.script.call(&["put", now, "me", "q", jid, "klass", "{}", "0", "priority", priority]);
    }
    assert_eq!(scene.pop("30", "q", "w", 10), ["c", "b", "a", "d"]);
}

#[test]
fn a_job_put_anew_keeps_what_is_not_said_and_loses_what_it_was_in() {
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
fn a_worker_hears_that_its_job_was_put_by_another() {
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
fn a_job_waits_for_those_it_needs_and_are_not_complete() {
    let mut scene = Scene::new();
    scene.put("a", "q", &[]);
    scene.put("b", "q", &[]);
    scene.put("j", "q", &["depends", r#"["a","gone","j"]"#]);
    let job = scene.script.json("get 0 j");
    assert_eq!((&job["state"], &job["dependencies"]), (&json!("depends"), &json!(["a"])));
    assert_eq!(scene.script.json("get 0 a")["dependents"], json!(["j"]));
    // An empty list keeps what it needed, another one replaces it.
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
fn fields_of_others_stay_when_a_job_is_put_anew() {
    let mut scene = Scene::new();
    scene.put("j", "q", &[]);
    let _: i64 = scene.script.raw("HSET ql:j:j throttles [\"ql:q:q\"] grace 1");
    let _: i64 = scene.script.raw("ZADD ql:th:ql:q:q-locks 1 j");
    let _: String = scene.script.line("put 1 me q j klass {} 0");
    assert_eq!(scene.script.field("j", "throttles").as_deref(), Some("[\"ql:q:q\"]"));
    assert_eq!(scene.script.raw::<Option<String>>("ZSCORE ql:th:ql:q:q-locks j").as_deref(), Some("1"));
}

#[test]
fn requeue_is_put_of_a_job_that_is_there() {
    let mut scene = Scene::new();
    scene.put("j", "q", &[]);
    assert_eq!(scene.script.line::<String>("requeue 1 me r j klass {} 0 priority 3"), "j");
    let job = scene.script.json("get 1 j");
    assert_eq!((&job["queue"], &job["priority"]), (&json!("r"), &json!(3)));
    assert_eq!(scene.ears.heard(), [r#"ql:log {"jid":"j","event":"put","queue":"r"}"#]);
}

#[test]
fn a_failed_job_put_elsewhere_is_counted_less_where_it_failed() {
    let mut scene = Scene::new();
    scene.put("j", "q", &[]);
    scene.pop("100000", "q", "w", 1);
    let _: String = scene.script.line("fail 100000 j w group message");
    let _: String = scene.script.line("put 300000 me r j klass {} 0");
    let kept = scene.script.everything();
    assert_eq!(kept["ql:s:stats:86400:q"], r#"{"failed": "0", "failures": "1"}"#);
    assert!(!kept.contains_key("ql:s:stats:259200:r") && !kept.contains_key("ql:s:stats:86400:r"));
    assert!(!kept.contains_key("ql:failures") && !kept.contains_key("ql:f:group"));
    // What went wrong is still there to be read.
    assert_eq!(scene.script.json("get 300000 j")["failure"]["group"], "group");
}

#[test]
fn a_cancel_ends_a_job_without_a_trace_and_tells_its_worker() {
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
fn a_cancel_names_all_that_wait_for_it_or_ends_nothing() {
    let mut scene = Scene::new();
    scene.put("a", "q", &[]);
    scene.put("b", "q", &["depends", "[\"a\"]"]);
    scene.refused(&[("cancel 1 a", "Cancel(): a is a dependency of b but is not mentioned to be canceled")]);
    assert_eq!(scene.script.line::<Vec<String>>("cancel 1 b a"), ["b", "a"]);
    assert_eq!(scene.script.everything().into_keys().collect::<Vec<_>>(), ["ql:queues"]);
}

#[test]
fn a_cancel_leaves_what_is_complete_and_uncounts_what_failed() {
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
fn ten_thousand_tags_and_any_jid_are_borne() {
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
