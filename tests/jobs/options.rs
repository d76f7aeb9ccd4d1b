//! The verbs about options, and a queue with a limit.

use crate::sandbox::{Sandbox, Setting, wait_until};
use model::*;

#[test]
fn options_are_set_shown_dumped_and_loaded() {
    let sandbox = Sandbox::new(Setting::Plain);
    let check = || {
        sandbox.ok(&["option", "set", "max_concurrency", "2", "--queue", "mail"]);
        sandbox.ok(&["option", "set", "grace", "3s"]);
        assert_eq!(sandbox.ok(&["option", "get", "grace"]), "3s\n");
        assert_eq!(sandbox.ok(&["option", "get", "grace", "--queue", "mail"]), "3s\n");
        assert_eq!(sandbox.ok(&["option", "get", "max_concurrency", "--queue", "mail"]), "2\n");
        let all = sandbox.ok(&["option", "get"]);
        assert!(all.contains("keep_complete") && all.contains("mail"), "{all}");
        let dump = sandbox.ok(&["option", "dump"]);
        let dumped: Options = serde_json::from_str(&dump).unwrap();
        assert_eq!(dumped.all["grace"], "3s");
        assert_eq!(dumped.queues[&QueueName::from("mail")]["max_concurrency"], "2");
        sandbox.ok(&["option", "unset", "grace"]);
        assert_eq!(sandbox.ok(&["option", "get", "grace"]), "10s\n");
        std::fs::write(sandbox.work("options.json"), &dump).unwrap();
        sandbox.ok(&["option", "load", sandbox.work("options.json").to_str().unwrap(), "--clear"]);
        assert_eq!(sandbox.ok(&["option", "dump"]), dump);
        for (args, why) in [
            (&["option", "set", "grace", "soon"][..], "is no duration"),
            (&["option", "get", "speed"], "no option is called 'speed'"),
            (&["option", "set", "keep_failed", "1d", "--queue", "mail"], "for all queues"),
        ] {
            let output = sandbox.run(args);
            assert_eq!(output.status.code(), Some(2), "{args:?}");
            assert!(String::from_utf8_lossy(&output.stderr).contains(why), "{output:?}");
        }
        let device = sandbox.run(&["option", "load", "--clear", "/dev/null"]);
        assert_eq!(device.status.code(), Some(74), "{device:?}");
        std::fs::write(sandbox.work("empty"), "").unwrap();
        let empty = sandbox.run(&["option", "load", "--clear", sandbox.work("empty").to_str().unwrap()]);
        assert_eq!((empty.status.code(), sandbox.ok(&["option", "dump"])), (Some(2), dump));
        std::fs::write(sandbox.work("options.json"), "{}").unwrap();
        sandbox.ok(&["option", "load", "--clear", sandbox.work("options.json").to_str().unwrap()]);
    };
    check();
    let mut running = sandbox.start(&["-w", "1"]);
    check();
    sandbox.ok(&["stop"]);
    running.wait();
}

#[test]
fn queue_never_runs_more_jobs_than_its_max_concurrency() {
    let sandbox = Sandbox::new(Setting::Plain);
    sandbox.ok(&["option", "set", "max_concurrency", "2", "--queue", "default"]);
    let script = "echo + >> log; sleep 0.03; echo - >> log";
    (0..12).for_each(|_| drop(sandbox.put(&["sh", "-c", script])));
    sandbox.ok(&["start", "-w", "4", "--burst"]);
    let log = std::fs::read_to_string(sandbox.work("log")).unwrap();
    let (mut runs, mut most) = (0, 0);
    for line in log.lines() {
        runs += if line == "+" { 1 } else { -1 };
        most = most.max(runs);
    }
    assert_eq!((log.lines().count(), runs), (24, 0), "{log}");
    assert!(most <= 2, "{log}");
    let mut running = sandbox.start(&["-w", "4"]);
    let jids: Vec<String> = (0..3).map(|_| sandbox.put(&["sleep", "1000"])).collect();
    wait_until("as many run as may", || jids[..2].iter().all(|jid| sandbox.job(jid)["state"] == "running"));
    let why = sandbox.ok(&["why", "job", &jids[2]]);
    assert!(why.contains("Queue default runs at most 2 jobs at a time"), "{why}");
    sandbox.ok(&["job", "cancel", "--wait", &jids[0]]);
    wait_until("the next runs", || sandbox.job(&jids[2])["state"] == "running");
    sandbox.ok(&["stop", "--now"]);
    running.wait();
}
