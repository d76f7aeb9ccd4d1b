//! Queues and workers: counts, statistics of a day, paused queues; options.

use serde_json::json;

use crate::Scene;

#[test]
fn queue_commands_refuse_invalid_arguments() {
    Scene::new().refused(&[
        ("length 1", "Length(): Arg \"queue\" missing"),
        ("stats 1", "Stats(): Arg \"queue\" missing"),
        ("stats 1 q", "Stats(): Arg \"date\" missing or not a number: nil"),
        ("stats 1 q today", "Stats(): Arg \"date\" missing or not a number: today"),
        ("config.set 1", "Config.set(): Arg \"option\" missing"),
        ("config.set 1 name", "Config.set(): Arg \"value\" missing"),
        ("config.unset 1", "Config.unset(): Arg \"option\" missing"),
    ]);
}

#[test]
fn a_queue_is_shown_in_numbers() {
    let mut scene = Scene::new();
    for jid in ["a", "b", "c"] {
        scene.put(jid, "q", &[]);
    }
    scene.put("d", "q", &["depends", "[\"a\"]"]);
    let _: String = scene.script.line("put 0 me q later klass {} 100");
    let _: String = scene.script.line("recur 0 q r klass {} interval 60 500");
    scene.pop("0", "q", "w", 1);
    scene.pop("10", "q", "w", 1);
    let numbers = json!({
        "name": "q", "waiting": 1, "running": 1, "stalled": 1, "scheduled": 1, "depends": 1, "recurring": 1,
        "paused": false,
    });
    assert_eq!(scene.script.json("queues 65 q"), numbers);
    assert_eq!(scene.script.json("queues 65"), json!([numbers]));
    assert_eq!(scene.script.line::<i64>("length 65 q"), 4);
    // Due jobs count as waiting.
    let numbers = scene.script.json("queues 100 q");
    assert_eq!((&numbers["waiting"], &numbers["scheduled"]), (&json!(2), &json!(0)));
    let none = scene.script.json("queues 1 none");
    assert_eq!(
        (&none["name"], &none["waiting"], &none["paused"]),
        (&json!("none"), &json!(0), &json!(false))
    );
}

#[test]
fn queues_are_paused_and_forgotten() {
    let mut scene = Scene::new();
    scene.put("a", "q", &[]);
    scene.put("b", "r", &[]);
    assert_eq!(scene.script.line::<Option<String>>("pause 1 q r"), None);
    assert_eq!(scene.script.json("queues 1 r")["paused"], true);
    assert_eq!(scene.script.line::<Option<String>>("unpause 1 r"), None);
    assert_eq!(scene.script.everything()["ql:paused_queues"], r#"["q"]"#);
    assert_eq!(scene.script.line::<Option<String>>("queue.forget 1 q"), None);
    assert_eq!(scene.script.everything()["ql:queues"], r#"["r", "0"]"#);
    let _: Option<String> = scene.script.line("queue.forget 1 r");
    assert_eq!(scene.script.line::<String>("queues 1"), "{}");
}

#[test]
fn a_day_is_shown_with_its_histograms() {
    let mut scene = Scene::new();
    for jid in ["a", "b"] {
        scene.put(jid, "q", &[]);
    }
    scene.pop("10", "q", "w", 1);
    scene.pop("3700", "q", "w", 1);
    let stats = scene.script.json("stats 4000 q 5000");
    let histogram = stats["wait"]["histogram"].as_array().unwrap();
    assert_eq!(histogram.len(), 148);
    let hits: Vec<usize> = (0..148).filter(|at| histogram[*at] != 0).collect();
    // The buckets s10 and h1; h1 comes after s0..s59 and m1..m59.
    assert_eq!(hits, [10, 119]);
    let wait = &stats["wait"];
    assert_eq!((&wait["count"], &wait["mean"]), (&json!(2), &json!(1855)));
    assert!((wait["std"].as_f64().unwrap() - 2609.224).abs() < 1e-3, "{wait}");
    assert_eq!((&stats["run"]["count"], &stats["run"]["std"]), (&json!(0), &json!(0)));
    assert_eq!((&stats["retries"], &stats["failed"], &stats["failures"]), (&json!(1), &json!(0), &json!(0)));
    assert_eq!(scene.script.json("stats 4000 q 90000")["wait"]["count"], 0);
}

#[test]
fn workers_are_shown_with_their_jobs() {
    let mut scene = Scene::new();
    for jid in ["a", "b", "c"] {
        scene.put(jid, "q", &[]);
    }
    scene.pop("0", "q", "w", 1);
    scene.pop("10", "q", "w", 1);
    scene.pop("20", "q", "x", 1);
    assert_eq!(
        scene.script.json("workers 65"),
        json!([{"name": "x", "jobs": 1, "stalled": 0}, {"name": "w", "jobs": 1, "stalled": 1}])
    );
    assert_eq!(scene.script.json("workers 65 w"), json!({"jobs": ["b"], "stalled": ["c"]}));
    assert_eq!(scene.script.json("workers 65 none"), json!({"jobs": {}, "stalled": {}}));
    assert_eq!(scene.script.line::<Option<String>>("worker.deregister 65 x"), None);
    assert_eq!(scene.script.json("workers 65").as_array().unwrap().len(), 1);
    // A worker that was not seen for a day is forgotten.
    assert_eq!(scene.script.line::<String>("workers 86411"), "{}");
    assert!(!scene.script.everything().contains_key("ql:w:w:jobs"));
}

#[test]
fn options_have_defaults_and_changes_are_published() {
    let mut scene = Scene::new();
    let mut defaults = json!({
        "application": "qless", "heartbeat": 60, "grace-period": 10, "stats-history": 30, "histogram-history": 7,
        "jobs-history-count": 50000, "jobs-history": 604_800,
    });
    assert_eq!(scene.script.json("config.get 0"), defaults);
    assert_eq!(scene.script.line::<i64>("config.get 0 heartbeat"), 60);
    assert_eq!(scene.script.line::<Option<String>>("config.get 0 none"), None);
    assert_eq!(scene.script.line::<Option<String>>("config.set 0 heartbeat 30"), None);
    assert_eq!(scene.script.line::<String>("config.get 0 heartbeat"), "30");
    defaults["heartbeat"] = json!("30");
    assert_eq!(scene.script.json("config.get 0"), defaults);
    assert_eq!(scene.script.line::<Option<String>>("config.unset 0 heartbeat"), None);
    assert_eq!(scene.script.line::<i64>("config.get 0 heartbeat"), 60);
    assert_eq!(
        scene.ears.heard(),
        [
            r#"ql:log {"option":"heartbeat","event":"config_set","value":"30"}"#,
            r#"ql:log {"event":"config_unset","option":"heartbeat"}"#
        ]
    );
}
