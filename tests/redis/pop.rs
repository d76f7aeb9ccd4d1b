//! pop and peek: expired leases, recurring jobs, delayed jobs, waiting jobs.

use serde_json::json;

use crate::Scene;

#[test]
fn a_job_is_handed_out_with_its_lease() {
    let mut scene = Scene::new();
    let _: String =
        scene.script.call(&["put", "0", "me", "q", "j", "klass", "{\"l\":[]}", "0", "tags", r#"["t"]"#]);
    scene.ears.heard();
    let jobs = scene.script.json("pop 61.5 q w 10");
    assert_eq!(
        jobs,
        json!([{
            "jid": "j", "klass": "klass", "state": "running", "queue": "q", "worker": "w", "tracked": false,
            "priority": 0, "expires": 121.5, "retries": 5, "remaining": 5, "data": "{\"l\":[]}", "tags": ["t"],
            "history": [{"when": 0, "what": "put", "q": "q"}, {"when": 61, "what": "popped", "worker": "w"}],
            "failure": {}, "spawned_from_jid": false, "dependents": {}, "dependencies": {},
        }])
    );
    let kept = scene.script.everything();
    assert_eq!(kept["ql:q:q-locks"], r#"["j", "121.5"]"#);
    assert_eq!(kept["ql:w:w:jobs"], r#"["j", "121.5"]"#);
    assert_eq!(kept["ql:workers"], r#"["w", "61.5"]"#);
    assert_eq!(kept["ql:s:wait:0:q"], r#"{"m1": "1", "mean": "61.5", "total": "1", "vk": "0"}"#);
    assert_eq!(scene.script.field("j", "hold").as_deref(), Some("500001"));
    assert!(!kept.contains_key("ql:q:q-work"));
    assert_eq!(scene.ears.heard(), Vec::<String>::new());
    assert_eq!(scene.script.line::<String>("pop 62 q w 10"), "{}");
}

#[test]
fn pop_and_peek_refuse_invalid_arguments() {
    let mut scene = Scene::new();
    scene.put("j", "q", &[]);
    scene.refused(&[
        ("pop 1", "Pop(): Arg \"queue\" missing"),
        ("pop 1 q", "Pop(): Arg \"worker\" missing"),
        ("pop 1 q w", "Pop(): Arg \"count\" missing or not a number: nil"),
        ("pop 1 q w all", "Pop(): Arg \"count\" missing or not a number: all"),
        ("peek 1 q", "Peek(): Arg \"count\" missing or not a number: nil"),
    ]);
}

#[test]
fn pop_and_peek_refuse_a_negative_count() {
    let mut scene = Scene::new();
    scene.put("a", "q", &[]);
    scene.put("b", "q", &[]);
    scene.refused(&[
        ("pop 1 q w -1", "Pop(): Arg \"count\" is less than 0: -1"),
        ("peek 1 q -1", "Peek(): Arg \"count\" is less than 0: -1"),
    ]);
    assert_eq!(scene.pop("1", "q", "w", 0), Vec::<String>::new());
    assert_eq!(scene.script.line::<String>("peek 1 q 0"), "{}");
}

#[test]
fn pop_from_a_paused_queue_returns_nothing_and_changes_nothing() {
    let mut scene = Scene::new();
    scene.put("j", "q", &[]);
    let _: i64 = scene.script.raw("SADD ql:paused_queues q");
    let before = scene.script.everything();
    assert_eq!(scene.script.line::<String>("pop 1 q w 1"), "{}");
    assert_eq!(scene.script.everything(), before);
}

#[test]
fn queue_runs_at_most_max_concurrency_jobs() {
    let mut scene = Scene::new();
    for jid in ["a", "b", "c"] {
        scene.put(jid, "q", &[]);
    }
    let _: i64 = scene.script.raw("HSET ql:config q-max-concurrency 2 grace-period 0");
    assert_eq!(scene.pop("1", "q", "w", 10).len(), 2);
    assert_eq!(scene.pop("2", "q", "w", 10).len(), 0);
    // Jobs with an expired lease do not count.
    assert_eq!(scene.pop("62", "q", "x", 10).len(), 2);
}

#[test]
fn lease_length_is_that_of_the_queue_or_the_global_one() {
    let mut scene = Scene::new();
    for jid in ["a", "b"] {
        scene.put(jid, "q", &[]);
    }
    let _: i64 = scene.script.raw("HSET ql:config heartbeat 30");
    assert_eq!(scene.script.json("pop 1 q w 1")[0]["expires"], 31);
    let _: i64 = scene.script.raw("HSET ql:config q-heartbeat -10");
    assert_eq!(scene.script.json("pop 1 q w 1")[0]["expires"], -9);
}

#[test]
fn expired_lease_is_published_and_the_job_is_reassigned_after_its_grace() {
    let mut scene = Scene::new();
    scene.put("j", "q", &[]);
    scene.pop("0", "q", "w", 1);
    let _: i64 = scene.script.raw("ZADD ql:tracked 0 j");
    assert_eq!(scene.pop("60", "q", "x", 1), Vec::<String>::new());
    assert_eq!(
        scene.ears.heard(),
        [
            "ql:stalled j",
            r#"ql:w:w {"jid":"j","event":"lock_lost","worker":"w"}"#,
            r#"ql:log {"jid":"j","event":"lock_lost","worker":"w"}"#,
        ]
    );
    let kept = scene.script.everything();
    assert_eq!(kept["ql:q:q-locks"], r#"["j", "70"]"#);
    assert_eq!(kept["ql:s:stats:0:q"], r#"{"retries": "1"}"#);
    assert!(!kept.contains_key("ql:w:w:jobs"));
    assert_eq!(scene.pop("69", "q", "x", 1), Vec::<String>::new());
    assert_eq!(scene.pop("70", "q", "x", 1), ["j"]);
    let job = scene.script.json("get 70 j");
    assert_eq!((&job["remaining"], &job["worker"], &job["expires"]), (&json!(4), &json!("x"), &json!(130)));
    assert_eq!(job["history"][2], json!({"when": 60, "what": "timed-out"}));
    assert_eq!(scene.script.field("j", "grace"), None);
    assert_eq!(scene.script.field("j", "hold").as_deref(), Some("2"));
    assert_eq!(scene.ears.heard(), ["ql:popped j"]);
}

#[test]
fn a_job_without_tries_left_fails_when_its_lease_ends() {
    let mut scene = Scene::new();
    scene.put("j", "q", &["retries", "0"]);
    let _: i64 = scene.script.raw("HSET ql:config grace-period 0");
    scene.pop("0", "q", "w", 1);
    let _: i64 = scene.script.raw("ZADD ql:tracked 0 j");
    assert_eq!(scene.pop("60.5", "q", "x", 1), Vec::<String>::new());
    assert_eq!(
        scene.ears.heard(),
        [
            "ql:stalled j",
            r#"ql:w:w {"jid":"j","event":"lock_lost","worker":"w"}"#,
            r#"ql:log {"jid":"j","event":"lock_lost","worker":"w"}"#,
            "ql:failed j",
            r#"ql:log {"message":"Job exhausted retries in queue \"q\"","jid":"j","group":"failed-retries-q","event":"failed","worker":"w"}"#,
        ]
    );
    let job = scene.script.json("get 61 j");
    let message = "Job exhausted retries in queue \"q\"";
    let failure = json!({"group": "failed-retries-q", "message": message, "when": 60.5, "worker": ""});
    assert_eq!((&job["failure"], &job["state"], &job["remaining"]), (&failure, &json!("failed"), &json!(-1)));
    assert_eq!(job["history"][3], json!({"when": 60, "what": "failed", "group": "failed-retries-q"}));
    let kept = scene.script.everything();
    assert_eq!(kept["ql:f:failed-retries-q"], r#"["j"]"#);
    assert_eq!(kept["ql:failures"], r#"["failed-retries-q"]"#);
    assert_eq!(kept["ql:s:stats:0:q"], r#"{"failed": "1", "failures": "1", "retries": "1"}"#);
    assert!(!kept.contains_key("ql:q:q-locks"));
}

#[test]
fn lock_without_a_job_stops_no_queue() {
    let mut scene = Scene::new();
    scene.put("j", "q", &[]);
    for key in ["ql:q:q-locks", "ql:q:q-work", "ql:q:q-scheduled", "ql:q:q-recur"] {
        let _: i64 = scene.script.raw(&format!("ZADD {key} 1 gone 1 lost"));
    }
    assert_eq!(scene.script.json("peek 5 q 10")[0]["jid"], "j");
    assert_eq!(scene.pop("5", "q", "w", 10), ["j"]);
    let kept = scene.script.everything();
    let of_ghosts = |text: &str| text.contains("gone") || text.contains("lost");
    let left: Vec<&String> = kept.iter().filter(|(_, text)| of_ghosts(text)).map(|(key, _)| key).collect();
    assert_eq!(left, Vec::<&String>::new());
}

#[test]
fn delayed_job_is_waiting_once_its_time_has_come() {
    let mut scene = Scene::new();
    let _: String = scene.script.line("put 0 me q j klass {} 10");
    assert_eq!(scene.pop("9", "q", "w", 1), Vec::<String>::new());
    assert_eq!(scene.script.json("peek 10 q 1")[0]["state"], "waiting");
    assert_eq!(scene.pop("10", "q", "w", 1), ["j"]);
    assert!(!scene.script.everything().contains_key("ql:q:q-scheduled"));
}

/// Makes a recurring job as `recur` does.
fn recurring(scene: &mut Scene, jid: &str, due: &str, interval: &str, backlog: &str) {
    let fields = format!(
        "HSET ql:r:{jid} jid {jid} klass klass data {{}} priority 2 tags [\"t\"] state recur queue q type interval \
         interval {interval} retries 3 backlog {backlog} count 0"
    );
    let _: i64 = scene.script.raw(&fields);
    let _: i64 = scene.script.raw(&format!("ZADD ql:q:q-recur {due} {jid}"));
}

#[test]
fn recurring_job_is_put_at_each_occurrence() {
    let mut scene = Scene::new();
    recurring(&mut scene, "r", "10.5", "10", "0");
    assert_eq!(scene.pop("9", "q", "w", 9), Vec::<String>::new());
    assert_eq!(scene.pop("35", "q", "w", 9), ["r-1", "r-2", "r-3"]);
    let job = scene.script.json("get 35 r-2");
    assert_eq!(
        job,
        json!({
            "jid": "r-2", "klass": "klass", "state": "running", "queue": "q", "worker": "w", "tracked": false,
            "priority": 2, "expires": 95, "retries": 3, "remaining": 3, "data": "{}", "tags": ["t"],
            "history": [{"when": 20, "what": "put", "q": "q"}, {"when": 35, "what": "popped", "worker": "w"}],
            "failure": {}, "spawned_from_jid": "r", "dependents": {}, "dependencies": {},
        })
    );
    let kept = scene.script.everything();
    assert_eq!(kept["ql:q:q-recur"], r#"["r", "40"]"#);
    // Their waits count from their due times: 25, 15 and 5 seconds.
    assert_eq!(
        kept["ql:s:wait:0:q"],
        r#"{"mean": "15", "s15": "1", "s25": "1", "s5": "1", "total": "3", "vk": "200"}"#
    );
    assert_eq!(scene.ears.heard(), Vec::<String>::new());
}

#[test]
fn overdue_recurring_job_puts_no_more_than_its_backlog() {
    let mut scene = Scene::new();
    recurring(&mut scene, "r", "0", "10", "2");
    assert_eq!(scene.pop("990", "q", "w", 99), ["r-1", "r-2", "r-3"]);
    assert_eq!(scene.script.everything()["ql:q:q-recur"], r#"["r", "1000"]"#);
}

#[test]
fn restarted_recurring_job_skips_ids_in_use() {
    let mut scene = Scene::new();
    recurring(&mut scene, "r", "0", "10", "0");
    assert_eq!(scene.pop("0", "q", "w", 9), ["r-1"]);
    let _: String = scene.script.line("complete 1 r-1 w q {}");
    let _: i64 = scene.script.raw("DEL ql:r:r");
    recurring(&mut scene, "r", "2", "10", "0");
    assert_eq!(scene.pop("2", "q", "w", 9), ["r-2"]);
    assert_eq!(scene.script.json("get 2 r-1")["state"], "complete");
}

#[test]
fn peek_shows_what_pop_would_return_and_changes_nothing() {
    let mut scene = Scene::new();
    scene.put("lost", "q", &[]);
    scene.pop("0", "q", "w", 1);
    scene.put("waits", "q", &["priority", "-9"]);
    recurring(&mut scene, "r", "50", "100", "0");
    let jobs = scene.script.json("peek 60 q 10");
    let jids: Vec<&str> = jobs.as_array().unwrap().iter().map(|job| job["jid"].as_str().unwrap()).collect();
    assert_eq!(jids, ["lost", "r-1", "waits"]);
    assert_eq!((&jobs[0]["state"], &jobs[0]["worker"]), (&json!("running"), &json!("w")));
    assert_eq!(scene.ears.heard(), Vec::<String>::new());
}

#[test]
fn a_history_keeps_its_first_entry_and_the_newest() {
    let mut scene = Scene::new();
    let _: i64 = scene.script.raw("HSET ql:config max-job-history 5");
    for now in 0..100 {
        let _: String = scene.script.line(&format!("put {now} me q j klass {{}} 0"));
    }
    let whens: Vec<i64> = scene.script.json("get 100 j")["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["when"].as_i64().unwrap())
        .collect();
    assert_eq!(whens, [0, 96, 97, 98, 99]);
}

#[test]
fn job_with_missing_or_malformed_fields_is_handed_out() {
    let mut scene = Scene::new();
    let _: i64 =
        scene.script.raw("HSET ql:j:j state waiting tags nonsense failure [ priority nan remaining ?");
    let _: i64 = scene
        .script
        .raw("RPUSH ql:j:j-history nonsense [1,\"put\",{\"q\":\"q\"},7] [2,\"mine\",{\"when\":9}]");
    let _: i64 = scene.script.raw("ZADD ql:q:q-work 0 j");
    let jobs = scene.script.json("pop 5 q w 1");
    assert_eq!(
        (&jobs[0]["tags"], &jobs[0]["failure"], &jobs[0]["klass"]),
        (&json!({}), &json!({}), &json!(""))
    );
    assert_eq!(jobs[0]["history"][2], json!({"when": 2, "what": "mine"}));
    assert_eq!(scene.script.line::<String>("complete 6 j w q {}"), "complete");
}
