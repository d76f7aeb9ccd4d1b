//! The routes over other brokers: which each supports, and which it refuses.

use super::*;
use crate::redis_server::RedisServer;
use crate::sandbox::is_up;
use crate::sqs::FakeSqs;

const WHOSE: [(&str, &str); 3] = [("t", "/a"), ("t", "/a"), ("u", "/")];

/// A supervisor on a broker, whose pool is paused.
fn start_paused<'a>(sandbox: &'a Sandbox, url: &str) -> Running<'a> {
    let config = configure(sandbox, |settings| format!("broker: {url}\n{settings}"));
    let running = sandbox.start_with(&["-c", &config], |command| {
        command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
    });
    wait_until("all slots are up", || is_up(&sandbox.status()));
    sandbox.ok(&["pause"]);
    running
}

fn fill(sandbox: &Sandbox) {
    for (at, (tenant, path)) in WHOSE.into_iter().enumerate() {
        let headers = [&format!("fiware-service: {tenant}"), &format!("fiware-servicepath: {path}")];
        notify(sandbox, &headers.map(String::as_str), &room(&format!("r{at}")));
    }
}

const OF_T: [&str; 2] = ["fiware-service: t", "fiware-servicepath: /a"];

/// The number of tasks of the first tenant; asserts that list, summary and count agree.
#[track_caller]
fn of_t(sandbox: &Sandbox, status: &str) -> u64 {
    let count = get(sandbox, &format!("{LIST}/count?taskStatus={status}"), &OF_T).as_u64().unwrap();
    for list in [LIST.to_owned(), format!("{LIST}/summary")] {
        let listed = get(sandbox, &format!("{list}?taskStatus={status}"), &OF_T);
        let listed = listed.as_array().unwrap();
        assert_eq!(listed.len() as u64, count, "{list} {status}: {listed:?}");
        for task in listed {
            let runtime = task.get("runtime").unwrap_or(task);
            assert_eq!(runtime["status"], status, "{task}");
            if let Some(input) = task.get("input") {
                assert_eq!(
                    (&input["fiware_service"], &input["fiware_service_path"]),
                    (&json!("t"), &json!("/a"))
                );
                assert_eq!(input["payload"][0]["t"]["value"], json!(1.50), "{task}");
            }
        }
    }
    count
}

/// Checks waiting tasks over a broker that shows them.
fn waiting_tasks(sandbox: &Sandbox) {
    assert_eq!((of_t(sandbox, "pending"), of_t(sandbox, "succeeded")), (2, 0));
    assert_eq!(get(sandbox, "/v1/tasks/count?tenant=u", &[])["count"], 1);
    assert_eq!(get(sandbox, &format!("{LIST}/count"), &[]), json!(3), "of nobody in particular: all");
    assert_eq!(ask(sandbox, &format!("DELETE {LIST}"), &OF_T, "").0, 204);
    assert_eq!((of_t(sandbox, "pending"), of_t(sandbox, "failed")), (0, 0));
    assert_eq!(get(sandbox, "/v1/tasks/count?tenant=u", &[])["count"], 1, "the other tenant's is there");
}

/// Checks tasks that run and end. Of the earlier tasks `left` are still there, `of_t_left` of them of the first tenant.
fn ended_tasks(sandbox: &Sandbox, left: u64, of_t_left: u64) {
    fill(sandbox);
    sandbox.ok(&["resume"]);
    wait_until("all rows are there", || rows(sandbox) == Some(3 + left));
    let count = || get(sandbox, &format!("{LIST}/count?taskStatus=succeeded"), &OF_T);
    wait_until("all have succeeded", || count() == json!(2 + of_t_left));
    assert_eq!(of_t(sandbox, "succeeded"), 2 + of_t_left);
    let removed = ask(sandbox, "POST /v1/tasks/remove", &[], r#"{"tenant": "t", "status": "succeeded"}"#);
    let removed: Value = serde_json::from_str(&removed.1).unwrap();
    assert_eq!(removed, json!({ "count": 2 + of_t_left }));
    assert_eq!((of_t(sandbox, "succeeded"), of_t(sandbox, "pending")), (0, 0));
}

fn stop(sandbox: &Sandbox, mut running: Running<'_>) {
    sandbox.ok(&["stop", "--now"]);
    running.wait();
}

#[test]
fn all_routes_work_over_redis() {
    let (sandbox, server) = (python::new(), RedisServer::start());
    let running = start_paused(&sandbox, &server.url());
    fill(&sandbox);
    waiting_tasks(&sandbox);
    ended_tasks(&sandbox, 1, 0);
    stop(&sandbox, running);
}

#[test]
fn all_routes_see_tasks_over_rq() {
    let (sandbox, server) = (python::new(), RedisServer::start());
    let running = start_paused(&sandbox, &format!("rq+{}", server.url()));
    fill(&sandbox);
    waiting_tasks(&sandbox);
    stop(&sandbox, running);
}

/// Checks a broker that only counts waiting jobs: the ledger shows the tasks taken here.
fn with_a_ledger(sandbox: &Sandbox) {
    fill(sandbox);
    assert_eq!(of_t(sandbox, "pending"), 0, "what waits there is not known by its id");
    wait_until("the broker counts them", || get(sandbox, &format!("{LIST}/count"), &[]) == json!(3));
    assert_eq!(ask(sandbox, &format!("DELETE {LIST}"), &OF_T, "").0, 204);
    ended_tasks(sandbox, 3, 2);
}

#[test]
fn routes_see_tasks_taken_here_over_the_reliable_queue() {
    let (sandbox, server) = (python::new(), RedisServer::start());
    let running = start_paused(&sandbox, &format!("reliable+{}", server.url()));
    with_a_ledger(&sandbox);
    stop(&sandbox, running);
}

#[test]
fn routes_see_tasks_taken_here_over_sqs() {
    let (sandbox, fake) = (python::new(), FakeSqs::start());
    let url = format!("sqs://eu-west-1?endpoint={}&create=yes", fake.endpoint());
    let running = start_paused(&sandbox, &url);
    with_a_ledger(&sandbox);
    stop(&sandbox, running);
}
