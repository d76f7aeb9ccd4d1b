//! A store that is locked, moved, damaged or grown, and a clock that jumps.

use super::*;

#[test]
fn store_locked_by_another_program_is_reported_and_loses_no_job() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "2"]);
    let jid = put_until_go(&sandbox, "true");
    let other = rusqlite::Connection::open(sandbox.path("state").join("store.db")).expect("the store");
    other.execute_batch("BEGIN EXCLUSIVE").expect("the lock");
    let since = Instant::now();
    let mut puts: Vec<_> = (0..6)
        .map(|_| {
            let mut put = sandbox.command(&["put", "--", "true"]);
            put.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("put")
        })
        .collect();
    go(&sandbox);
    let asked = |sandbox: &Sandbox| {
        let since = Instant::now();
        let status = sandbox.status();
        (since.elapsed(), status)
    };
    wait_until("its silence is known", || sandbox.reasons().contains("broker: "));
    let (took, seen) = (0..3).map(|_| asked(&sandbox)).min_by_key(|(took, _)| *took).expect("a status");
    assert!(took < Duration::from_secs(1), "status took {took:?}");
    assert!(reasons(&seen).contains("broker: "), "{seen}");
    wait_within(Duration::from_secs(16), "all puts are answered", || {
        puts.iter_mut().all(|put| put.try_wait().expect("wait").is_some())
    });
    println!("answered after {:?}", since.elapsed());
    for put in puts {
        let output = put.wait_with_output().expect("put");
        assert_says(&sandbox, &output, 69, &["DIR/state/store.db", "another program has locked it"]);
    }
    assert_calm(&sandbox);
    other.execute_batch("ROLLBACK").expect("the end of the lock");
    assert_completes(&sandbox, &jid);
    assert_works(&sandbox);
    sandbox.wait_healthy();
}

#[test]
fn keeper_restarts_the_supervisor_once_the_store_is_unlocked() {
    let sandbox = Sandbox::new(Setting::Plain);
    let mut running = sandbox.start(&["-w", "1"]);
    let jid = put_until_go(&sandbox, "true");
    let other = rusqlite::Connection::open(sandbox.path("state").join("store.db")).expect("the store");
    other.execute_batch("BEGIN EXCLUSIVE").expect("the lock");
    kill(sandbox.one("tv-supervisor"), "KILL");
    wait_until("the new one is refused", || {
        let said = sandbox.stderr();
        said.contains("another program has locked it") && said.contains("trying again")
    });
    other.execute_batch("ROLLBACK").expect("the end of the lock");
    go(&sandbox);
    wait_until("the job is complete", || {
        sandbox.run(&["status"]).status.success() && sandbox.state(&jid) == "complete"
    });
    assert_eq!(sandbox.job(&jid)["interruptions"], 1);
    sandbox.wait_healthy();
    sandbox.ok(&["stop"]);
    assert!(running.wait().success(), "{}", sandbox.stderr());
    sandbox.assert_nothing_left();
}

#[test]
fn moved_or_removed_store_refuses_puts_until_the_file_is_back() {
    let sandbox = Sandbox::new(Setting::Plain);
    let mut running = sandbox.start(&["-w", "2"]);
    let jid = put_until_go(&sandbox, "true");
    let (file, away) = (sandbox.path("state").join("store.db"), sandbox.path("away"));
    let lose = |how: &dyn Fn()| {
        how();
        wait_until("it is noticed", || sandbox.reasons().contains("moved or removed"));
        let words = ["DIR/state/store.db", "moved or removed", "move the file back"];
        assert_says(&sandbox, &sandbox.run(&["put", "--", "true"]), 69, &words);
        assert_eq!(sandbox.status()["health"], "degraded");
        assert_calm(&sandbox);
    };
    lose(&|| fs::rename(&file, &away).expect("mv"));
    go(&sandbox);
    wait_until("the job has ended", || sandbox.job_processes().is_empty());
    assert_ne!(sandbox.state(&jid), "complete", "it cannot be kept");
    fs::rename(&away, &file).expect("mv");
    assert_completes(&sandbox, &jid);
    sandbox.wait_healthy();
    assert_works(&sandbox);
    lose(&|| fs::remove_file(&file).expect("rm"));
    sandbox.ok(&["stop"]);
    assert!(running.wait().success(), "{}", sandbox.stderr());
    sandbox.assert_nothing_left();
}

/// A bad row affects its own job only: that job is held and logged, and its queue continues.
#[test]
fn unreadable_job_is_held_and_logged_and_its_queue_continues() {
    let sandbox = Sandbox::new(Setting::Plain);
    let bad = [
        "UPDATE job SET tags = '{no list' WHERE jid = ?1",
        "UPDATE job SET payload = x'7b7b' WHERE jid = ?1",
        "UPDATE job SET payload = NULL WHERE jid = ?1",
        "UPDATE job SET priority = 'high' WHERE jid = ?1",
    ];
    let broken = bad.map(|_| sandbox.put(&["true"]));
    let good: Vec<String> = (0..3).map(|_| sandbox.put(&["true"])).collect();
    let other = rusqlite::Connection::open(sandbox.path("state").join("store.db")).expect("the store");
    for (statement, jid) in bad.iter().zip(&broken) {
        assert_eq!(other.execute(statement, [jid]), Ok(1));
    }
    drop(other);
    let listed = sandbox.ok(&["job", "list"]);
    for jid in broken.iter().chain(&good) {
        assert!(listed.contains(jid.as_str()), "{listed}");
        sandbox.ok(&["job", "show", jid]);
    }
    let _running = sandbox.start(&["-w", "1"]);
    good.iter().for_each(|jid| drop(assert_completes(&sandbox, jid)));
    for jid in &broken {
        let job = sandbox.job(jid);
        assert_eq!(
            (&job["state"], &job["failure"]["group"]),
            (&"held".into(), &"unreadable".into()),
            "{job}"
        );
        let log = sandbox.stderr();
        let named = log.lines().filter(|line| line.contains("cannot be read") && line.contains(jid.as_str()));
        assert_eq!(named.count(), 1, "{log}");
    }
    let status = sandbox.status();
    assert_eq!(status["health"], "degraded");
    assert!(reasons(&status).contains("4 held"), "{status}");
    let failed = sandbox.ok(&["failed"]);
    assert!(failed.contains("unreadable"), "{failed}");
    sandbox.ok(&["job", "discard", &broken[0]]);
}

#[test]
fn endless_reader_is_reported_before_the_wal_fills_the_disk() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "1"]);
    let reader = rusqlite::Connection::open(sandbox.path("state").join("store.db")).expect("the store");
    reader.execute_batch("BEGIN; SELECT count(*) FROM job;").expect("a read");
    let put = |megabytes: usize| {
        let data = format!("\"{}\"", "x".repeat(megabytes << 20));
        fs::write(sandbox.work("data"), data).expect("data");
        sandbox.ok(&["put", "nobody", "Reads", "@data"]);
    };
    put(8);
    assert_eq!(sandbox.status()["health"], "healthy");
    (0..8).for_each(|_| put(8));
    let status = sandbox.status();
    assert_eq!((&status["health"], &status["broker_trouble"]), (&"degraded".into(), &Value::Null));
    let said = reasons(&status);
    for word in ["store.db-wal has grown to 7", "MB", "fuser", "read transaction"] {
        assert!(said.contains(word), "no {word:?} in {said}");
    }
    assert_works(&sandbox);
    wait_until("the log says it", || sandbox.stderr().contains("the WAL is long"));
    reader.execute_batch("COMMIT").expect("the end");
    sandbox.wait_healthy();
}

#[test]
fn wall_clock_jump_of_a_day_moves_no_delay_and_no_lease() {
    let sandbox = Sandbox::new(Setting::Plain);
    let Some(library) = shim(&sandbox) else { return };
    let wall = sandbox.path("wall");
    let _running = sandbox.start_with(&["-w", "2", "--lease", "6s", "--grace", "1s"], |command| {
        command.env("LD_PRELOAD", &library).env("DAYS_WALL", &wall);
    });
    wait_until("all slots are up", || is_up(&sandbox.status()));
    let jid = put_until_go(&sandbox, "true");
    for (day, name) in [("86400", "ahead"), ("-86400", "back")] {
        let since = Instant::now();
        let late = sandbox.ok(&["put", "--delay", "2s", "--", "touch", name]);
        fs::write(&wall, day).expect("a jump");
        wait_within(Duration::from_secs(10), "the delayed job runs", || sandbox.work(name).exists());
        assert!(since.elapsed() >= Duration::from_millis(1990), "{name}: early, after {:?}", since.elapsed());
        assert_completes(&sandbox, late.trim());
        // Longer than the lease: the supervisor renewed it under the wrong clock.
        stays(Duration::from_millis(6500), "the job runs", || sandbox.state(&jid) == "running");
        assert_eq!(sandbox.status()["health"], "healthy");
    }
    go(&sandbox);
    assert_completes(&sandbox, &jid);
    assert_calm(&sandbox);
}

#[test]
fn job_that_a_damaged_store_calls_running_is_named_and_put_back_at_the_start() {
    let sandbox = Sandbox::new(Setting::Plain);
    let jid = sandbox.put(&["true"]);
    let other = rusqlite::Connection::open(sandbox.path("state").join("store.db")).expect("the store");
    assert_eq!(other.execute("UPDATE job SET state = 2", []).expect("the damage"), 1);
    drop(other);
    let mut running = sandbox.start_raw(&["-w", "1", "--burst"]);
    assert!(running.wait().success(), "{}", sandbox.stderr());
    assert_eq!(sandbox.state(&jid), "complete");
    let log = sandbox.stderr();
    assert!(log.contains("the store is damaged: it says that this job runs") && log.contains(&jid), "{log}");
    let queues = sandbox.json(&["queue", "list", "--json"]);
    assert_eq!(queues["default"]["jobs"], serde_json::json!({ "complete": 1 }), "{queues}");
}

#[test]
fn jobs_that_a_cut_wal_held_are_told_until_a_person_has_seen_to_it() {
    let sandbox = Sandbox::new(Setting::Plain);
    // The schema goes from the WAL into the file.
    sandbox.put(&["true"]);
    let running = sandbox.start(&["-w", "1"]);
    let puts: Vec<String> =
        (0..5).map(|_| sandbox.ok(&["put", "-q", "nobody", "--", "true"]).trim().to_owned()).collect();
    let both = both(&sandbox);
    both.iter().for_each(|pid| kill(*pid, "KILL"));
    wait_until("both are dead", || both.iter().all(|pid| !alive(*pid)));
    drop(running);
    let wal =
        fs::File::options().write(true).open(sandbox.path("state").join("store.db-wal")).expect("the WAL");
    wal.set_len(wal.metadata().expect("its size").len() / 2).expect("cut");
    let listed = sandbox.run(&["job", "list"]);
    assert!(String::from_utf8_lossy(&listed.stderr).contains("jobs that it had acknowledged"), "{listed:?}");
    let _running = sandbox.start(&["-w", "1"]);
    let said = sandbox.reasons();
    for word in ["state/store.db has lost", "jobs that it had acknowledged", &puts[4], "store.db-loss"] {
        assert!(said.contains(word), "no {word:?} in {said}");
    }
    assert_eq!(sandbox.status()["health"], "degraded");
    let doctor = sandbox.run(&["doctor"]);
    assert!(String::from_utf8_lossy(&doctor.stdout).contains("has lost"), "{doctor:?}");
    assert_works(&sandbox);
    fs::remove_file(sandbox.path("state").join("store.db-loss")).expect("rm");
    sandbox.wait_healthy();
}

#[test]
fn renamed_state_directory_takes_no_put_and_nothing_begins_a_new_store_in_its_place() {
    let sandbox = Sandbox::new(Setting::Plain);
    let mut running = sandbox.start(&["-w", "1"]);
    let jid = sandbox.put(&["true"]);
    assert_completes(&sandbox, &jid);
    let (state, away) = (sandbox.path("state"), sandbox.path("away"));
    fs::rename(&state, &away).expect("mv");
    let gone = ["DIR/state/store.db", "moved or removed", "move the file back"];
    assert_says(&sandbox, &sandbox.run(&["put", "--", "true"]), 69, &gone);
    wait_until("status says it", || sandbox.reasons().contains("moved or removed"));
    assert!(sandbox.stderr().contains("no job can be put or fetched"), "{}", sandbox.stderr());
    kill(both(&sandbox)[1], "KILL");
    let missing = "it is missing, and";
    wait_until("the next supervisor begins no new store", || sandbox.stderr().contains(missing));
    assert!(!state.join("store.db").exists());
    fs::rename(&away, &state).expect("mv back");
    sandbox.wait_healthy();
    assert_eq!(sandbox.state(&jid), "complete");
    assert_works(&sandbox);
    sandbox.ok(&["stop"]);
    assert!(running.wait().success(), "{}", sandbox.stderr());
    fs::rename(&state, &away).expect("mv");
    for command in [&["start", "-w", "1"][..], &["put", "--", "true"], &["job", "list"], &["check"]] {
        assert_says(&sandbox, &sandbox.run(command), 69, &["DIR/state/store.db", missing, "--new-store"]);
        assert!(!state.exists(), "{command:?}");
    }
    let _running = sandbox.start(&["-w", "1", "--new-store"]);
    assert_works(&sandbox);
}

#[test]
fn wal_that_the_disk_does_not_take_into_the_store_is_told_everywhere_until_it_does() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "1"]);
    let store = sandbox.path("state/store.db").display().to_string();
    let supervisor = sandbox.one("tv-supervisor").to_string();
    // Only checkpoints write into this file. Its WAL takes what is put.
    let strace = Command::new("strace")
        .args(["-f", "-o", "/dev/null", "-P", &store, "-e", "inject=pwrite64:error=EIO", "-p", &supervisor])
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut strace) = strace else { return missing("strace") };
    let mut told = String::new();
    BufReader::new(strace.stderr.as_mut().unwrap()).read_line(&mut told).expect("a line");
    assert!(told.contains("attached"), "{told}");
    fs::write(sandbox.work("data"), format!("\"{}\"", "x".repeat(8 << 20))).expect("data");
    sandbox.ok(&["put", "nobody", "Reads", "@data"]);
    let (what, how) = ("the write-ahead log cannot be cut", "store.db: disk I/O error");
    let says = |text: &str| text.split_once(what).is_some_and(|(_, rest)| rest.contains(how));
    // Nobody asks anything of the store: it tries again by itself.
    wait_until("status says it", || says(&sandbox.reasons()));
    assert_eq!(sandbox.status()["broker_trouble"], Value::Null, "jobs are put and run all the same");
    assert_works(&sandbox);
    let told = [sandbox.ok(&["why", "pool", "default"]), http::get(&sandbox, "/readyz"), sandbox.stderr()];
    assert!(told.iter().all(|text| says(text)), "{told:?}");
    let metrics = http::get(&sandbox, "/metrics");
    assert!(metrics.contains(&format!("failing_seconds{{what=\"{what}\"}}")), "{metrics}");
    // It is long by now, and no reader is to blame.
    (0..8).for_each(|_| drop(sandbox.ok(&["put", "nobody", "Reads", "@data"])));
    assert!(says(&sandbox.reasons()) && !sandbox.reasons().contains("fuser"), "{}", sandbox.reasons());
    kill(strace.id() as i32, "TERM");
    strace.wait().expect("strace ends");
    sandbox.wait_healthy();
    assert!(sandbox.stderr().contains(&format!("s: {what}")), "{}", sandbox.stderr());
}

#[test]
fn no_command_changes_the_schema_under_a_living_keeper_of_an_older_program() {
    let sandbox = Sandbox::new(Setting::Root);
    let mut running = sandbox.start(&["-w", "1"]);
    let (keeper, supervisor) = (sandbox.one("taskvisor"), sandbox.one("tv-supervisor"));
    kill(keeper, "STOP");
    kill(supervisor, "KILL");
    let store = rusqlite::Connection::open(sandbox.path("state/store.db")).expect("the store");
    let version =
        || store.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0)).expect("a number");
    let new = version();
    store
        .execute_batch("DROP TRIGGER unbegun_removed; DROP TABLE unbegun; PRAGMA user_version = 8")
        .expect("an older schema");
    for refused in [&["job", "list"][..], &["put", "--", "true"], &["queue", "pause", "default"]] {
        let (code, said) = sandbox.refused(refused);
        assert_eq!(code, 69, "{refused:?}: {said}");
        assert!(said.contains("another version of the supervisor here"), "{said}");
        assert_eq!(version(), 8, "{refused:?}");
    }
    kill(keeper, "CONT");
    sandbox.run(&["stop"]);
    running.wait();
    // Without a keeper the next program to come brings it up to date.
    sandbox.ok(&["job", "list"]);
    assert_eq!(version(), new);
}
