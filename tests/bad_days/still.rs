//! Processes that do not die, and clients that do not read.

use super::*;

#[test]
fn status_shows_an_unkillable_job_with_its_cause_and_does_not_settle_it() {
    let sandbox = Sandbox::new(Setting::Root);
    let Some(cell) = Cell::new("freezer", "stuck") else { return missing("freezer") };
    let mut running = sandbox.start(&["-w", "2", "--grace", "200ms"]);
    let jid = sandbox.put(&["sh", "-c", "echo $$ > pid; exec sleep 1000"]);
    let mut pid = 0;
    wait_until("the job runs", || {
        pid =
            fs::read_to_string(sandbox.work("pid")).ok().and_then(|pid| pid.trim().parse().ok()).unwrap_or(0);
        pid > 0
    });
    cell.set("cgroup.procs", &pid.to_string());
    cell.set("freezer.state", "FROZEN");
    sandbox.ok(&["job", "cancel", &jid]);
    let mut last = Value::Null;
    wait_until("it is called unkillable", || {
        last = sandbox.status();
        slots(&last).iter().any(|slot| slot["state"] == "unkillable")
    });
    let stuck = slots(&last).into_iter().find(|slot| slot["state"] == "unkillable").expect("a slot");
    let why = stuck["why"].as_str().expect("why");
    assert!(why.contains(&pid.to_string()) && why.contains("does not die"), "{why}");
    assert!(reasons(&last).contains(why), "{last}");
    assert_eq!(last["health"], "degraded");
    assert_eq!(stuck["jobs"][0]["id"], jid.as_str(), "{last}");
    let page = sandbox.ok(&["job", "show", &jid]);
    assert!(page.lines().any(|line| line.starts_with("unkillable  for ") && line.contains(why)), "{page}");
    assert_eq!(sandbox.json(&["job", "show", &jid, "--json"])["unkillable"]["why"], why);
    let slot = stuck["slot"].as_str().expect("a name").to_owned();
    let caught = |snapshot: &Value| snapshot["processes"][0]["pid"].as_i64() == Some(pid.into());
    wait_until("why shows what it does", || {
        caught(&sandbox.json(&["why", "slot", &slot, "--json"])["snapshot"])
    });
    for _ in 0..5 {
        assert_works(&sandbox);
    }
    assert_calm(&sandbox);
    assert_eq!(sandbox.state(&jid), "canceling");
    assert!(alive(pid));
    cell.set("freezer.state", "THAWED");
    sandbox.run(&["job", "wait", &jid, "--timeout", "20s"]);
    assert_eq!(sandbox.state(&jid), "canceled");
    let job = sandbox.job(&jid);
    assert!(caught(&job["forensics"]["snapshot"]), "{job}");
    sandbox.wait_healthy();
    sandbox.ok(&["stop"]);
    assert!(running.wait().success(), "{}", sandbox.stderr());
    sandbox.assert_nothing_left();
}

#[test]
fn stop_names_the_process_that_it_leaves_alive_and_exits_69() {
    let sandbox = Sandbox::new(Setting::Root);
    let Some(cell) = Cell::new("freezer", "left") else { return missing("freezer") };
    let mut running = sandbox.start(&["-w", "1", "--grace", "200ms", "--stop-deadline", "1s"]);
    let jid = sandbox.put(&["sh", "-c", "echo $$ > pid; exec sleep 1000"]);
    let pid = || fs::read_to_string(sandbox.work("pid")).ok()?.trim().parse::<i32>().ok();
    wait_until("the job runs", || pid().is_some());
    let pid = pid().expect("a pid");
    cell.set("cgroup.procs", &pid.to_string());
    cell.set("freezer.state", "FROZEN");
    let (code, said) = sandbox.refused(&["stop", "--now"]);
    assert_eq!(code, 69, "{said}");
    assert_eq!(running.wait().code(), Some(69), "{}", sandbox.stderr());
    let log = sandbox.stderr();
    let line = log.lines().find(|line| line.contains(&pid.to_string()) && line.contains(&jid));
    assert!(line.is_some_and(|line| line.contains("does not die")), "{log}");
    assert!(alive(pid));
}

#[test]
fn stalled_or_killed_clients_delay_no_job() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "2"]);
    let jid = put_until_go(&sandbox, "head -c 2000000 /dev/zero | tr '\\0' x");
    let mut follower = sandbox.command(&["job", "logs", "-f", &jid]);
    let mut follower = follower.stdout(Stdio::piped()).spawn().expect("logs");
    let mut watcher = sandbox.command(&["status", "--watch"]);
    let mut watcher = watcher.stdout(Stdio::piped()).spawn().expect("status");
    let mut stalled: Vec<_> = (0..20)
        .map(|_| {
            std::os::unix::net::UnixStream::connect(sandbox.path("run").join("ctl.sock")).expect("connect")
        })
        .collect();
    for client in &mut stalled {
        client.set_nonblocking(true).expect("nonblocking");
        let question = "GET /v1/status HTTP/1.1\r\nhost: x\r\n\r\n".repeat(1000);
        // The client requests more than the socket buffer holds and reads no answer.
        let _ = client.write(question.as_bytes());
    }
    go(&sandbox);
    assert_completes(&sandbox, &jid);
    for _ in 0..5 {
        assert_works(&sandbox);
    }
    sandbox.wait_healthy();
    assert_calm(&sandbox);
    kill(watcher.id() as i32, "KILL");
    watcher.wait().expect("wait");
    assert!(follower.try_wait().expect("wait").is_none(), "it waits for its reader");
    drop(follower.stdout.take());
    assert!(follower.wait().expect("wait").success(), "a reader that leaves is no error");
    drop(stalled);
    assert_works(&sandbox);
}
