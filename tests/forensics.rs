//! Why did this job die? The real binary, asked afterwards.

#[path = "support/sandbox.rs"]
mod sandbox;

use sandbox::{Sandbox, Setting, in_all_settings, is_root, wait_until};
use serde_json::Value;

fn a_sandbox() -> Sandbox {
    Sandbox::new(if is_root() { Setting::RootCgroup } else { Setting::Plain })
}

fn names(snapshot: &Value) -> Vec<&str> {
    let processes = snapshot["processes"].as_array().map(Vec::as_slice).unwrap_or_default();
    processes.iter().filter_map(|process| process["name"].as_str()).collect()
}

#[test]
fn what_runs_too_long_leaves_a_picture_of_its_processes_without_secrets() {
    in_all_settings(|sandbox| {
        let _running = sandbox.start(&["-w", "1", "--grace", "100ms"]);
        let file = sandbox.work("held-open");
        let script = "trap '' TERM; exec 7>held-open; SECRET=swordfish sleep 1000 & sleep 2000";
        let limit = ["put", "--time-limit", "300ms", "--", "sh", "-c", script, "pass=swordfish"];
        let jid = sandbox.ok(&limit).trim().to_owned();
        sandbox.run(&["job", "wait", &jid]);
        let job = sandbox.job(&jid);
        let snapshot = &job["forensics"]["snapshot"];
        assert_eq!(names(snapshot), ["sh", "sleep", "sleep"], "{job}");
        let leader = &snapshot["processes"][0];
        let open = leader["open"].as_array().expect("names");
        assert!(open.iter().any(|name| name.as_str() == file.to_str()), "{leader}");
        assert!(leader["rss"].as_u64() > Some(0) && leader["state"] == "S", "{leader}");
        assert!(!snapshot.to_string().contains("swordfish"), "{snapshot}");
        let signals = job["forensics"]["signals"].as_array().expect("signals");
        let sent: Vec<_> = signals.iter().map(|one| (one["signal"].as_str(), one["why"].as_str())).collect();
        let why = Some("time limit");
        assert_eq!(sent, [(Some("TERM"), why), (Some("KILL"), why)], "{job}");
        let page = sandbox.ok(&["job", "show", &jid]);
        for words in ["TERM sent: time limit", "its processes before they were ended", "held-open", "sh("] {
            assert!(page.contains(words), "{words}: {page}");
        }
    });
}

#[test]
fn a_job_that_is_ended_for_no_limit_is_not_looked_at() {
    let sandbox = a_sandbox();
    let _running = sandbox.start(&["-w", "1", "--grace", "100ms"]);
    let jid = sandbox.put(&["sleep", "1000"]);
    wait_until("it runs", || sandbox.state(&jid) == "running");
    sandbox.ok(&["job", "cancel", "--wait", &jid]);
    let job = sandbox.job(&jid);
    assert_eq!((&job["forensics"]["snapshot"], &job["state"]), (&Value::Null, &"canceled".into()), "{job}");
}

#[test]
fn a_poison_job_is_held_with_each_of_its_deaths_and_what_to_do() {
    let sandbox = a_sandbox();
    let _running = sandbox.start(&["-w", "1"]);
    let dies = ["put", "--retries", "9", "--", "sh", "-c", "echo last words >&2; kill -SEGV $$"];
    let jid = sandbox.ok(&dies).trim().to_owned();
    sandbox.run(&["job", "wait", &jid]);
    let job = sandbox.job(&jid);
    assert_eq!((&job["state"], &job["crashes"]), (&"held".into(), &3.into()), "{job}");
    let history = job["history"].as_array().expect("a history");
    let attempts: Vec<_> = history.iter().map(|entry| &entry["attempt"]).collect();
    let states: Vec<_> = attempts.iter().filter_map(|one| one["state"].as_str()).collect();
    assert_eq!(states, ["delayed", "delayed", "held"], "{job}");
    assert!(attempts.iter().all(|one| one["crashed"] == true), "{job}");
    let page = sandbox.ok(&["job", "show", &jid]);
    let retry = format!("taskvisor job retry {jid}");
    for words in
        ["crashed 3 times", "attempt 1 crashed", "attempt 3 ended; the job is held", "signal 11", &retry]
    {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert_eq!(page.matches("said last: last words").count(), 3, "{page}");
    sandbox.ok(&["job", "retry", &jid]);
    let uid = if is_root() { "0".into() } else { nix::unistd::getuid().to_string() };
    let page = sandbox.ok(&["job", "show", &jid]);
    assert!(page.contains(&format!("put back to waiting by uid {uid}; it was held")), "{page}");
}
