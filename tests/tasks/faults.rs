//! Faults of QuantumLeap's work queue that taskvisor does not have.

use super::*;

/// Tenant, path and correlator of tasks that no pool takes.
const WHOSE: [(&str, &str, &str); 6] = [
    ("t", "/ab", ""),
    ("t", "/ab", "c1"),
    ("t", "/abc", "c1"),
    ("t", "/", ""),
    ("tt", "/ab", ""),
    ("", "/", ""),
];

fn idle(settings: String) -> String {
    settings.replace("class: Insert", "class: Insert\n  queue: nobody")
}

fn fill(sandbox: &Sandbox) {
    for (tenant, path, correlator) in WHOSE {
        let of = |name, value: &str| format!("{name}: {value}");
        let headers = [
            of("fiware-service", tenant),
            of("fiware-servicepath", path),
            of("fiware-correlator", correlator),
        ];
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        assert_eq!(ask(sandbox, "POST /v2/notify", &headers, &room("r")).0, 200);
    }
}

#[test]
fn query_matches_whole_path_elements_and_a_count_without_tenant_is_of_all() {
    let sandbox = python::new();
    let mut running = start(&sandbox, idle);
    fill(&sandbox);
    let many = |path: &str, headers: &[&str]| {
        let counted = get(&sandbox, &format!("{LIST}/count{path}"), headers).as_u64().unwrap();
        if !headers.is_empty() {
            for list in [LIST.to_owned(), format!("{LIST}/summary"), "/wq/notifications".into()] {
                let listed = get(&sandbox, &format!("{list}{path}"), headers);
                assert_eq!(listed.as_array().unwrap().len() as u64, counted, "{list}{path} {headers:?}");
            }
        }
        counted
    };
    assert_eq!(many("", &[]), 6, "of nobody in particular: all");
    assert_eq!(many("?taskStatus=pending", &[]), 6, "those in the queue list, too");
    let t = "fiware-service: t";
    assert_eq!(many("", &[t, "fiware-servicepath: /ab"]), 2, "/ab is not /abc");
    assert_eq!(many("?taskStatus=pending", &[t, "fiware-servicepath: /ab"]), 2);
    assert_eq!(many("?taskStatus=failed", &[t, "fiware-servicepath: /ab"]), 0);
    assert_eq!(many("", &[t, "fiware-servicepath: /ab", "fiware-correlator: c1"]), 1);
    assert_eq!(many("", &[t]), 1, "the path is / if none is named");
    assert_eq!(
        many("", &["ngsild-tenant: tt", t, "fiware-servicepath: /ab"]),
        1,
        "ngsild-tenant comes first"
    );
    assert_eq!(many("", &["fiware-servicepath: /"]), 1);
    let own = |query: &str| get(&sandbox, &format!("/v1/tasks/count{query}"), &[])["count"].as_u64().unwrap();
    assert_eq!(own("?tenant=t"), 4, "all paths of the tenant");
    assert_eq!((own(""), own("?tenant="), own("?tenant=t&service_path=/ab&correlator=c1")), (6, 1, 1));
    sandbox.ok(&["stop", "--now"]);
    running.wait();
}

#[test]
fn class_of_the_settings_cannot_be_changed_by_a_client() {
    let sandbox = python::new();
    let mut running = start(&sandbox, idle);
    let (code, answer) = ask(&sandbox, "POST /v2/notify", &["taskvisor-class: Odd"], &room("r"));
    assert!(code == 400 && answer.contains("the settings allow one class"), "{code} {answer}");
    notify(&sandbox, &["taskvisor-class: Insert"], &room("r"));
    assert_eq!(get(&sandbox, &format!("{LIST}/count"), &[]), json!(1));
    sandbox.ok(&["stop", "--now"]);
    running.wait();
}

#[test]
fn invalid_notifications_are_refused_with_400_and_the_reason() {
    let sandbox = python::new();
    let mut running = start(&sandbox, |settings| idle(settings).replace("  class: Insert\n", ""));
    for (what, headers, body, why) in [
        ("POST /v2/notify", vec![], "{}", "has no `data`"),
        ("POST /v2/notify", vec![], "no", "is no notification"),
        ("POST /v2/notify", vec![], "", "is no notification"),
        ("POST /v2/notify", vec![], r#"{"data":[{"id":"r","type":"Room"}]}"#, "which class"),
        (
            "POST /v2/notify",
            vec!["taskvisor-class: a", "taskvisor-class: b"],
            r#"{"data":[{"id":"r","type":"Room"}]}"#,
            "given twice",
        ),
        (
            "GET /management/queue/notifications?taskStatus=running",
            vec![],
            "",
            "expected one of `pending`, `succeeded`, `failed`",
        ),
        ("GET /v1/tasks", vec![], "", "missing field `tenant`"),
        ("GET /v1/tasks?tenant=t&correlator=c", vec![], "", "within a service path"),
        ("GET /v1/tasks/count?tennant=t", vec![], "", "tennant"),
        ("GET /v1/tasks?tenant=t&status=unknown", vec![], "", "unknown variant `unknown`"),
        ("POST /v1/tasks/remove", vec![], "{}", "missing field `tenant`"),
    ] {
        let (code, answer) = ask(&sandbox, what, &headers, body);
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(code, 400, "{what}: {answer}");
        assert!(answer["error"].as_str().unwrap().contains(why), "{what}: {answer}");
        // On QuantumLeap's paths in the words of its framework, too.
        let there = !what.contains("/v1/");
        assert_eq!(answer["title"] == "Bad Request" && answer["status"] == 400, there, "{what}: {answer}");
        assert_eq!(answer["detail"].as_str().is_some_and(|detail| detail.contains(why)), there, "{answer}");
    }
    let long = format!("fiware-service: {}", "t".repeat(141));
    let (code, answer) = ask(&sandbox, "POST /v2/notify", &[&long, "taskvisor-class: a"], &room("r"));
    assert!(code == 400 && answer.contains("too long for an id"), "{code} {answer}");
    assert_eq!(get(&sandbox, &format!("{LIST}/count"), &[]), json!(0));
    sandbox.ok(&["stop", "--now"]);
    running.wait();
}

#[test]
fn deleting_a_running_task_kills_all_its_processes() {
    let sandbox = python::new();
    let mut running = start(&sandbox, |settings| {
        settings.replace("workers: 2", "workers: 1\n    grace: 1s").replace("  class: Insert\n", "")
    });
    notify(&sandbox, &["taskvisor-class: Hang"], &room("r"));
    let pids: Vec<i32> = python::word(&sandbox, "pids").split(' ').map(|pid| pid.parse().unwrap()).collect();
    notify(&sandbox, &["taskvisor-class: Insert"], &room("waits"));
    assert_eq!((count(&sandbox, "pending"), pids.iter().all(|pid| alive(*pid))), (2, true));
    assert_eq!(ask(&sandbox, &format!("DELETE {LIST}"), &[], "").0, 204);
    assert!(!alive(pids[1]), "what it had started is dead when the answer comes");
    assert_eq!(get(&sandbox, &format!("{LIST}/count"), &[]), json!(0));
    notify(&sandbox, &["taskvisor-class: Insert"], &room("next"));
    wait_until("the next task has succeeded", || count(&sandbox, "succeeded") == 1);
    assert_eq!(rows(&sandbox), Some(1), "the one that waited is gone, too");
    sandbox.ok(&["stop", "--now"]);
    running.wait();
}

#[test]
fn notification_routes_are_404_unless_enabled() {
    let sandbox = python::new();
    let mut running = start(&sandbox, |settings| settings.replace("enabled: true", "enabled: false"));
    for what in [
        "POST /v2/notify",
        "GET /management/queue/notifications",
        "GET /v1/tasks/count",
        "DELETE /wq/notifications",
    ] {
        let (code, answer) = ask(&sandbox, what, &[], &room("r"));
        assert!(code == 404 && answer.contains("wq.enabled: true"), "{what}: {code} {answer}");
    }
    sandbox.ok(&["stop", "--now"]);
    running.wait();
}

#[test]
fn a_task_is_durable_when_its_client_is_answered() {
    let sandbox = python::new();
    let mut running = start(&sandbox, idle);
    let task = notify(&sandbox, &[], &room("r"));
    running.signal("KILL");
    running.wait();
    let mut again = start(&sandbox, idle);
    assert_eq!(get(&sandbox, LIST, &[])[0]["runtime"]["task_id"], json!(task));
    sandbox.ok(&["stop", "--now"]);
    again.wait();
}
