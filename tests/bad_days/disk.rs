//! A disk that is full or fails.

use super::*;

/// `job wait` writes nothing, so it works on a bad disk.
#[track_caller]
fn assert_waits(sandbox: &Sandbox, jid: &str) {
    assert_says(sandbox, &sandbox.run(&["job", "wait", jid, "--timeout", "1s"]), 124, &[]);
}

/// A shell prefix that mounts a small disk on the state directory, then executes the rest of the command line.
const SMALL: &str = "mkdir -m 700 \"$TASKVISOR_STATE_DIR\" && mount -t tmpfs -o size=4m,mode=700 none \"$TASKVISOR_STATE_DIR\" && exec \"$@\"";

/// Fills the small disk (in a mount namespace that ends with the pool) with one file and returns its path.
fn fill(sandbox: &Sandbox, running: &sandbox::Running<'_>) -> PathBuf {
    let disk = PathBuf::from(format!("/proc/{}/root{}", running.child.id(), sandbox.path("state").display()));
    let path = disk.join("filler");
    let mut filler = fs::File::create(&path).expect("a filler");
    let mut room = 1 << 16;
    while room > 0 {
        match filler.write(&vec![0; room]) {
            Ok(written) if written > 0 => {}
            Ok(_) | Err(_) => room /= 2,
        }
    }
    path
}

#[test]
fn keeper_replaces_a_dead_supervisor_once_the_full_disk_has_space_again() {
    if !is_root() {
        return missing("root");
    }
    let sandbox = Sandbox::new(Setting::Root);
    let mut running = sandbox.start_under(&["unshare", "-m", "sh", "-c", SMALL, "sh"], &["-w", "1"]);
    wait_until("all slots are up", || is_up(&sandbox.status()));
    let jid = put_until_go(&sandbox, "true");
    let filler = fill(&sandbox, &running);
    kill(sandbox.one("tv-supervisor"), "KILL");
    wait_until("it was tried more often than a crash", || {
        sandbox.stderr().matches("the new supervisor could not start").count() > 5
    });
    assert!(running.child.try_wait().expect("wait").is_none(), "{}", sandbox.stderr());
    assert!(sandbox.job_processes().is_empty());
    fs::remove_file(filler).expect("space");
    wait_until("all slots are up again", || is_up(&sandbox.status()));
    go(&sandbox);
    sandbox.run(&["job", "wait", &jid, "--timeout", "40s"]);
    assert_eq!(sandbox.state(&jid), "complete");
    kill(running.child.id() as i32, "TERM");
    assert!(running.wait().success(), "{}", sandbox.stderr());
    sandbox.assert_nothing_left();
}

#[test]
fn full_disk_is_told_while_there_is_no_job() {
    if !is_root() {
        return missing("root");
    }
    let sandbox = Sandbox::new(Setting::Root);
    let running = sandbox.start_under(&["unshare", "-m", "sh", "-c", SMALL, "sh"], &["-w", "1"]);
    wait_until("all slots are up", || is_up(&sandbox.status()));
    let filler = fill(&sandbox, &running);
    let says = |text: &str| text.contains("the disk of") && text.contains("is full");
    wait_until("status says it", || says(&sandbox.reasons()));
    let told = [sandbox.ok(&["why", "pool", "default"]), http::get(&sandbox, "/readyz")];
    assert!(told.iter().all(|text| says(text)), "{told:?}");
    fs::remove_file(filler).expect("space");
    sandbox.wait_healthy();
}

#[test]
fn full_disk_refuses_puts_keeps_queued_jobs_and_counts_dropped_output() {
    if !is_root() {
        return missing("root");
    }
    let sandbox = Sandbox::new(Setting::Root);
    let running = sandbox.start_under(&["unshare", "-m", "sh", "-c", SMALL, "sh"], &["-w", "2"]);
    wait_until("all slots are up", || is_up(&sandbox.status()));
    // Commands outside of the mount namespace do not see the lock file; this copy names its owner.
    let signed = running.child.id().to_string();
    fs::write(sandbox.path("state").join("lock"), signed).expect("a lock");
    let jid = put_until_go(
        &sandbox,
        "head -c 300000 /dev/zero | tr '\\0' x; while [ ! -e end ]; do sleep 0.02; done",
    );
    let filler = fill(&sandbox, &running);
    let mut refused = None;
    wait_until("a put is refused", || {
        let output = sandbox.run(&["put", "--", "true", &"x".repeat(20_000)]);
        refused = (!output.status.success()).then_some(output);
        refused.is_some()
    });
    let refused = refused.expect("an answer");
    assert_says(&sandbox, &refused, 69, &["failed to put the job", "DIR/state/store.db", "disk is full"]);
    assert!(refused.stdout.is_empty());
    assert_waits(&sandbox, &jid);
    go(&sandbox);
    let mut seen = String::new();
    wait_until("the lost output is reported", || {
        let status = sandbox.status();
        seen = reasons(&status);
        status["health"] == "degraded" && seen.contains("No space left on device")
    });
    assert!(seen.contains(&jid) && seen.contains("dropped"), "{seen}");
    assert_calm(&sandbox);
    fs::write(sandbox.work("end"), "").expect("end");
    wait_until("the job has ended", || sandbox.job_processes().is_empty());
    fs::remove_file(filler).expect("space");
    let job = assert_completes(&sandbox, &jid);
    let dropped = job["forensics"]["output_dropped"].as_u64().expect("a number");
    assert!((1..=300_000).contains(&dropped), "{job}");
    let jid = sandbox.put(&["echo", "again"]);
    assert_completes(&sandbox, &jid);
    sandbox.wait_healthy();
    drop(running);
    sandbox.assert_nothing_left();
}

#[test]
fn failing_disk_acknowledges_no_put_or_verdict_and_recovers_afterwards() {
    let sandbox = Sandbox::new(Setting::Plain);
    let Some(library) = shim(&sandbox) else { return };
    let flag = sandbox.path("eio");
    let words = ["DIR/state/store.db", "disk I/O error"];
    fs::write(&flag, "").expect("a flag");
    let mut alone = sandbox.command(&["put", "--", "true"]);
    let alone = alone.env("LD_PRELOAD", &library).env("DAYS_EIO", &flag).output().expect("put");
    assert_says(&sandbox, &alone, 69, &words);
    assert!(alone.stdout.is_empty());
    fs::remove_file(&flag).expect("rm");
    let _running = sandbox.start_with(&["-w", "2"], |command| {
        command.env("LD_PRELOAD", &library).env("DAYS_EIO", &flag);
    });
    wait_until("all slots are up", || is_up(&sandbox.status()));
    let jid = put_until_go(&sandbox, "true");
    fs::write(&flag, "").expect("a flag");
    let words = ["DIR/state/store.db-wal", "Input/output error", "os error 5"];
    assert_says(&sandbox, &sandbox.run(&["put", "--", "true"]), 69, &words);
    go(&sandbox);
    wait_until("the job has ended", || sandbox.job_processes().is_empty());
    let mut last = Value::Null;
    wait_until("status names the disk", || {
        last = sandbox.status();
        reasons(&last).contains("Input/output error")
    });
    assert_eq!(last["health"], "degraded", "{last}");
    // Some attempts to recover fail meanwhile.
    stays(Duration::from_secs(2), "no put is taken", || {
        let output = sandbox.run(&["put", "--", "true"]);
        assert_says(&sandbox, &output, 69, &words);
        output.stdout.is_empty()
    });
    assert_calm(&sandbox);
    assert_ne!(sandbox.state(&jid), "complete", "the disk has not promised it");
    assert_waits(&sandbox, &jid);
    fs::remove_file(&flag).expect("rm");
    wait_until("the job is settled", || sandbox.state(&jid) == "complete");
    assert_completes(&sandbox, &jid);
    wait_until("a put is taken", || sandbox.run(&["put", "--", "true"]).status.success());
    sandbox.wait_healthy();
    assert_works(&sandbox);
}

#[test]
fn stop_lists_verdicts_that_a_failing_disk_did_not_confirm_and_exits_69() {
    let sandbox = Sandbox::new(Setting::Plain);
    let Some(library) = shim(&sandbox) else { return };
    let flag = sandbox.path("eio");
    let mut running = sandbox.start_with(&["-w", "2", "--stop-deadline", "1s"], |command| {
        command.env("LD_PRELOAD", &library).env("DAYS_EIO", &flag);
    });
    wait_until("all slots are up", || is_up(&sandbox.status()));
    let jid = put_until_go(&sandbox, "echo done >> ran");
    fs::write(&flag, "").expect("a flag");
    go(&sandbox);
    wait_until("the job has ended", || sandbox.work("ran").exists() && sandbox.job_processes().is_empty());
    let stopped = sandbox.run(&["stop"]);
    assert_says(
        &sandbox,
        &stopped,
        69,
        &["its broker has not confirmed how 1 job ended", "runs again when its lease ends"],
    );
    assert_eq!(running.wait().code(), Some(69));
    let log = sandbox.stderr();
    let named = log.lines().find(|line| line.contains("the broker has not confirmed the end of this job"));
    let named = named.unwrap_or_else(|| panic!("no line names the job:\n{log}"));
    for word in ["ERROR", &jid, "verdict=\"complete\"", "Input/output error", "it runs again"] {
        assert!(named.contains(word), "no {word:?} in: {named}");
    }
    fs::remove_file(&flag).expect("rm");
    sandbox.ok(&["start", "-w", "2", "--burst"]);
    assert_eq!(sandbox.state(&jid), "complete");
    let runs = fs::read_to_string(sandbox.work("ran")).expect("ran");
    // A write that was never confirmed may have reached the disk all the same.
    assert!(["done\n", "done\ndone\n"].contains(&&*runs), "at least once: {runs}");
}

#[test]
fn put_is_answered_after_its_fdatasync() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "1"]);
    // Nothing else is written meanwhile.
    sandbox.put(&["true"]);
    wait_until("it is idle", || {
        sandbox.json(&["queue", "list", "--json"]).to_string().contains("\"complete\":1")
    });
    sandbox.ok(&["queue", "pause", "default"]);
    let (supervisor, trace) = (sandbox.one("tv-supervisor").to_string(), sandbox.path("trace"));
    let calls = "trace=fdatasync,fsync,write,writev,sendto,sendmsg,pwrite64";
    let strace = Command::new("strace")
        .args(["-f", "-y", "-s", "300", "-e", calls, "-p", &supervisor, "-o"])
        .arg(&trace)
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut strace) = strace else { return missing("strace") };
    let traced = || {
        fs::read_dir(format!("/proc/{supervisor}/task")).expect("tasks").flatten().all(|task| {
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            !status.contains("TracerPid:\t0\n")
        })
    };
    let mut over = false;
    wait_until("strace is attached", || {
        over = strace.try_wait().expect("wait").is_some();
        over || traced()
    });
    if over {
        return missing("ptrace");
    }
    let jid = sandbox.put(&["true"]);
    wait_until("the answer is traced", || fs::read_to_string(&trace).is_ok_and(|trace| trace.contains(&jid)));
    kill(strace.id() as i32, "INT");
    strace.wait().expect("wait");
    let trace = fs::read_to_string(&trace).expect("a trace");
    let lines: Vec<&str> = trace.lines().collect();
    let find = |from: usize, what: &dyn Fn(&str) -> bool| {
        lines[from..]
            .iter()
            .position(|line| what(line))
            .map(|at| from + at)
            .unwrap_or_else(|| panic!("{trace}"))
    };
    let written = find(0, &|line| line.contains("pwrite64(") && line.contains("store.db-wal"));
    let begun = find(written, &|line| line.contains("fdatasync(") && line.contains("store.db-wal"));
    let done = match lines[begun].ends_with("= 0") {
        true => begun,
        false => find(begun, &|line| line.contains("fdatasync resumed") && line.ends_with("= 0")),
    };
    let answered = find(0, &|line| line.contains("HTTP/1.1 200") && line.contains(&jid));
    assert!(done < answered, "{trace}");
    let late = lines[begun..answered].iter().any(|line| line.contains("pwrite64(") && line.contains("-wal"));
    assert!(!late, "written after the sync: {trace}");
}

#[test]
fn file_that_may_grow_no_longer_is_an_error_and_kills_nobody() {
    let sandbox = Sandbox::new(Setting::Plain);
    let put = sandbox.command(&["put", "--", "true"]);
    let mut limited = Command::new("prlimit");
    limited.arg("--fsize=8192:8192").arg(put.get_program()).args(put.get_args());
    limited.current_dir(sandbox.path("work"));
    limited.envs(put.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = limited.output().expect("put");
    assert!(output.status.code().is_some_and(|code| code > 1), "{output:?}");
    assert!(!output.stderr.is_empty(), "{output:?}");
    // A job is not spared: it dies as it would elsewhere.
    let _running = sandbox.start(&["-w", "1"]);
    let jid = sandbox.put(&["sh", "-c", "ulimit -f 1; exec head -c 9999 /dev/zero >large"]);
    sandbox.run(&["job", "wait", &jid, "--timeout", "40s"]);
    let job = sandbox.job(&jid);
    assert_eq!(job["failure"]["message"], "the worker died: signal 25", "{job}");
}
