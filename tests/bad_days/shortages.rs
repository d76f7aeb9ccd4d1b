//! Too few descriptors, and forks that fail.

use std::os::unix::net::UnixStream;

use super::*;

#[test]
fn slots_with_descriptors_work_and_status_names_emfile_for_the_others() {
    let sandbox = Sandbox::new(Setting::Plain);
    let mut running = sandbox.start_under(&["prlimit", "--nofile=45:45"], &["-w", "16"]);
    let mut last = Value::Null;
    // At first the slots that lack descriptors may be down before another one is ready.
    wait_until("the limit is named, and a slot works", || {
        last = sandbox.status();
        reasons(&last).contains("EMFILE") && last["health"] == "degraded"
    });
    assert_eq!(last["supervisor_restarts"], 0, "{last}");
    assert!(slots(&last).iter().any(|slot| slot["state"] == "ready"), "{last}");
    assert!(slots(&last).iter().any(|slot| slot["state"] == "down"), "{last}");
    let jids: Vec<String> = (0..20).map(|_| sandbox.put(&["sh", "-c", "echo out; echo err >&2"])).collect();
    for jid in &jids {
        let job = assert_completes(&sandbox, jid);
        // To read it takes a descriptor, and others may have taken the last one at that moment.
        let tail = &job["forensics"]["stderr_tail"];
        assert!(tail.is_null() || tail == "err\n", "{job}");
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
fn start_is_refused_with_the_limit_when_descriptors_are_too_few() {
    let sandbox = Sandbox::new(Setting::Plain);
    for few in ["20", "44"] {
        let limit = format!("--nofile={few}:{few}");
        let mut running = sandbox.start_under(&["prlimit", &limit], &["-w", "1", "--burst"]);
        assert_eq!(running.wait().code(), Some(74), "{}", sandbox.stderr());
        let said = sandbox.stderr();
        assert!(said.contains("a supervisor needs 45 descriptors"), "{said}");
        assert!(said.contains(&format!("the limit is {few}")) && said.contains("LimitNOFILE="), "{said}");
        assert!(!sandbox.path("state").exists(), "it leaves nothing");
    }
    let _running = sandbox.start_under(&["prlimit", "--nofile=45:45"], &["-w", "1"]);
    wait_until("all slots are up", || is_up(&sandbox.status()));
    assert_works(&sandbox);
}

#[test]
fn accept_failure_for_want_of_descriptors_is_logged_once_and_once_when_it_ends() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start_under(&["prlimit", "--nofile=48:48"], &["-w", "2"]);
    wait_until("all slots are up", || is_up(&sandbox.status()));
    let socket = sandbox.path("run").join("ctl.sock");
    let crowd: Vec<UnixStream> = (0..60).map(|_| UnixStream::connect(&socket).expect("connect")).collect();
    let count = |what: &str| sandbox.stderr().matches(what).count();
    let fails = "failed to accept a connection; ";
    wait_until("it is logged", || count(fails) > 0);
    stays(Duration::from_secs(1), "it fails again and again, and is told once", || count(fails) == 1);
    wait_until("idle clients make room", || is_up(&sandbox.status()));
    drop(crowd);
    wait_until("the log says that it is over", || count("recovered after") > 0);
    assert_eq!((count(fails), count("recovered after")), (1, 1), "{}", sandbox.stderr());
    assert_works(&sandbox);
}

#[test]
fn down_slots_restart_by_themselves_once_descriptors_are_available() {
    // A plain user may not set the limits of another user's process.
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
    let jobs: Vec<String> = (0..12)
        .map(|n| sandbox.put(&["sh", "-c", &format!("touch on{n}; until [ -e go ]; do sleep 0.05; done")]))
        .collect();
    wait_until("all run", || (0..12).all(|n| sandbox.work(&format!("on{n}")).exists()));
    set("48");
    // Their slots need descriptors for their next lives.
    fs::write(sandbox.work("go"), "").expect("go");
    let named = "Too many open files (EMFILE), the limit is 48: raise it by ulimit -Hn";
    wait_until("the limit is named", || sandbox.reasons().contains(named));
    assert_works(&sandbox);
    set("1024");
    wait_until("all slots are up", || is_up(&sandbox.status()));
    for jid in &jobs {
        assert_completes(&sandbox, jid);
    }
    sandbox.wait_healthy();
}

#[test]
fn failed_fork_is_reported_with_errno_and_retried_with_backoff() {
    let sandbox = Sandbox::new(Setting::Root);
    let Some(cell) = Cell::new("pids", "fork") else { return missing("pids") };
    let enter = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", cell.0.display());
    let mut running = sandbox.start_under(&["sh", "-c", &enter, "sh"], &["-w", "3"]);
    wait_until("all slots are up", || is_up(&sandbox.status()));
    let pipe = sandbox.work("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    // The job forks no more once it has begun.
    let jid = sandbox.put(&["sh", "-c", "touch begun; read word < pipe"]);
    wait_until("the job runs", || sandbox.work("begun").exists());
    cell.set("pids.max", "1");
    let waits = sandbox.put(&["true"]);
    let mut last = Value::Null;
    wait_until("the refusal is named", || {
        last = sandbox.status();
        reasons(&last).contains("failed to make a process for 'true': Try again")
    });
    assert_eq!(last["health"], "degraded", "{last}");
    assert_calm(&sandbox);
    let tries = sandbox.stderr().lines().filter(|line| line.contains("make a process")).count();
    assert!(tries < 30, "{tries} tries");
    assert_eq!(sandbox.state(&jid), "running");
    cell.set("pids.max", "max");
    wait_until("all slots are up", || is_up(&sandbox.status()));
    fs::write(&pipe, "on\n").expect("a word");
    assert_completes(&sandbox, &jid);
    assert_completes(&sandbox, &waits);
    sandbox.wait_healthy();
    sandbox.ok(&["stop"]);
    assert!(running.wait().success(), "{}", sandbox.stderr());
    sandbox.assert_nothing_left();
}

#[test]
fn orders_without_a_thread_to_be_had_are_done_or_refused_and_no_job_ends() {
    let sandbox = Sandbox::new(Setting::Root);
    let Some(cell) = Cell::new("pids", "threads") else { return missing("pids") };
    let enter = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", cell.0.display());
    fs::write(sandbox.work("settings.yaml"), "pools: [{name: only, workers: 1}]\n").expect("settings");
    let _running = sandbox.start_under(&["sh", "-c", &enter, "sh"], &["-c", "settings.yaml"]);
    wait_until("all slots are up", || is_up(&sandbox.status()));
    let pipe = sandbox.work("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let jid = sandbox.put(&["sh", "-c", "touch begun; read word < pipe"]);
    wait_until("the job runs", || sandbox.work("begun").exists());
    cell.set("pids.max", "1");
    sandbox.ok(&["pause", "only"]);
    let (code, said) = sandbox.refused(&["reload"]);
    assert!(code != 0 && said.contains("Resource temporarily unavailable"), "{code}: {said}");
    sandbox.ok(&["resume", "only"]);
    cell.set("pids.max", "max");
    assert_eq!(
        (&sandbox.status()["supervisor_restarts"], sandbox.state(&jid).as_str()),
        (&0.into(), "running")
    );
    fs::write(&pipe, "on\n").expect("a word");
    assert_completes(&sandbox, &jid);
}

#[test]
fn limit_of_cpu_time_ends_jobs_that_use_it_up_and_no_supervisor() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start_under(&["prlimit", "--cpu=1:unlimited"], &["-w", "1"]);
    wait_until("all slots are up", || is_up(&sandbox.status()));
    let supervisor = both(&sandbox)[1];
    // XCPU as the kernel sends it each second after the limit.
    for signal in ["XCPU", "VTALRM", "PROF", "ALRM", "IO", "PWR", "STKFLT"] {
        kill(supervisor, signal);
    }
    kill(both(&sandbox)[0], "XCPU");
    assert_works(&sandbox);
    let jid = sandbox.put(&["sh", "-c", "while :; do :; done"]);
    wait_until("its own limit ends the job", || sandbox.state(&jid) == "failed");
    assert_eq!(
        sandbox.job(&jid)["forensics"]["exit"]["status"]["signal"],
        24,
        "SIGXCPU: {}",
        sandbox.job(&jid)
    );
    assert_eq!(sandbox.status()["supervisor_restarts"], 0);
    assert!(sandbox.stderr().contains("each process may use 1 s of CPU time"), "{}", sandbox.stderr());
}
