//! Processes that take long to die: their job keeps its lease until they are proven dead, also after a cancel and after
//! the death of the supervisor.

use super::*;

/// Short enough to see several renewals.
const SETTINGS: [&str; 6] = ["-w", "2", "--lease", "6s", "--grace", "200ms"];

/// Puts a program that leaves a child process behind when it ends; returns the job and the pid of the child.
fn put_with_a_child(sandbox: &Sandbox) -> (String, i32) {
    let line =
        "setsid sleep 1000 & echo $! > child.new; mv child.new child; while [ ! -e go ]; do sleep 0.02; done";
    let jid = sandbox.put(&["sh", "-c", &format!("echo run >> runs; {line}")]);
    (jid, pid_in(sandbox, "child"))
}

fn pid_in(sandbox: &Sandbox, file: &str) -> i32 {
    let mut pid = 0;
    wait_until("the job runs", || {
        pid =
            fs::read_to_string(sandbox.work(file)).ok().and_then(|pid| pid.trim().parse().ok()).unwrap_or(0);
        pid > 0
    });
    pid
}

fn is_unkillable(status: &Value) -> bool {
    slots(status).iter().any(|slot| slot["state"] == "unkillable")
}

fn wait_unkillable(sandbox: &Sandbox) {
    wait_until("it is called unkillable", || is_unkillable(&sandbox.status()));
}

/// Asserts that the job is renewed for longer than its lease and that no other worker gets it.
fn assert_is_held(sandbox: &Sandbox, jid: &str, state: &str) {
    let renewals = |job: &Value| job["renewals"].as_u64().unwrap_or(0);
    let before = renewals(&sandbox.job(jid));
    wait_until("its lease is renewed for longer than it lasts", || {
        let job = sandbox.job(jid);
        assert_eq!(job["state"], state, "{job}");
        renewals(&job) >= before + 4
    });
}

fn runs(sandbox: &Sandbox) -> usize {
    fs::read_to_string(sandbox.work("runs")).expect("runs").lines().count()
}

#[test]
fn finished_program_is_complete_once_its_slow_orphans_are_dead() {
    let sandbox = Sandbox::new(Setting::Root);
    let mut running = sandbox.start(&SETTINGS);
    let (jid, child) = put_with_a_child(&sandbox);
    let Some(frozen) = Freezer::around(child) else { return missing("freezer") };
    go(&sandbox);
    wait_unkillable(&sandbox);
    assert_is_held(&sandbox, &jid, "running");
    frozen.thaw();
    assert_completes(&sandbox, &jid);
    assert_eq!(runs(&sandbox), 1);
    sandbox.ok(&["stop"]);
    assert!(running.wait().success(), "{}", sandbox.stderr());
    sandbox.assert_nothing_left();
}

#[test]
fn canceled_job_is_settled_only_when_its_last_process_is_dead() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&SETTINGS);
    let (jid, child) = put_with_a_child(&sandbox);
    let Some(frozen) = Freezer::around(child) else { return missing("freezer") };
    let begin = |words: &[&str], notes: &str| {
        let notes = fs::File::create(sandbox.work(notes)).expect("a file");
        sandbox.command(words).stderr(notes).spawn().expect("a command")
    };
    // It looks after a second, and finds a job that runs.
    let mut wait = begin(&["job", "wait", &jid], "wait");
    stays(Duration::from_secs(2), "the job runs", || sandbox.state(&jid) == "running");
    let mut cancel = begin(&["job", "cancel", "--wait", &jid], "cancel");
    wait_unkillable(&sandbox);
    let note = format!("note: job {jid} has not ended: Something of it has not died for ");
    for notes in ["cancel", "wait"] {
        wait_until(&format!("the command {notes} says so"), || {
            fs::read_to_string(sandbox.work(notes)).is_ok_and(|said| said.contains(&note))
        });
    }
    assert_is_held(&sandbox, &jid, "canceling");
    assert!(alive(child));
    frozen.thaw();
    assert!(cancel.wait().expect("its end").success());
    assert_eq!(wait.wait().expect("its end").code(), Some(1));
    assert_eq!(sandbox.state(&jid), "canceled");
    sandbox.ok(&["stop"]);
    sandbox.assert_nothing_left();
}

#[test]
fn next_supervisor_keeps_the_lease_of_a_job_with_living_processes() {
    let sandbox = Sandbox::new(Setting::RootCgroup);
    let _running = sandbox.start(&SETTINGS);
    let (jid, child) = put_with_a_child(&sandbox);
    let Some(frozen) = Freezer::around(child) else { return missing("freezer") };
    let supervisor = sandbox.one("tv-supervisor");
    kill(supervisor, "KILL");
    wait_within(Duration::from_secs(30), "the next supervisor shows it", || {
        sandbox.run(&["status", "--json"]).status.code() != Some(69) && is_unkillable(&sandbox.status())
    });
    assert_ne!(sandbox.one("tv-supervisor"), supervisor);
    let status = sandbox.status();
    let slot = slots(&status).into_iter().find(|slot| slot["state"] == "unkillable").expect("a slot");
    assert_eq!(slot["jobs"][0]["id"], jid.as_str(), "{status}");
    assert!(slot["why"].as_str().is_some_and(|why| why.contains(&child.to_string())), "{status}");
    let page = sandbox.ok(&["job", "show", &jid]);
    let line = page.lines().find(|line| line.starts_with("unkillable "));
    assert!(line.is_some_and(|line| line.contains(&format!("process {child} "))), "{page}");
    let shown: Value = serde_json::from_str(&sandbox.ok(&["job", "show", &jid, "--json"])).unwrap();
    let unkillable = &shown["unkillable"];
    assert!(
        unkillable["why"].as_str().is_some_and(|why| why.contains(&format!("process {child} "))),
        "{shown}"
    );
    assert!(unkillable["seconds"].as_f64().is_some_and(|seconds| seconds >= 0.0), "{shown}");
    assert_works(&sandbox);
    assert_is_held(&sandbox, &jid, "running");
    assert_eq!(runs(&sandbox), 1);
    // And the one after that.
    kill(sandbox.one("tv-supervisor"), "KILL");
    wait_within(Duration::from_secs(30), "the one after it shows it", || {
        sandbox.run(&["status", "--json"]).status.code() != Some(69) && is_unkillable(&sandbox.status())
    });
    assert_is_held(&sandbox, &jid, "running");
    assert_eq!(runs(&sandbox), 1);
    frozen.thaw();
    wait_until("it runs again once that is dead", || runs(&sandbox) == 2);
    assert!(!alive(child));
    let job = sandbox.job(&jid);
    assert_eq!((job["attempt"].as_u64(), job["interruptions"].as_u64()), (Some(1), Some(1)), "{job}");
    go(&sandbox);
    sandbox.ok(&["job", "wait", &jid, "--timeout", "20s"]);
    sandbox.wait_healthy();
    sandbox.ok(&["stop"]);
    sandbox.assert_nothing_left();
}

#[test]
fn finished_program_is_complete_though_the_supervisor_died_before_its_orphans() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&SETTINGS);
    let (jid, child) = put_with_a_child(&sandbox);
    let Some(frozen) = Freezer::around(child) else { return missing("freezer") };
    go(&sandbox);
    wait_unkillable(&sandbox);
    let supervisor = sandbox.one("tv-supervisor");
    kill(supervisor, "KILL");
    wait_within(Duration::from_secs(30), "the next supervisor shows it", || {
        sandbox.run(&["status", "--json"]).status.code() != Some(69) && is_unkillable(&sandbox.status())
    });
    frozen.thaw();
    assert_completes(&sandbox, &jid);
    assert_eq!(runs(&sandbox), 1);
    sandbox.ok(&["stop"]);
    sandbox.assert_nothing_left();
}

/// What `docker exec` leaves is adopted by process 1, the keeper.
#[test]
fn process_that_entered_the_container_is_spared_and_counted_to_no_job() {
    if !is_root() {
        return missing("root");
    }
    let sandbox = Sandbox::new(Setting::Pid1);
    let _running = sandbox.start(&["-w", "1"]);
    let keeper = sandbox.one("taskvisor").to_string();
    let leaves = "setsid sleep 4321 > /dev/null 2>&1 &";
    let enter = ["--target", &keeper, "--pid", "--mount", "setsid", "sh", "-c", leaves];
    assert!(Command::new("nsenter").args(enter).status().expect("nsenter").success());
    let is_it =
        |pid: &i32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == b"sleep\x004321\0");
    let mut left = 0;
    wait_until("it is left", || {
        left = sandbox::pids().find(is_it).unwrap_or(0);
        left != 0
    });
    for _ in 0..3 {
        let jid = sandbox.put(&["true"]);
        assert_completes(&sandbox, &jid);
        assert!(!sandbox.ok(&["job", "show", &jid]).contains("left behind"));
    }
    assert!(alive(left), "{}", sandbox.stderr());
}
