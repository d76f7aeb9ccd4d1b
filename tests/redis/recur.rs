//! Recurring jobs: made, changed and removed. The jobs that they put are tested in `pop`.

use serde_json::json;

use crate::Scene;

#[test]
fn recur_refuses_invalid_arguments() {
    let mut scene = Scene::new();
    let _: String = scene.script.line("recur 0 q r klass {} interval 60 0");
    scene.refused(&[
        ("recur 1 q", "RecurringJob On(): Arg \"jid\" missing"),
        ("recur 1 q r", "RecurringJob On(): Arg \"klass\" missing"),
        ("recur 1 q r klass {", "RecurringJob On(): Arg \"data\" not JSON: {"),
        ("recur 1 q r klass {}", "RecurringJob On(): Arg \"spec\" missing"),
        ("recur 1 q r klass {} cron 60 0", "Recur(): schedule type \"cron\" unknown"),
        ("recur 1 q r klass {} interval often 0", "Recur(): Arg \"interval\" not a number: often"),
        ("recur 1 q r klass {} interval 0 0", "Recur(): Arg \"interval\" must be greater than 0"),
        ("recur 1 q r klass {} interval 60 soon", "Recur(): Arg \"offset\" not a number: soon"),
        ("recur 1 q r klass {} interval 60 0 priority high", "Recur(): Arg \"priority\" not a number: high"),
        ("recur 1 q r klass {} interval 60 0 retries some", "Recur(): Arg \"retries\" not a number: some"),
        ("recur 1 q r klass {} interval 60 0 backlog all", "Recur(): Arg \"backlog\" not a number: all"),
        ("recur.update 1 none priority 5", "Recur(): No recurring job none"),
        ("recur.update 1 r priority 5 speed 7", "Recur(): Unrecognized option \"speed\""),
        ("recur.update 1 r priority 5 retries", "Recur(): No value provided for retries"),
        ("recur.update 1 r interval 0", "Recur(): Arg \"interval\" must be greater than 0"),
        ("recur.update 1 r data {", "Recur(): Arg \"data\" not JSON: {"),
        ("recur.tag 1 none red", "Tag(): Job none does not exist"),
        ("recur.untag 1 none red", "Tag(): Job none does not exist"),
    ]);
}

#[test]
fn a_recurring_job_is_kept_shown_and_changed() {
    let mut scene = Scene::new();
    let line = r#"recur 10 q r klass {"l":[]} interval 60 5 priority 2 tags ["red"] retries 3 backlog 4"#;
    assert_eq!(scene.script.line::<String>(line), "r");
    let shown = json!({
        "jid": "r", "klass": "klass", "state": "recur", "queue": "q", "priority": 2, "interval": 60, "retries": 3,
        "count": 0, "data": "{\"l\":[]}", "tags": ["red"], "backlog": 4,
    });
    assert_eq!(scene.script.json("recur.get 10 r"), shown);
    assert_eq!(scene.script.line::<Option<String>>("recur.get 10 none"), None);
    assert_eq!(scene.script.everything()["ql:q:q-recur"], r#"["r", "15"]"#);
    assert_eq!(scene.script.everything()["ql:queues"], r#"["q", "10"]"#);
    assert_eq!(scene.script.line::<i64>("recur.update 11 r interval 100 queue p priority 9 klass other"), 1);
    let kept = scene.script.everything();
    assert_eq!(kept["ql:q:p-recur"], r#"["r", "55"]"#);
    assert!(!kept.contains_key("ql:q:q-recur"));
    let shown = scene.script.json("recur.get 11 r");
    assert_eq!(
        (&shown["interval"], &shown["queue"], &shown["priority"]),
        (&json!(100), &json!("p"), &json!(9))
    );
    assert_eq!(scene.script.json("recur.tag 11 r red blue"), json!(["red", "blue"]));
    assert_eq!(scene.script.json("recur.untag 11 r red"), json!(["blue"]));
    assert!(!scene.script.everything().contains_key("ql:tags"));
    assert_eq!(scene.ears.heard(), Vec::<String>::new());
}

#[test]
fn second_recur_continues_the_numbering_and_unrecur_removes_all() {
    let mut scene = Scene::new();
    let _: String = scene.script.line("recur 0 q r klass {} interval 60 0");
    assert_eq!(scene.pop("1", "q", "w", 9), ["r-1"]);
    let _: String = scene.script.line("recur 2 p r klass {} interval 60 0");
    assert_eq!(scene.pop("2", "p", "w", 9), ["r-2"]);
    assert!(!scene.script.everything().contains_key("ql:q:q-recur"));
    assert_eq!(scene.script.line::<i64>("unrecur 3 r"), 1);
    assert_eq!(scene.script.line::<i64>("unrecur 3 r"), 1);
    let kept = scene.script.everything();
    assert!(!kept.contains_key("ql:q:p-recur") && !kept.contains_key("ql:r:r"));
}
