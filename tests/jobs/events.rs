//! The events of jobs and workers that a supervisor publishes.

use std::process::Stdio;

use crate::sandbox::{Sandbox, Setting, is_root, kill, wait_until};
use serde_json::Value;

#[test]
fn events_prints_jobs_and_workers_until_the_supervisor_ends() {
    let sandbox = Sandbox::new(if is_root() { Setting::Root } else { Setting::Plain });
    assert_eq!(sandbox.run(&["events"]).status.code(), Some(3));
    let mut running = sandbox.start(&["-w", "1"]);
    let heard = std::fs::File::create(sandbox.path("heard")).unwrap();
    let mut command = sandbox.command(&["events", "--json"]);
    let listener = command.stdout(heard).stderr(Stdio::piped()).spawn().unwrap();
    let lines = || -> Vec<Value> {
        let text = std::fs::read_to_string(sandbox.path("heard")).unwrap();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    wait_until("somebody listens", || {
        sandbox.put(&["true"]);
        !lines().is_empty()
    });
    let jid = sandbox.put(&["sh", "-c", "trap '' TERM; touch begun; while :; do sleep 1; done"]);
    wait_until("it runs", || sandbox.work("begun").exists());
    sandbox.ok(&["job", "cancel", "--wait", &jid]);
    let of_job = |jid: &str| -> Vec<String> {
        let lines = lines();
        let own = lines.iter().filter(|news| news["job"] == jid);
        own.map(|news| news["kind"].as_str().unwrap().to_owned()).collect()
    };
    wait_until("its end is published", || of_job(&jid).contains(&"canceled".to_owned()));
    assert!(lines().iter().all(|news| news["job"].is_null() || news["class"] == "exec"), "{:?}", lines());
    // The worker's end is published after the put of its job, though the end needs no write to the store first.
    let put = |_| {
        let jid = sandbox.put(&["true"]);
        sandbox.ok(&["job", "wait", &jid]);
        jid
    };
    let short: Vec<String> = (0..20).map(put).collect();
    wait_until("all of it is published", || {
        short.iter().all(|jid| of_job(jid).contains(&"complete".to_owned()))
    });
    let all = lines();
    let place =
        |jid: &str, what: &str| all.iter().position(|news| news["job"] == jid && news["kind"] == what);
    for jid in &short {
        let (put, complete) = (place(jid, "put").unwrap(), place(jid, "complete").unwrap());
        let exits = all[put..complete].iter().filter(|news| news["kind"] == "exited").count();
        assert!(exits > 0, "no worker has ended between {jid} was put and complete");
    }
    sandbox.ok(&["queue", "pause", "mail", "--reason", "full"]);
    sandbox.ok(&["queue", "resume", "mail"]);
    sandbox.ok(&["option", "set", "grace", "9s"]);
    let ordered = |what: &str| lines().into_iter().find(|news| news["kind"] == what);
    wait_until("the orders are published", || ordered("option").is_some());
    let paused = ordered("paused").unwrap();
    assert_eq!((&paused["queue"], &paused["why"]), (&"mail".into(), &"full".into()), "{paused}");
    assert!(paused["by"].as_str().unwrap().starts_with("uid "), "{paused}");
    assert_eq!(of_job(&jid), ["put", "fetched", "canceling", "canceled"]);
    let told = |what: &str, why: &str| {
        lines().iter().any(|news| news["kind"] == what && news["worker"].is_object() && news["why"] == why)
    };
    assert!(told("asked", "canceled") && told("killed", "canceled"), "{:?}", lines());
    wait_until("the worker's end is published", || told("exited", "signal 9"));
    sandbox.ok(&["stop", "--now"]);
    running.wait();
    let ended = listener.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "the supervisor has ended\n");
    assert_eq!(lines().last().unwrap()["kind"], "ended");
}

#[test]
fn orders_reloads_and_verdicts_are_published_with_author_and_reason() {
    let sandbox = Sandbox::new(Setting::Plain);
    let file = sandbox.work("settings.yaml");
    let settings =
        |more: &str| std::fs::write(&file, format!("pools: [{{name: a, workers: 1}}]\n{more}")).unwrap();
    settings("");
    let mut running = sandbox.start_raw(&["-c", file.to_str().unwrap()]);
    sandbox.wait_healthy();
    let heard = std::fs::File::create(sandbox.path("heard")).unwrap();
    let mut command = sandbox.command(&["events"]);
    let listener = command.stdout(heard).stderr(Stdio::null()).spawn().unwrap();
    let told = || std::fs::read_to_string(sandbox.path("heard")).unwrap();
    wait_until("somebody listens", || {
        sandbox.put(&["true"]);
        !told().is_empty()
    });
    let line = |words: &[&str]| {
        let one = |line: &str| words.iter().all(|word| line.contains(word));
        wait_until(&format!("{words:?} is printed"), || told().lines().any(one));
    };
    sandbox.ok(&["drain"]);
    line(&["  paused ", "  by uid "]);
    line(&["  health ", "  healthy -> degraded  pool a is paused by uid "]);
    sandbox.ok(&["resume", "a"]);
    line(&["  resumed ", "  pool a  by uid "]);
    line(&["  health ", "  degraded -> healthy"]);
    sandbox.ok(&["scale", "a", "2"]);
    line(&["  scaled ", "  pool a  by uid ", "  to 2"]);
    running.signal("TTIN");
    line(&["  scaled ", "  by SIGTTIN  by +1"]);
    sandbox.ok(&["recycle", "a"]);
    line(&["  recycled ", "  pool a  by uid "]);
    settings("lease: 1x\n");
    assert!(!sandbox.run(&["reload"]).status.success());
    line(&["  reload_refused ", "  by uid ", "'1x' is no duration"]);
    let held = ["put", "--retries", "9", "--", "sh", "-c", "kill -SEGV $$"];
    sandbox.run(&["job", "wait", sandbox.ok(&held).trim()]);
    assert!(sandbox.reasons().contains("1 held"), "{}", sandbox.reasons());
    settings("held_degrades: false\n");
    sandbox.ok(&["reload"]);
    line(&["  reloaded ", "  by uid ", "  no pool changes"]);
    sandbox.wait_healthy();
    running.signal("TERM");
    line(&["  stopping ", "  by SIGTERM  drain"]);
    running.wait();
    assert!(listener.wait_with_output().unwrap().status.success());
}

#[test]
fn events_continues_with_the_next_supervisor_when_one_dies() {
    let sandbox = Sandbox::new(Setting::Plain);
    let mut running = sandbox.start(&["-w", "1"]);
    let heard = std::fs::File::create(sandbox.path("heard")).unwrap();
    let mut command = sandbox.command(&["events"]);
    let listener = command.stdout(heard).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("somebody listens", || {
        sandbox.put(&["true"]);
        std::fs::metadata(sandbox.path("heard")).unwrap().len() > 0
    });
    kill(sandbox.one("tv-supervisor"), "KILL");
    let heard = |jid: &str| {
        let text = std::fs::read_to_string(sandbox.path("heard")).unwrap();
        text.lines().any(|line| line.contains("complete") && line.contains(jid))
    };
    wait_until("events of the next supervisor arrive", || {
        let jid = sandbox.put(&["true"]);
        sandbox.ok(&["job", "wait", &jid]);
        heard(&jid)
    });
    sandbox.ok(&["stop", "--now"]);
    running.wait();
    let ended = listener.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(
        said,
        "the supervisor went away without a word; waiting for the next one\n\
         the next supervisor is there; what happened meanwhile is not told\n\
         the supervisor has ended\n"
    );
}
