//! What a supervisor tells of its jobs and workers to those who listen.

use std::process::Stdio;

use crate::sandbox::{Sandbox, Setting, is_root, kill, wait_until};
use serde_json::Value;

#[test]
fn the_command_tells_of_jobs_and_workers_until_the_supervisor_ends() {
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
        own.map(|news| news["what"].as_str().unwrap().to_owned()).collect()
    };
    wait_until("its end is told", || of_job(&jid).contains(&"canceled".to_owned()));
    assert_eq!(of_job(&jid), ["put", "fetched", "canceling", "canceled"]);
    let told = |what: &str, why: &str| {
        lines().iter().any(|news| news["what"] == what && news["worker"].is_object() && news["why"] == why)
    };
    assert!(told("asked", "canceled") && told("killed", "canceled"), "{:?}", lines());
    wait_until("the worker's end is told", || told("exited", "signal 9"));
    sandbox.ok(&["stop", "--now"]);
    running.wait();
    let ended = listener.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "the supervisor has ended\n");
    assert_eq!(lines().last().unwrap()["what"], "ended");
}

#[test]
fn the_events_go_on_with_the_next_supervisor_when_one_is_lost() {
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
    wait_until("the next one is heard", || {
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
