//! Waiting for the end of a job from another host.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::sandbox::{Sandbox, Setting, stays, wait_until, wait_within};
use crate::supervisors::Scene;
use crate::support::Monitor;

/// With and without a supervisor there: it hears of the end, and does not look again and again.
#[test]
fn end_of_a_canceled_job_wakes_those_who_wait_at_another_host() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "1", "--grace", "15s"]);
    let mut monitor = Monitor::new(scene.server.borrow().as_ref().unwrap());
    let mut other = scene.other();
    let there = Sandbox::new(Setting::Root);
    let mut second = None;
    for has_supervisor in [false, true] {
        if has_supervisor {
            second = Some(there.start(&["-b", &scene.url, "-w", "1", "-q", "nothing"]));
        }
        let [began, end] = ["began", "end"].map(|name| scene.sandbox.work(name));
        let line = format!(
            "trap '' TERM; : >{}; until [ -e {} ]; do sleep 0.02; done",
            began.display(),
            end.display()
        );
        let job = scene.ok(&["put", "--", "sh", "-c", &line]).trim().to_owned();
        wait_until("it runs", || began.exists());
        let mut command: Command = there.command(&["-b", &scene.url, "job", "cancel", &job, "--wait"]);
        let mut waiting = command.stdout(Stdio::null()).spawn().unwrap();
        // The supervisor here, and the client or the supervisor there.
        wait_until("it listens", || {
            other.raw::<(String, i64)>("PUBSUB NUMSUB ql:taskvisor:over").1 == 2
                && scene.job(&job)["state"] == "canceling"
        });
        wait_until("it has looked once more", || monitor.calls("taskvisor.state") > 0);
        stays(Duration::from_millis(600), "it waits", || waiting.try_wait().unwrap().is_none());
        let looks = monitor.calls("taskvisor.state");
        assert!(looks <= 2, "{looks} looks");
        std::fs::write(&end, "").unwrap();
        wait_within(Duration::from_secs(4), "it hears of the end", || waiting.try_wait().unwrap().is_some());
        assert!(waiting.wait().unwrap().success());
        [began, end].iter().for_each(|file| std::fs::remove_file(file).unwrap());
    }
    drop(second);
}
