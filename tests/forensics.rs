//! Forensics of the real binary: why a job died, waits or was held.

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
fn time_limit_leaves_a_process_snapshot_without_secrets() {
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
fn picture_of_a_running_job_shows_its_processes_and_what_it_stopped_at() {
    in_all_settings(|sandbox| {
        let _running = sandbox.start(&["-w", "1"]);
        let file = sandbox.work("held-open");
        let jid = sandbox.put(&["sh", "-c", "exec 7>held-open; sleep 1000 & kill -STOP $$; wait"]);
        let picture = || sandbox.ok(&["job", "picture", &jid, "--json"]);
        wait_until("it has stopped itself", || {
            sandbox.state(&jid) == "running" && picture().contains("\"state\":\"T\"")
        });
        let picture: Value = serde_json::from_str(&picture()).unwrap();
        assert_eq!(names(&picture), ["sh", "sleep"], "{picture}");
        let open = picture["processes"][0]["open"].as_array().expect("names");
        assert!(open.iter().any(|name| name.as_str() == file.to_str()), "{picture}");
        assert_eq!((&picture["job"], &picture["others"]), (&jid.as_str().into(), &0.into()));
        let why = sandbox.ok(&["why", "job", &jid]);
        assert!(why.contains("its processes now") && why.contains("held-open"), "{why}");
        let status = sandbox.ok(&["status"]);
        assert!(status.contains("  stopped"), "{status}");
        let sorted = sandbox.ok(&["job", "list", "--state", "running", "--sort", "memory", "--json"]);
        assert!(sorted.contains(&jid), "{sorted}");
        let table = sandbox.ok(&["job", "list", "--state", "running", "--sort", "memory"]);
        let row = table.lines().find(|line| line.contains(&jid)).expect("its line");
        assert!(row.contains('K') || row.contains('M'), "memory of now: {table}");
        sandbox.ok(&["job", "cancel", "--wait", &jid]);
        let refused = sandbox.run(&["job", "picture", &jid]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains("only what runs here has a picture"), "{said}");
    });
}

#[test]
fn canceled_job_gets_no_snapshot() {
    let sandbox = a_sandbox();
    let _running = sandbox.start(&["-w", "1", "--grace", "100ms"]);
    let jid = sandbox.put(&["sleep", "1000"]);
    wait_until("it runs", || sandbox.state(&jid) == "running");
    sandbox.ok(&["job", "cancel", "--wait", &jid]);
    let job = sandbox.job(&jid);
    assert_eq!((&job["forensics"]["snapshot"], &job["state"]), (&Value::Null, &"canceled".into()), "{job}");
}

#[test]
fn poison_job_is_held_and_its_page_shows_each_crash_and_how_to_retry() {
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

/// The output of `why`.
fn why(sandbox: &Sandbox, kind: &str, name: &str) -> String {
    sandbox.ok(&["why", kind, name])
}

fn assert_says(text: &str, words: &[&str]) {
    for words in words {
        assert!(text.contains(words), "'{words}' is not in: {text}");
    }
}

#[test]
fn why_of_a_waiting_job_gives_each_reason() {
    let sandbox = a_sandbox();
    let config = sandbox.work("pools.yaml");
    let text = "pools:\n  - name: main\n    workers: 1\n    queues: [default, slow]\n    except_classes: ['mail.*']\n";
    std::fs::write(&config, text).expect("a file");
    let _running = sandbox.start(&["-c", config.to_str().expect("text")]);
    let first = sandbox.put(&["sleep", "1000"]);
    wait_until("it runs", || sandbox.state(&first) == "running");
    let others: Vec<String> = (0..3).map(|_| sandbox.put(&["true"])).collect();
    assert_says(
        &why(&sandbox, "job", &others[2]),
        &["waits in queue default", "The only slot of pool main is busy", "2 jobs of its queue come before"],
    );
    let nowhere = sandbox.ok(&["put", "-q", "nowhere", "--", "true"]);
    assert_says(&why(&sandbox, "job", nowhere.trim()), &["No pool takes jobs from queue nowhere"]);
    let filtered = sandbox.ok(&["put", "default", "mail.Send"]);
    assert_says(&why(&sandbox, "job", filtered.trim()), &["Pool main does not let class mail.Send through"]);
    sandbox.ok(&["queue", "pause", "slow", "--reason", "database moves"]);
    let paused = sandbox.ok(&["put", "-q", "slow", "--", "true"]);
    assert_says(&why(&sandbox, "job", paused.trim()), &["Queue slow was paused", "by uid", "database moves"]);
    let delayed = sandbox.ok(&["put", "--delay", "1h", "--", "true"]);
    assert_says(&why(&sandbox, "job", delayed.trim()), &["It is delayed for 59m"]);
    let runs = why(&sandbox, "job", &first);
    assert_says(
        &runs,
        &["Attempt 1 has run for", "Its lease ends in", "latest decisions", "assigned to worker main.1#"],
    );
    assert_says(
        &why(&sandbox, "slot", "main.1"),
        &["Slot main.1, generation 1, has been busy", &first, "worker main.1#1 is started"],
    );
    assert_says(&why(&sandbox, "slot", "main.1#1"), &["Slot main.1, generation 1, has been busy"]);
    assert_says(&why(&sandbox, "pool", "main"), &["Pool main has 1 slot, 1 busy", "no slot has room"]);
    sandbox.ok(&["pause", "main"]);
    assert_says(&why(&sandbox, "job", &others[0]), &["Pool main is paused"]);
    assert_says(
        &why(&sandbox, "pool", "main"),
        &["It is paused", "paused: pool main will take no more jobs until resumed (uid "],
    );
    let json = sandbox.json(&["why", "job", &others[1], "--json"]);
    assert_eq!((&json["before"], &json["pools"][0]["fit"]), (&1.into(), &"runs".into()), "{json}");
    for (kind, name, words) in [
        ("job", "none", "no job has the id 'none'"),
        ("slot", "main.9", "there is no worker at 'main.9'"),
        ("slot", "what", "there is no worker at 'what'"),
        ("pool", "mane", "there are: main"),
    ] {
        let output = sandbox.run(&["why", kind, name]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(7) && error.contains(words), "{:?} {error}", output.status);
    }
}

#[test]
fn why_of_an_ended_job_works_with_and_without_a_supervisor() {
    let sandbox = a_sandbox();
    let mut running = sandbox.start(&["-w", "1"]);
    let jid = sandbox.put(&["sh", "-c", "exit 3"]);
    sandbox.run(&["job", "wait", &jid]);
    let retry = format!("taskvisor job retry {jid}");
    assert_says(
        &why(&sandbox, "job", &jid),
        &["It failed for good", "exit 3", &retry, "has failed for good: exit 3"],
    );
    sandbox.ok(&["stop"]);
    running.wait();
    let text = why(&sandbox, "job", &jid);
    assert_says(&text, &["It failed for good", "exit 3", &retry]);
    assert!(!text.contains("latest decisions"), "{text}");
    let waits = sandbox.put(&["true"]);
    assert_says(&why(&sandbox, "job", &waits), &["It waits in queue default", "No supervisor runs here"]);
    let output = sandbox.run(&["why", "pool", "default"]);
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn why_of_a_slot_that_is_down_shows_its_last_output() {
    let sandbox = a_sandbox();
    let script = sandbox.script("worker.sh", "#!/bin/sh\necho no database >&2; exit 7\n");
    let config = sandbox.work("pools.yaml");
    let text = format!("pools:\n  - name: app\n    workers: 2\n    mode: prefork\n    command: [{script}]\n");
    std::fs::write(&config, text).expect("a file");
    let _running = sandbox.start_raw(&["-c", config.to_str().expect("text")]);
    wait_until("the pool tries with one slot only", || {
        let output = sandbox.run(&["why", "pool", "app"]);
        String::from_utf8_lossy(&output.stdout).contains("It tries with one slot only: 5 workers died")
    });
    let text = why(&sandbox, "pool", "app");
    assert_says(&text, &["ended: exit 7", "latest decisions"]);
    wait_until("its last words are there", || why(&sandbox, "slot", "app.1").contains("no database"));
    assert_says(&why(&sandbox, "slot", "app.1"), &["lives there ended other than as planned", "exit 7"]);
}

#[test]
fn worker_killed_at_its_boot_timeout_leaves_a_snapshot_at_its_slot() {
    let sandbox = a_sandbox();
    let script = sandbox.script("worker.sh", "#!/bin/sh\nexec sleep 1000\n");
    let config = sandbox.work("pools.yaml");
    let pool = "workers: 1\n    mode: prefork\n    boot_timeout: 300ms";
    let text = format!("pools:\n  - name: app\n    {pool}\n    command: [{script}]\n");
    std::fs::write(&config, text).expect("a file");
    let _running = sandbox.start_raw(&["-c", config.to_str().expect("text")]);
    wait_until("a worker was killed", || {
        let output = sandbox.run(&["why", "slot", "app.1"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.contains("not ready in time") && text.contains("sleep(")
    });
}
