//! The Rust worker crate behaves as the Python package in each mode, with the application `examples/contract.rs`.

use super::languages::example;
use super::*;

/// Makes a test of each check for each mode.
macro_rules! in_each_mode {
    ($($story:ident: $check:ident),* $(,)?) => {
        mod prefork { $( #[test] fn $story() { super::$check("prefork"); } )* }
        mod fork { $( #[test] fn $story() { super::$check("fork"); } )* }
        mod coroutine { $( #[test] fn $story() { super::$check("coroutine"); } )* }
    };
}

in_each_mode! {
    return_value_of_a_handler_decides_the_outcome: check_outcomes,
    a_canceled_job_is_interrupted: check_cancel,
    a_job_that_kills_its_worker_has_crashed: check_crashes,
    settings_of_a_class_apply: check_class_settings,
    job_advances_to_another_queue: check_stages,
    handler_calls_the_supervisor: check_verbs,
    stop_waits_for_the_job_and_stop_now_releases_it: check_stop,
    killed_supervisor_leaves_no_process_and_the_job_runs_again: check_killed,
    burst_ends_when_all_jobs_are_done: check_burst,
}

fn pool_of(mode: &str) -> Vec<String> {
    let args = ["-m", mode, "-w", "1", "--retries", "0", "--grace", "1s", "--"].map(str::to_owned);
    args.into_iter()
        .chain([example("contract")])
        .chain((mode == "coroutine").then(|| "async".into()))
        .collect()
}

fn start_it<'a>(sandbox: &'a Sandbox, mode: &str) -> sandbox::Running<'a> {
    let args = pool_of(mode);
    sandbox.start(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

fn check_outcomes(mode: &str) {
    let sandbox = python::new();
    let _running = start_it(&sandbox, mode);
    assert_eq!(result(&run(&sandbox, "echo", "{\"a\": [1, \"ä\"]}")), json!({"a": [1, "ä"]}));
    for (data, group, message) in [
        ("\"error\"", "error::Error", "no such value"),
        ("\"panic\"", "panic", "out of luck"),
        ("\"fail\"", "failed", "never"),
    ] {
        let job = run(&sandbox, "raises", data);
        let failure = &job["failure"];
        assert_eq!(job["state"], "failed", "{job}");
        assert!(failure["group"].as_str().unwrap().contains(group), "{failure}");
        assert_eq!(failure["message"], message, "{job}");
        assert_eq!(counts(&job), [1, 0, 0], "{job}");
    }
    let retried = run(&sandbox, "raises", "\"retry\"");
    assert_eq!((result(&retried), counts(&retried)), (json!(2), [2, 0, 0]), "{retried}");
    let snoozed = run(&sandbox, "raises", "\"snooze\"");
    assert_eq!((result(&snoozed), counts(&snoozed)), (json!(1), [1, 0, 0]), "{snoozed}");
    // A retry would not help.
    let jid = sandbox.ok(&["put", "--retries", "5", "default", "nojson"]);
    let job = ended(&sandbox, jid.trim());
    assert_eq!((&job["state"], counts(&job)), (&json!("failed"), [1, 0, 0]), "{job}");
    assert!(job["failure"]["message"].as_str().unwrap().contains("the result is no JSON"), "{job}");
    let looks = [0, 1].map(|_| run(&sandbox, "look", "null"));
    let [one, two] = looks.each_ref().map(result);
    assert_eq!(one["pid"] == two["pid"], mode != "fork", "{one} {two}");
    assert_eq!(one["count"], 1, "what a fork counts is gone with it");
    assert_eq!(two["count"], if mode == "fork" { 1 } else { 2 });
    if mode != "coroutine" {
        assert_eq!(log(&sandbox, &looks[0]).lines().count(), 2);
    }
}

fn check_cancel(mode: &str) {
    let sandbox = python::new();
    let _running = start_it(&sandbox, mode);
    let jid = put(&sandbox, "hold", "\"a\"");
    word(&sandbox, "begun-a");
    sandbox.ok(&["job", "cancel", "--wait", &jid]);
    let job = sandbox.job(&jid);
    assert_eq!((&job["state"], counts(&job)), (&json!("canceled"), [1, 0, 0]), "{job}");
    assert_eq!(run(&sandbox, "look", "null")["state"], "complete");
}

#[test]
fn handler_can_ask_whether_its_job_must_end_and_has_its_grace() {
    for mode in ["prefork", "fork"] {
        let sandbox = python::new();
        let _running = start_it(&sandbox, mode);
        let jid = put(&sandbox, "graceful", "\"a\"");
        word(&sandbox, "begun-a");
        sandbox.ok(&["job", "cancel", "--wait", &jid]);
        assert_eq!(
            (sandbox.state(&jid).as_str(), word(&sandbox, "hit-a").as_str()),
            ("canceled", "told to end")
        );
        assert_eq!(sent(&sandbox.job(&jid)), ["TERM"]);
        assert_eq!(run(&sandbox, "look", "null")["state"], "complete");
    }
}

#[test]
fn handler_that_gives_up_at_a_strangers_term_spends_no_attempt() {
    for mode in ["prefork", "fork"] {
        let sandbox = python::new();
        let _running = start_it(&sandbox, mode);
        let jid = put(&sandbox, "gives_up", "\"a\"");
        let first = word(&sandbox, "begun-a");
        kill(first.parse().unwrap(), "TERM");
        assert_eq!(word(&sandbox, "hit-a"), "told to end");
        wait_until("it runs again", || word(&sandbox, "begun-a") != first);
        touch(&sandbox, "go");
        let job = ended(&sandbox, &jid);
        assert_eq!((&job["state"], counts(&job)), (&json!("complete"), [1, 1, 0]), "{mode}: {job}");
    }
}

fn check_crashes(mode: &str) {
    let sandbox = python::new();
    let _running = start_it(&sandbox, mode);
    for (class, why) in [("leaves", "exit 3"), ("aborts", "signal 6")] {
        let job = run(&sandbox, class, "null");
        assert_eq!((&job["state"], counts(&job)), (&json!("failed"), [1, 1, 0]), "{job}");
        assert!(job["failure"]["message"].as_str().unwrap().contains(why), "{job}");
    }
    assert_eq!(run(&sandbox, "look", "null")["state"], "complete");
}

fn check_class_settings(mode: &str) {
    let sandbox = python::new();
    let _running = start_it(&sandbox, mode);
    let job = run(&sandbox, "limited", "null");
    assert_eq!((&job["state"], &job["failure"]["group"]), (&json!("failed"), &json!("time limit")), "{job}");
    assert_eq!(counts(&job), [2, 0, 0], "{job}");
    assert_eq!(result(&run(&sandbox, "soft", "null")), json!(true));
    let unknown = put(&sandbox, "nobody.Knows", "null");
    wait_until("it is refused", || sandbox.job(&unknown)["state"] == "delayed");
}

fn check_stages(mode: &str) {
    let sandbox = python::new();
    let mut args = pool_of(mode);
    args.splice(0..0, ["-q", "default", "-q", "encode"].map(str::to_owned));
    let _running = sandbox.start(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let job = run(&sandbox, "stages", "null");
    assert_eq!((result(&job), &job["queue"]), (json!("encoded"), &json!("encode")), "{job}");
    assert_eq!(sandbox.state("helper"), "complete");
}

fn check_verbs(mode: &str) {
    let sandbox = python::new();
    let _running = start_it(&sandbox, mode);
    let job = run(&sandbox, "verbs", "null");
    assert_eq!(result(&job), json!([["a"], 5, true, "canceled", true, 7200]), "{job}");
    let log = log(&sandbox, &job);
    assert!(log.contains("all asked") && log.contains("could never begin"), "{log}");
}

fn check_stop(mode: &str) {
    let sandbox = python::new();
    let mut running = start_it(&sandbox, mode);
    let jid = put(&sandbox, "hold", "\"a\"");
    word(&sandbox, "begun-a");
    assert_eq!(sandbox.run(&["stop", "--timeout", "300ms"]).status.code(), Some(124), "it waits for the job");
    touch(&sandbox, "go");
    assert!(running.wait().success());
    assert_eq!(sandbox.state(&jid), "complete");
    fs::remove_file(sandbox.work("go")).unwrap();
    let mut running = start_it(&sandbox, mode);
    let jid = put(&sandbox, "hold", "\"b\"");
    word(&sandbox, "begun-b");
    sandbox.ok(&["stop", "--now"]);
    assert!(running.wait().success());
    let job = sandbox.job(&jid);
    assert_eq!((&job["state"], &job["interruptions"]), (&json!("waiting"), &json!(0)), "{job}");
    sandbox.assert_nothing_left();
}

fn check_killed(mode: &str) {
    let sandbox = python::new();
    let _running = start_it(&sandbox, mode);
    let jid = put(&sandbox, "hold", "\"a\"");
    let old = word(&sandbox, "begun-a").parse::<i32>().unwrap();
    fs::remove_file(sandbox.work("begun-a")).unwrap();
    kill(sandbox.one("tv-supervisor"), "KILL");
    wait_until("the old worker is dead", || !alive(old));
    word(&sandbox, "begun-a");
    touch(&sandbox, "go");
    let job = ended(&sandbox, &jid);
    assert_eq!((&job["state"], counts(&job)), (&json!("complete"), [1, 0, 1]), "{job}");
}

fn check_burst(mode: &str) {
    let sandbox = python::new();
    let jids = put_lines(&sandbox, "default", "look", &[], &vec!["null".into(); 20]);
    let mut args = pool_of(mode);
    args.insert(0, "--burst".into());
    let mut running = sandbox.start_raw(&args.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(running.wait().success(), "{}", sandbox.stderr());
    jids.iter().for_each(|jid| assert_eq!(sandbox.state(jid), "complete"));
    sandbox.assert_nothing_left();
}
