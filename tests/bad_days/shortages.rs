//! Too few descriptors, and no processes to be had.

use super::*;

#[test]
fn too_few_descriptors_for_all_slots_leave_the_others_working_and_name_the_limit() {
    let sandbox = Sandbox::new(Setting::Plain);
    let mut running = sandbox.start_under(&["prlimit", "--nofile=40:40"], &["-w", "16"]);
    let mut last = Value::Null;
    wait_until("the limit is named", || {
        last = sandbox.status();
        reasons(&last).contains("EMFILE")
    });
    assert_eq!(last["verdict"], "degraded", "{last}");
    assert_eq!(last["supervisor_restarts"], 0, "{last}");
    assert!(slots(&last).iter().any(|slot| slot["state"] == "ready"), "{last}");
    assert!(slots(&last).iter().any(|slot| slot["state"] == "down"), "{last}");
    let jids: Vec<String> = (0..20).map(|_| sandbox.put(&["sh", "-c", "echo out; echo err >&2"])).collect();
    for jid in &jids {
        let job = assert_completes(&sandbox, jid);
        assert_eq!(job["forensics"]["stderr_tail"], "err\n", "{job}");
    }
    let data = sandbox.ok(&["put", "-d", "some data", "--", "grep", "-q", "some"]);
    assert_completes(&sandbox, data.trim());
    assert_calm(&sandbox);
    kill(both(&sandbox)[1], "KILL");
    wait_until("a new supervisor has found room", || sandbox.status()["supervisor_restarts"] == 1);
    assert_works(&sandbox);
    sandbox.ok(&["stop"]);
    assert!(running.wait().success(), "{}", sandbox.stderr());
    sandbox.assert_nothing_left();
}

#[test]
fn slots_come_up_by_themselves_once_there_are_descriptors_again() {
    // The limits of another user's process are not ours to set.
    let sandbox = Sandbox::new(if is_root() { Setting::Root } else { Setting::Plain });
    let _running = sandbox.start_under(&["prlimit", "--nofile=1024:1024"], &["-w", "12"]);
    wait_until("all slots are up", || is_up(&sandbox.status()));
    let set = |limit: &str| {
        for pid in both(&sandbox) {
            let limit = format!("--nofile={limit}:1024");
            let set = Command::new("prlimit").args([&limit, "--pid", &pid.to_string()]).status();
            assert!(set.expect("prlimit").success());
        }
    };
    set("48");
    for seen in sandbox.processes().iter().filter(|seen| seen.comm == "tv-parked") {
        kill(seen.pid, "KILL");
    }
    wait_until("the limit is named", || sandbox.reasons().contains("EMFILE"));
    assert_works(&sandbox);
    set("1024");
    wait_until("all slots are up", || is_up(&sandbox.status()));
    sandbox.wait_healthy();
}

#[test]
fn a_fork_that_is_refused_is_named_waited_for_and_made_good() {
    let sandbox = Sandbox::new(Setting::Root);
    let Some(cell) = Cell::new("pids", "fork") else { return skipped("no pids cgroup") };
    let enter = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", cell.0.display());
    let mut running = sandbox.start_under(&["sh", "-c", &enter, "sh"], &["-w", "3"]);
    wait_until("all slots are up", || is_up(&sandbox.status()));
    let pipe = sandbox.work("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    // It forks no more once it has begun.
    let jid = sandbox.put(&["sh", "-c", "touch begun; read word < pipe"]);
    wait_until("the job runs", || sandbox.work("begun").exists());
    cell.set("pids.max", "1");
    for seen in sandbox.processes().iter().filter(|seen| seen.comm == "tv-parked") {
        kill(seen.pid, "KILL");
    }
    let mut last = Value::Null;
    wait_until("the refusal is named", || {
        last = sandbox.status();
        slots(&last).iter().filter(|slot| slot["state"] == "down").count() == 2
            && reasons(&last).contains("failed to fork")
            && reasons(&last).contains("EAGAIN")
    });
    assert_eq!(last["verdict"], "degraded", "{last}");
    assert_calm(&sandbox);
    let tries = sandbox.stderr().lines().filter(|line| line.contains("EAGAIN")).count();
    assert!(tries < 30, "{tries} tries");
    assert_eq!(sandbox.state(&jid), "running");
    cell.set("pids.max", "max");
    wait_until("all slots are up", || is_up(&sandbox.status()));
    fs::write(&pipe, "on\n").expect("a word");
    assert_completes(&sandbox, &jid);
    sandbox.wait_healthy();
    sandbox.ok(&["stop"]);
    assert!(running.wait().success(), "{}", sandbox.stderr());
    sandbox.assert_nothing_left();
}
