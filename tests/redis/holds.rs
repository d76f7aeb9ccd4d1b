//! Commands for the holder of a job only: fail, retry, heartbeat; and timeout, which takes the job away.

use serde_json::json;

use crate::Scene;

/// Worker `w` has held `j` since 0; `idle` waits.
fn held() -> Scene {
    let mut scene = Scene::new();
    scene.put("j", "q", &["retries", "1"]);
    assert_eq!(scene.pop("0", "q", "w", 1), ["j"]);
    scene.put("idle", "q", &[]);
    let _: i64 = scene.script.raw("ZADD ql:tracked 0 j");
    scene.ears.heard();
    scene
}

#[test]
fn verdict_without_the_lease_is_refused_with_the_errors_of_qless() {
    held().refused(&[
        ("fail 1", "Fail(): Arg \"jid\" missing"),
        ("fail 1 j", "Fail(): Arg \"worker\" missing"),
        ("fail 1 j w", "Fail(): Arg \"group\" missing"),
        ("fail 1 j w group", "Fail(): Arg \"message\" missing"),
        ("fail 1 j w group message {", "Fail(): Arg \"data\" not JSON: {"),
        ("fail 1 none w group message", "Fail(): Job nonedoes not exist"),
        ("fail 1 idle w group message", "Fail(): Job idlenot currently running: waiting"),
        ("fail 1 j x group message", "Fail(): Job j running with another worker: w"),
        ("fail 1 j w group message hold 2", "Fail(): Job j running with another worker: w"),
        ("fail 1 j w group message {} hold 2", "Fail(): Job j running with another worker: w"),
        ("retry 1 j", "Retry(): Arg \"queue\" missing"),
        ("retry 1 j q", "Retry(): Arg \"worker\" missing"),
        ("retry 1 j q w soon", "Retry(): Arg \"delay\" not a number: soon"),
        ("retry 1 none q w", "Retry(): Job none does not exist"),
        ("retry 1 idle q w", "Retry(): Job idle is not currently running: waiting"),
        ("retry 1 j q x", "Retry(): Job j has been given to another worker: w"),
        ("retry 1 j q w hold 0", "Retry(): Job j has been given to another worker: w"),
        ("retry 1 j q w 0 group message hold 0", "Retry(): Job j has been given to another worker: w"),
        ("heartbeat 1", "Heartbeat(): Arg \"jid\" missing"),
        ("heartbeat 1 j", "Heartbeat(): Arg \"worker\" missing"),
        ("heartbeat 1 j w {", "Heartbeat(): Arg \"data\" not JSON: {"),
        ("heartbeat 1 none w", "Heartbeat(): Job none does not exist"),
        ("heartbeat 1 idle w", "Heartbeat(): Job idle not currently running: waiting"),
        ("heartbeat 1 j x", "Heartbeat(): Job j given out to another worker: w"),
        ("heartbeat 1 j w hold 7", "Heartbeat(): Job j given out to another worker: w"),
        ("heartbeat 1 j w {} hold 7", "Heartbeat(): Job j given out to another worker: w"),
        ("timeout 1 none", "Timeout(): Job none does not exist"),
        ("timeout 1 j idle", "Timeout(): Job idle not running"),
    ]);
}

#[test]
fn failed_job_is_published_counted_and_listed() {
    let mut scene = held();
    assert_eq!(
        scene.script.line::<String>("fail 5.5 j w group why {\"id\":12345678901234567890,\"l\":[]}"),
        "j"
    );
    assert_eq!(
        scene.ears.heard(),
        [
            r#"ql:log {"message":"why","jid":"j","group":"group","event":"failed","worker":"w"}"#,
            "ql:failed j"
        ]
    );
    let job = scene.script.json("get 6 j");
    assert_eq!(job["failure"], json!({"group": "group", "message": "why", "when": 5, "worker": "w"}));
    assert_eq!((&job["state"], &job["worker"], &job["expires"]), (&json!("failed"), &json!(""), &json!(0)));
    assert_eq!(job["history"][2], json!({"when": 5, "what": "failed", "worker": "w", "group": "group"}));
    // Numbers keep all digits, and an empty list stays a list.
    assert_eq!(job["data"], r#"{"id":12345678901234567890,"l":[]}"#);
    assert_eq!((&job["remaining"], scene.script.field("j", "expires").as_deref()), (&json!(1), Some("")));
    let kept = scene.script.everything();
    assert_eq!((&*kept["ql:f:group"], &*kept["ql:failures"]), (r#"["j"]"#, r#"["group"]"#));
    assert_eq!(kept["ql:s:stats:0:q"], r#"{"failed": "1", "failures": "1"}"#);
    assert!(!kept.contains_key("ql:q:q-locks") && !kept.contains_key("ql:w:w:jobs"));
}

#[test]
fn retried_job_waits_for_any_worker() {
    let mut scene = held();
    assert_eq!(scene.script.line::<i64>("retry 5 j q w 0 group why"), 0);
    assert_eq!(scene.ears.heard(), [r#"ql:log {"jid":"j","event":"put","queue":"q"}"#]);
    let job = scene.script.json("get 6 j");
    assert_eq!(job["failure"], json!({"group": "group", "message": "why", "when": 5, "worker": "w"}));
    // A job that waits has no worker and no lease.
    assert_eq!((&job["state"], &job["worker"], &job["expires"]), (&json!("waiting"), &json!(""), &json!(0)));
    assert_eq!(job["history"][2], json!({"when": 5, "what": "retried", "q": "q"}));
    let kept = scene.script.everything();
    assert!(!kept.contains_key("ql:q:q-locks") && !kept.contains_key("ql:w:w:jobs"));
    assert_eq!(scene.pop("7", "q", "x", 1), ["idle"]);
    assert_eq!(scene.pop("7", "q", "x", 1), ["j"]);
}

#[test]
fn a_retry_in_another_queue_moves_the_job_there() {
    let mut scene = held();
    assert_eq!(scene.script.line::<i64>("retry 5 j r w 10"), 0);
    let job = scene.script.json("get 6 j");
    assert_eq!((&job["state"], &job["queue"]), (&json!("scheduled"), &json!("r")));
    assert_eq!(scene.script.everything()["ql:q:r-scheduled"], r#"["j", "15"]"#);
    let _: Vec<String> = scene.script.line("cancel 7 j");
    let jobs: String = scene.script.line("pop 20 r x 5");
    assert_eq!(jobs, "{}");
}

#[test]
fn the_last_retry_fails_the_job() {
    for (more, failure) in [
        (
            "",
            json!({"group": "failed-retries-q", "message": "Job exhausted retries in queue \"q\"", "when": 5.5, "worker": ""}),
        ),
        (" 0 group why", json!({"group": "group", "message": "why", "when": 5, "worker": "w"})),
    ] {
        let mut scene = held();
        let _: i64 = scene.script.raw("HSET ql:j:j remaining 0");
        assert_eq!(scene.script.line::<i64>(&format!("retry 5.5 j q w{more}")), -1);
        let job = scene.script.json("get 6 j");
        assert_eq!(
            (&job["failure"], &job["state"], &job["remaining"]),
            (&failure, &json!("failed"), &json!(-1))
        );
        assert_eq!(job["history"][2], json!({"when": 5, "what": "failed", "group": failure["group"]}));
        // As in qless, this end is not published to all.
        assert_eq!(scene.ears.heard(), ["ql:failed j"]);
        let kept = scene.script.everything();
        assert_eq!(kept["ql:s:stats:0:q"], r#"{"failed": "1", "failures": "1"}"#);
        assert_eq!(kept[&format!("ql:f:{}", failure["group"].as_str().unwrap())], r#"["j"]"#);
    }
}

#[test]
fn renewed_lease_lasts_longer_and_its_end_is_published_again() {
    let mut scene = held();
    assert_eq!(scene.script.line::<i64>("heartbeat 1.5 j w {\"l\":[]} hold 1"), 61);
    let kept = scene.script.everything();
    assert_eq!((&*kept["ql:q:q-locks"], &*kept["ql:w:w:jobs"]), (r#"["j", "61.5"]"#, r#"["j", "61.5"]"#));
    assert_eq!(kept["ql:workers"], r#"["w", "1.5"]"#);
    assert_eq!(scene.script.field("j", "expires").as_deref(), Some("61.5"));
    assert_eq!(scene.script.field("j", "data").as_deref(), Some("{\"l\":[]}"));
    assert_eq!(scene.ears.heard(), Vec::<String>::new());
    // During the grace the worker keeps the job; the next end of the lease starts a new grace.
    let _: Vec<String> = scene.script.line("cancel 61 idle");
    scene.ears.heard();
    for end in ["62", "130"] {
        assert_eq!(scene.pop(end, "q", "x", 1), Vec::<String>::new());
        assert_eq!(scene.ears.heard().len(), 3, "at {end}");
        let _: i64 = scene.script.line(&format!("heartbeat {end} j w"));
        assert_eq!(scene.script.field("j", "grace"), None);
    }
}

#[test]
fn every_end_of_a_lease_ends_its_grace() {
    for end in [
        "complete 61 j w q {}",
        "fail 61 j w group why",
        "retry 61 j q w",
        "put 61 me q j klass {} 0",
        "timeout 61 j",
    ] {
        let mut scene = held();
        scene.pop("60", "q", "x", 1);
        assert_eq!(scene.script.field("j", "grace").as_deref(), Some("1"), "{end}");
        scene.script.try_line(end).unwrap();
        assert_eq!(scene.script.field("j", "grace"), None, "{end}");
    }
}

#[test]
fn timed_out_job_is_the_next_for_any_worker() {
    let mut scene = held();
    assert_eq!(scene.script.line::<Option<String>>("timeout 5 j"), None);
    assert_eq!(
        scene.ears.heard(),
        [
            r#"ql:w:w {"jid":"j","event":"lock_lost","worker":"w"}"#,
            r#"ql:log {"jid":"j","event":"lock_lost","worker":"w"}"#
        ]
    );
    let job = scene.script.json("get 5 j");
    assert_eq!(
        (&job["state"], &job["expires"], &job["remaining"]),
        (&json!("stalled"), &json!(0), &json!(1))
    );
    assert_eq!(job["history"][2], json!({"when": 5, "what": "timed-out"}));
    assert_eq!(scene.script.everything()["ql:q:q-work"], r#"["idle", "0", "j", "inf"]"#);
    assert_eq!(scene.pop("6", "q", "x", 1), ["j"]);
    // The job is in the list of one worker only.
    assert!(!scene.script.everything().contains_key("ql:w:w:jobs"));
}

#[test]
fn verdict_for_an_earlier_lease_is_refused() {
    let mut scene = held();
    let _: i64 = scene.script.line("retry 1 j q w hold 1");
    let _: Vec<String> = scene.script.line("cancel 1 idle");
    assert_eq!(scene.pop("2", "q", "w", 1), ["j"]);
    scene.ears.heard();
    scene.refused(&[
        ("complete 3 j w q {} hold 1", "Complete(): Job j has been handed out to another worker: w"),
        ("retry 3 j q w 0 group message hold 1", "Retry(): Job j has been given to another worker: w"),
    ]);
    assert_eq!(scene.script.line::<String>("complete 3 j w q {} hold 2"), "complete");
}

#[test]
fn failure_group_may_be_named_hold() {
    let mut scene = held();
    assert_eq!(scene.script.line::<i64>("retry 1 j q w 0 hold on"), 0);
    assert_eq!(scene.script.json("get 1 j")["failure"]["group"], "hold");
}
