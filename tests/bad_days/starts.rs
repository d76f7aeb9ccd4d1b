//! Starts that are refused, with the setting or file that is wrong.

use super::*;

#[test]
fn start_on_a_full_disk_is_refused_with_the_file_that_did_not_fit() {
    if !is_root() {
        return missing("root");
    }
    let sandbox = Sandbox::new(Setting::Root);
    for (room, file) in [("0", "DIR/state/lock"), ("12k", "DIR/state/store.db")] {
        fs::remove_dir_all(sandbox.path("state")).ok();
        let full = format!(
            "mkdir -m 700 \"$TASKVISOR_STATE_DIR\" && mount -t tmpfs -o size=64k,mode=700 none \"$TASKVISOR_STATE_DIR\" &&
             cd \"$TASKVISOR_STATE_DIR\" && {{ truncate -s {room} room && head -c {room} /dev/zero > room
             head -c 1M /dev/zero > filler 2> /dev/null; rm room; cd /; exec \"$@\"; }}"
        );
        let mut running = sandbox.start_under(&["unshare", "-m", "sh", "-c", &full, "sh"], &["-w", "1"]);
        let status = running.wait();
        let stderr = sandbox.stderr().replace(&sandbox.path("").display().to_string(), "DIR/");
        assert!(stderr.contains(file), "{stderr}");
        assert!(stderr.contains("No space left") || stderr.contains("disk is full"), "{stderr}");
        assert!(matches!(status.code(), Some(69 | 74)), "{status}: {stderr}");
    }
    sandbox.assert_nothing_left();
}

#[test]
fn every_command_refuses_an_unusable_store_and_leaves_it_unchanged() {
    let sandbox = Sandbox::new(Setting::Plain);
    sandbox.put(&["true"]);
    let store = sandbox.path("state").join("store.db");
    let good = fs::read(&store).expect("the store");
    let mut newer = good.clone();
    newer[60..64].copy_from_slice(&99u32.to_be_bytes());
    let mut damaged = good.clone();
    let len = damaged.len();
    damaged[4096..len.min(16384)].fill(0x5a);
    let text =
        b"no database at all, but a text that is longer than a header of one hundred bytes, as it should be"
            .to_vec();
    for (content, why) in [
        (newer, "its schema is 99, this program knows"),
        (damaged, "it is damaged"),
        (text, "not a SQLite file"),
    ] {
        fs::write(&store, &content).expect("a file");
        let found = files(&sandbox);
        assert_says(
            &sandbox,
            &sandbox.run(&["check"]),
            69,
            &["error: cannot open the store DIR/state/store.db", why],
        );
        assert_bad(&sandbox, why);
        assert_eq!(files(&sandbox), found, "nothing is made beside it");
        for args in [&["start", "-w", "1"][..], &["put", "--", "true"]] {
            let output = sandbox.run(args);
            assert_says(&sandbox, &output, 69, &["DIR/state/store.db", why]);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(
                (said.matches(why).count(), said.lines().count()),
                (1, 1),
                "said once, in a line: {said}"
            );
            assert!(!said.contains("***") && !said.contains("\\n"), "{said}");
            assert!(fs::read(&store).expect("the store") == content, "{why}: {args:?} changed it");
        }
    }
    fs::remove_file(&store).expect("rm");
    fs::create_dir(&store).expect("mkdir");
    for args in [&["start", "-w", "1"][..], &["put", "--", "true"], &["check"]] {
        assert_says(&sandbox, &sandbox.run(args), 69, &["DIR/state/store.db", "it is a directory"]);
    }
    assert_bad(&sandbox, "it is a directory");
    fs::remove_dir(&store).expect("still an empty directory");
    sandbox.assert_nothing_left();
}

/// The names of the files in the state directory.
fn files(sandbox: &Sandbox) -> Vec<std::ffi::OsString> {
    let entries = fs::read_dir(sandbox.path("state")).expect("the state directory");
    let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
    names.sort();
    names
}

/// Asserts that the doctor calls the store bad and gives this reason.
#[track_caller]
fn assert_bad(sandbox: &Sandbox, why: &str) {
    let output = sandbox.run(&["doctor", "--json"]);
    let findings: Value = serde_json::from_slice(&output.stdout).expect("findings");
    let store =
        findings["checks"].as_array().and_then(|checks| checks.iter().find(|check| check["name"] == "store"));
    let store = store.expect("what it says of the store");
    assert_eq!((&store["state"], output.status.code()), (&"bad".into(), Some(1)), "{store}");
    assert!(store["found"].as_str().expect("words").contains(why), "{store}");
}

/// No command silently creates an empty store in place of a lost one: each that opens the store reports the loss.
#[test]
fn lost_store_is_recreated_only_on_request() {
    let sandbox = Sandbox::new(Setting::Plain);
    let jid = sandbox.put(&["true"]);
    let store = sandbox.path("state").join("store.db");
    let good = fs::read(&store).expect("the store");
    let commands: [&[&str]; 6] = [
        &["start", "-w", "1"],
        &["put", "--", "true"],
        &["job", "list"],
        &["job", "show", &jid],
        &["queue", "list"],
        &["check"],
    ];
    // Cut to a header without a table, cut to nothing, and moved away.
    let header = {
        let blank = sandbox.path("blank.db");
        let other = rusqlite::Connection::open(&blank).expect("a file");
        other.execute_batch("PRAGMA journal_mode = WAL").expect("a header");
        drop(other);
        fs::read(&blank).expect("the header")
    };
    let away = sandbox.path("away");
    for (content, why) in
        [(Some(header), "no tables"), (Some(vec![]), "it is empty"), (None, "it is missing")]
    {
        match &content {
            Some(content) => fs::write(&store, content).expect("a file"),
            None => fs::rename(&store, &away).expect("mv"),
        }
        for args in commands {
            let words = ["DIR/state/store.db", why, "taskvisor start --new-store"];
            assert_says(&sandbox, &sandbox.run(args), 69, &words);
            assert_eq!(fs::read(&store).ok(), content, "{args:?} changed it");
        }
        assert_bad(&sandbox, why);
    }
    // The file moved back holds all jobs.
    fs::rename(&away, &store).expect("mv");
    fs::write(&store, &good).expect("the store");
    assert_eq!(sandbox.state(&jid), "waiting");
    let kept = sandbox.run(&["start", "-w", "1", "--new-store"]);
    assert_says(&sandbox, &kept, 69, &["DIR/state/store.db holds one already", "leave --new-store away"]);
    assert_eq!(sandbox.state(&jid), "waiting");
    fs::write(&store, "").expect("a file");
    let mut running = sandbox.start(&["-w", "1", "--new-store"]);
    let new = sandbox.put(&["true"]);
    assert_completes(&sandbox, &new);
    assert_eq!(sandbox.run(&["job", "show", &jid]).status.code(), Some(7), "it is gone");
    // The keeper starts the next supervisor with the same arguments: it opens the store that the first one created.
    kill(sandbox.one("tv-supervisor"), "KILL");
    wait_until("the next one knows the job", || {
        sandbox.run(&["status"]).status.success() && sandbox.state(&new) == "complete"
    });
    sandbox.ok(&["stop"]);
    running.wait();
    sandbox.assert_nothing_left();
}

#[test]
fn check_accepts_a_store_in_use_and_leaves_no_files() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "1"]);
    let jid = sandbox.put(&["true"]);
    sandbox.ok(&["job", "wait", &jid]);
    assert!(sandbox.path("state/store.db-wal").exists(), "it is in use");
    let found = files(&sandbox);
    assert_eq!(sandbox.ok(&["check"]), "fine\n");
    assert_eq!(files(&sandbox), found);
}

#[test]
fn start_failure_is_reported_once_in_the_log_and_once_on_stderr() {
    let sandbox = Sandbox::new(Setting::Plain);
    let state = sandbox.path("state");
    sandbox.put(&["true"]);
    fs::write(state.join("store.db"), [0x5a; 5000]).expect("a file");
    let yaml = "log: {dir: ../state/log}\npools: [{name: a}]\n";
    fs::write(sandbox.work("logged.yaml"), yaml).expect("a file");
    let why = "file is not a database";
    let logged = sandbox.run(&["start", "-c", "logged.yaml"]);
    assert_says(&sandbox, &logged, 69, &["error: cannot open the store DIR/state/store.db", why]);
    let log = fs::read_to_string(state.join("log/taskvisor.log")).expect("the log");
    assert!(
        log.contains("the supervisor ends: cannot open the store") && log.matches(why).count() == 1,
        "{log}"
    );

    let json = sandbox.run(&["start", "--log-format", "json"]);
    let entry: serde_json::Value = serde_json::from_slice(&json.stderr).expect("one entry, and nothing else");
    let message = entry["message"].as_str().expect("a message");
    assert!(
        message.starts_with("the supervisor ends: cannot open the store") && message.contains(why),
        "{entry}"
    );
    assert_eq!((json.status.code(), &entry["level"]), (Some(69), &"ERROR".into()));
}

#[test]
fn impossible_start_is_refused_with_the_setting_or_file_that_is_wrong() {
    let sandbox = Sandbox::new(Setting::Plain);
    assert_says(&sandbox, &sandbox.run(&["start", "-w", "0"]), 2, &["-w", "0 is not in 1.."]);
    assert_says(&sandbox, &sandbox.run(&["start", "-w", "70000"]), 2, &["-w", "70000 is not in 1..=65535"]);
    assert_says(&sandbox, &sandbox.run(&["start", "--wrokers", "2"]), 2, &["--wrokers", "--workers"]);
    let words = ["a lease of 5s is too short for a grace of 10s"];
    assert_says(&sandbox, &sandbox.run(&["start", "--lease", "5s", "--grace", "10s"]), 78, &words);
    fs::write(sandbox.work("wrong.yaml"), "pools:\n  - nmae: a\n").expect("a file");
    let words = ["wrong.yaml:2:5: unknown setting 'nmae'", "did you mean 'name'?"];
    assert_says(&sandbox, &sandbox.run(&["start", "-c", "wrong.yaml"]), 78, &words);

    let secret = sandbox.work("secret.yaml");
    fs::write(&secret, "lease: 1m\n").expect("a file");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o000)).expect("chmod");
    let words = ["failed to read secret.yaml", "Permission denied"];
    assert_says(&sandbox, &sandbox.run(&["start", "-c", "secret.yaml"]), 78, &words);

    let closed = sandbox.path("closed");
    fs::create_dir(&closed).expect("mkdir");
    if is_root() {
        chown(&closed, Some(0), Some(0)).expect("chown");
    }
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).expect("chmod");
    let inside = closed.join("state").display().to_string();
    let words = ["DIR/closed/state", "Permission denied"];
    assert_says(&sandbox, &sandbox.run(&["start", "--state-dir", &inside]), 77, &words);
    assert_says(&sandbox, &sandbox.run(&["put", "--state-dir", &inside, "--", "true"]), 77, &words);
    if !is_root() {
        let words = ["DIR/closed", "Permission denied"];
        assert_says(
            &sandbox,
            &sandbox.run(&["start", "--state-dir", &closed.display().to_string()]),
            77,
            &words,
        );
    }

    let long = sandbox.path(&"long".repeat(30)).display().to_string();
    let words = ["longlong/ctl.sock", "107 bytes", "--run-dir"];
    for args in [&["start", "--run-dir", &long][..], &["put", "--run-dir", &long, "--", "true"]] {
        assert_says(&sandbox, &sandbox.run(args), 78, &words);
    }
    assert!(!Path::new(&long).exists(), "nothing was made");
    sandbox.assert_nothing_left();
}

/// A security module may refuse what capabilities allow.
#[test]
fn start_is_refused_where_processes_of_a_pools_user_cannot_be_started_or_ended() {
    if !is_root() {
        return missing("root");
    }
    let sandbox = Sandbox::new(Setting::Root);
    let trace = sandbox.path("trace").display().to_string();
    fs::write(sandbox.work("pool.yaml"), "pools: [{name: a, workers: 1, user: nobody}]").expect("settings");
    for (call, words) in [("setgroups", "refuses to start a process of it"), ("kill", "refuses to end it")] {
        let inject = format!("inject={call}:error=EPERM");
        let strace = ["timeout", "-s", "KILL", "60", "strace", "-f", "-o", &trace, "-e", &inject];
        let status = sandbox.start_under(&strace, &["-c", "pool.yaml"]).wait();
        let said = sandbox.stderr();
        if said.contains("PTRACE") {
            return missing("ptrace");
        }
        assert_eq!(status.code(), Some(77), "{said}");
        assert!(said.contains("pool 'a' cannot run as user 'nobody' here") && said.contains(words), "{said}");
    }
    sandbox.assert_nothing_left();
}

#[test]
fn one_directory_for_run_and_state_is_refused_and_named() {
    let sandbox = Sandbox::new(Setting::Plain);
    let (both, link) = (sandbox.path("both"), sandbox.path("link"));
    std::fs::create_dir(&both).expect("a directory");
    std::os::unix::fs::symlink(&both, &link).expect("a link");
    let words = ["run_dir and state_dir are the same directory, DIR/both", "--run-dir DIR, --state-dir DIR"];
    let (both, link) = (both.display().to_string(), link.display().to_string());
    for command in ["start", "check"] {
        let refused = sandbox.run(&[command, "--state-dir", &both, "--run-dir", &link]);
        assert_says(&sandbox, &refused, 78, &words);
    }
}

#[test]
fn start_refused_for_a_directory_in_use_creates_no_other_directory() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "1"]);
    for (variable, in_use) in [("TASKVISOR_STATE_DIR", "DIR/run"), ("TASKVISOR_RUN_DIR", "DIR/state")] {
        let mut start = sandbox.command(&["start", "-w", "1"]);
        let refused = start.env(variable, sandbox.path("other")).output().expect("start");
        assert_says(&sandbox, &refused, 69, &[&format!("a supervisor uses {in_use} already")]);
        assert!(!sandbox.path("other").exists(), "{variable}: it left a directory");
    }
    assert_works(&sandbox);
}
