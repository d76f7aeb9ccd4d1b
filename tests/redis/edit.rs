//! depends, priority, log, tag: edits of a job while it waits or runs.

use serde_json::json;

use crate::Scene;

#[test]
fn invalid_edits_are_refused() {
    let mut scene = Scene::new();
    scene.put("j", "q", &[]);
    scene.put("d", "q", &["depends", "[\"j\"]"]);
    scene.refused(&[
        ("depends 1 d", "Depends(): Arg \"command\" missing"),
        ("depends 1 d some j", "Depends(): Argument \"command\" must be \"on\" or \"off\""),
        ("depends 1 j on d", "Depends(): Job j not in the depends state: waiting"),
        ("depends 1 none on d", "Depends(): Job none not in the depends state: false"),
        ("priority 1 j", "Priority(): Arg \"priority\" missing or not a number: nil"),
        ("priority 1 j high", "Priority(): Arg \"priority\" missing or not a number: high"),
        ("priority 1 none 5", "Priority(): Job none does not exist"),
        ("log 1 none hello", "Log(): Job none does not exist"),
        ("log 1 j hello 7", "Log(): Arg \"data\" not JSON: 7"),
        ("tag 1", "Tag(): Arg \"command\" must be"),
        ("tag 1 paint j red", "Tag(): First argument must be \"add\", \"remove\" or \"get\""),
        ("tag 1 add", "Tag(): Arg \"jid\" missing"),
        ("tag 1 add none red", "Tag(): Job none does not exist"),
        ("tag 1 get", "Tag(): Arg \"tag\" missing"),
        ("tag 1 get red first", "Tag(): Arg \"offset\" not a number: first"),
        ("tag 1 top 0 all", "Tag(): Arg \"count\" not a number: all"),
    ]);
}

#[test]
fn depends_adds_and_removes_dependencies() {
    let mut scene = Scene::new();
    for jid in ["a", "b", "c"] {
        scene.put(jid, "q", &[]);
    }
    scene.put("d", "q", &["depends", "[\"a\"]"]);
    assert_eq!(scene.script.line::<i64>("depends 1 d on b c gone"), 1);
    let mut needs = scene.script.everything()["ql:j:d-dependencies"].clone();
    assert_eq!(needs, r#"["a", "b", "c"]"#);
    assert_eq!(scene.script.line::<i64>("depends 1 d off b"), 1);
    needs = scene.script.everything()["ql:j:d-dependencies"].clone();
    assert_eq!(needs, r#"["a", "c"]"#);
    assert_eq!(scene.script.json("get 1 d")["state"], "depends");
    assert_eq!(scene.script.line::<i64>("depends 2 d off all"), 1);
    let kept = scene.script.everything();
    assert!(!kept.contains_key("ql:q:q-depends") && !kept.contains_key("ql:j:a-dependents"));
    assert_eq!(scene.script.json("get 2 d")["state"], "waiting");
}

#[test]
fn job_without_dependencies_left_still_has_its_delay() {
    let mut scene = Scene::new();
    scene.put("a", "q", &[]);
    let _: String = scene.script.line("put 0 me q d klass {} 100 depends [\"a\"]");
    let _: i64 = scene.script.line("depends 2 d off all");
    assert_eq!(scene.script.json("get 2 d")["state"], "scheduled");
    assert_eq!(scene.script.everything()["ql:q:q-scheduled"], r#"["d", "100"]"#);
}

#[test]
fn priority_change_keeps_the_put_order_among_equals() {
    let mut scene = Scene::new();
    for (jid, now, priority) in [("first", "1", "5"), ("late", "9", "0"), ("between", "5", "5")] {
        let _: String =
            scene.script.call(&["put", now, "me", "q", jid, "klass", "{}", "0", "priority", priority]);
    }
    assert_eq!(scene.script.line::<i64>("priority 10 late 5"), 5);
    assert_eq!(scene.script.json("get 10 late")["priority"], 5);
    assert_eq!(scene.pop("11", "q", "w", 9), ["first", "between", "late"]);
    assert_eq!(scene.script.line::<i64>("priority 12 late 1.5"), 1);
    assert!(!scene.script.everything().contains_key("ql:q:q-work"));
}

#[test]
fn log_appends_to_the_history() {
    let mut scene = Scene::new();
    scene.put("j", "q", &[]);
    assert_eq!(scene.script.line::<Option<String>>("log 5.5 j hello"), None);
    let _: Option<String> = scene.script.call(&["log", "6", "j", "so\"so", r#"{"mood":[1],"when":9}"#]);
    assert_eq!(
        scene.script.json("get 7 j")["history"],
        json!([
            {"when": 0, "what": "put", "q": "q"}, {"when": 5, "what": "hello"},
            {"when": 6, "what": "so\"so", "mood": [1]},
        ])
    );
}

#[test]
fn tags_are_counted_once_for_each_job() {
    let mut scene = Scene::new();
    scene.put("j", "q", &["tags", r#"["red"]"#]);
    scene.put("k", "q", &["tags", r#"["red"]"#]);
    assert_eq!(scene.script.json("tag 1 add j red blue blue"), json!(["red", "blue"]));
    assert_eq!(scene.script.everything()["ql:tags"], r#"["blue", "1", "red", "2"]"#);
    assert_eq!(scene.script.json("get 1 j")["tags"], json!(["red", "blue"]));
    assert_eq!(scene.script.json("tag 1 get red"), json!({"total": 2, "jobs": ["j", "k"]}));
    assert_eq!(scene.script.json("tag 1 get red 1 5"), json!({"total": 2, "jobs": ["k"]}));
    assert_eq!(scene.script.json("tag 1 get none"), json!({"total": 0, "jobs": {}}));
    assert_eq!(scene.script.json("tag 1 top"), json!(["red"]));
    assert_eq!(scene.script.json("tag 1 remove j red green"), json!(["blue"]));
    assert_eq!(scene.script.everything()["ql:tags"], r#"["blue", "1", "red", "1"]"#);
    assert_eq!(scene.script.json("tag 1 remove j blue"), json!({}));
    assert_eq!(scene.script.everything()["ql:tags"], r#"["red", "1"]"#);
    assert_eq!(scene.script.json("tag 1 top"), json!({}));
}
