//! Failed jobs are listed, retried and removed by the verbs.

use crate::sandbox::{Sandbox, Setting};
use model::*;

#[test]
fn failed_jobs_are_listed_retried_and_removed_by_the_verbs() {
    let sandbox = Sandbox::new(Setting::Plain);
    for code in [3, 3, 4] {
        sandbox.put(&["sh", "-c", &format!("echo 'no {code}' >&2; [ -e right ] || exit {code}")]);
    }
    let ids: Vec<String> = sandbox.json(&["job", "list", "--json", "-n", "1"])["id"]
        .as_str()
        .map(Into::into)
        .into_iter()
        .collect();
    sandbox.ok(&["start", "-w", "2", "--burst"]);
    let check = |sandbox: &Sandbox| {
        let groups = sandbox.ok(&["failed"]);
        let rows: Vec<Vec<&str>> = groups.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0][..4], ["GROUP", "FAILED", "HELD", "NEWEST"]);
        assert_eq!((rows[1][..4].join(" ").as_str(), rows.len()), ("exit 3 2 0", 3), "{groups}");
        assert!(groups.contains("no 4"), "{groups}");
        let one = sandbox.json(&["failed", "exit 4", "--json"]);
        assert_eq!((one["id"].as_str(), one["state"].as_str()), (Some(ids[0].as_str()), Some("failed")));
        let (code, why) = sandbox.refused(&["failed", "exit 9"]);
        assert!(code == 7 && why.contains("'exit 9'"), "{why}");
        let dry =
            sandbox.ok(&["job", "retry", "--failed", "--since", "1h", "--group", "exit 4", "--dry-run"]);
        let line = format!("1 job would be retried\n  {}  failed in default, ", ids[0]);
        assert!(dry.starts_with(&line) && dry.ends_with(": no 4\n"), "{dry}");
        assert_eq!(sandbox.ok(&["job", "retry", "--held"]), "0 jobs retried\n");
        assert_eq!(sandbox.refused(&["job", "discard", "--failed", "--class", "none"]).0, 7);
        let swept = sandbox.json(&["job", "discard", "--canceled", "--class", "exec", "--json"]);
        assert_eq!(
            swept.to_string(),
            r#"{"count":0,"dry_run":false,"from":[],"jobs":[],"needed":0,"unread":0}"#
        );
        for (args, why) in [
            (&["job", "retry"][..], "required"),
            (&["job", "discard"], "required"),
            (&["job", "retry", "--group", "x"], "required"),
            (&["job", "retry", "j", "--failed"], "cannot be used with"),
            (&["job", "discard", "--failed", "--since", "soon"], "give a duration like 2h"),
            (&["queue", "stats", "default", "--day", "2026-02-31"], "is no day"),
            (&["queue", "pause", "default", "--reason", &"x".repeat(1001)], "1000 are the most"),
        ] {
            let (code, said) = sandbox.refused(args);
            assert!(code == 2 && said.contains(why), "{args:?}: {said}");
        }
        let (code, why) = sandbox.refused(&["queue", "forget", "default"]);
        assert!(
            code == 1 && why.contains("queue 'default' cannot be forgotten: it has jobs (3 failed)"),
            "{why}"
        );
        assert_eq!(sandbox.refused(&["queue", "forget", "none"]).0, 7);
        assert_eq!(sandbox.refused(&["queue", "stats", "none"]).0, 7);
        let before = sandbox.json(&["queue", "stats", "default", "--day", "2026-01-31", "--json"]);
        assert_eq!((before["day"].as_str(), &before["failures"]), (Some("2026-01-31"), &0.into()));
        let older = sandbox.ok(&["failed", "exit 3", "--after", &ids[0], "-n", "1"]);
        assert_eq!(older.lines().count(), 2, "{older}");
        let stats = sandbox.json(&["queue", "stats", "default", "--json"]);
        assert_eq!(
            (&stats["failures"], &stats["failed"], &stats["wait"]["count"]),
            (&3.into(), &3.into(), &3.into())
        );
    };
    check(&sandbox);
    let mut running = sandbox.start(&["-w", "2"]);
    check(&sandbox);
    std::fs::write(sandbox.work("right"), "").unwrap();
    assert_eq!(sandbox.ok(&["job", "retry", "--failed", "--group", "exit 3"]), "2 jobs retried\n");
    crate::sandbox::wait_until("they are complete", || {
        sandbox.ok(&["job", "list", "--state", "complete"]).lines().count() == 3
    });
    let page = sandbox.ok(&["queue", "stats", "default"]);
    assert!(page.contains("2 complete, 3 failed, 1 of them still, 0 attempts tried again"), "{page}");
    assert_eq!(sandbox.ok(&["job", "discard", "--failed"]), "1 job discarded\n");
    assert_eq!(sandbox.refused(&["job", "show", &ids[0]]).0, 7);
    let removed = sandbox.json(&["queue", "forget", "default", "--discard", "--json"]);
    assert_eq!(removed["removed"], true);
    assert_eq!(sandbox.ok(&["queue", "list"]), "");
    sandbox.ok(&["stop"]);
    running.wait();
}

#[test]
fn supervisor_removes_expired_jobs() {
    let sandbox = Sandbox::new(Setting::Plain);
    sandbox.ok(&["option", "set", "keep_complete_count", "2"]);
    sandbox.ok(&["option", "set", "keep_failed", "1ms"]);
    let mut running = sandbox.start(&["-w", "2"]);
    let ids: Vec<String> = (0..5).map(|_| sandbox.put(&["true"])).collect();
    sandbox.put(&["false"]);
    let runs = sandbox.put(&["sleep", "1000"]);
    let list = || -> Vec<String> {
        let list = sandbox.ok(&["job", "list", "--json"]);
        list.lines().map(|line| serde_json::from_str::<JobRecord>(line).unwrap().id.to_string()).collect()
    };
    crate::sandbox::wait_until("two complete jobs and the one that runs are left", || list().len() == 3);
    assert_eq!(list(), [runs.as_str(), &ids[4], &ids[3]]);
    sandbox.ok(&["stop", "--now"]);
    running.wait();
    assert!(sandbox.ok(&["job", "list"]).contains(&runs));
}

#[test]
fn refused_forget_of_a_queue_loses_no_job() {
    let sandbox = Sandbox::new(Setting::Plain);
    sandbox.ok(&["put", "--jid", "over", "--", "true"]);
    sandbox.ok(&["job", "cancel", "over"]);
    sandbox.ok(&["put", "--jid", "waits", "--", "true"]);
    let refused = sandbox.run(&["queue", "forget", "default", "--discard"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert_eq!(sandbox.job("over")["state"], "canceled");
    sandbox.ok(&["job", "cancel", "waits"]);
    sandbox.ok(&["queue", "forget", "default", "--discard"]);
    assert_eq!(sandbox.ok(&["queue", "list", "--json"]).trim(), "{}");
}
