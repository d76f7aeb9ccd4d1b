//! The life of a pool with real processes, in every setting: it runs jobs, stops in stages, and leaves nothing.

#[path = "support/python.rs"]
mod python;
#[path = "support/sandbox.rs"]
mod sandbox;

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use sandbox::{SETTINGS, Sandbox, Setting, in_all_settings, is_up, mode, wait_until};

#[test]
fn jobs_put_before_and_after_the_start_run_and_nothing_is_left_after_stop() {
    in_all_settings(|sandbox| {
        let early = sandbox.put(&["sh", "-c", "echo early; umask; pwd"]);
        let mut running = sandbox.start(&["-w", "4"]);
        let late = sandbox.put(&["sh", "-c", "echo late >&2; exit 3"]);
        sandbox.ok(&["job", "wait", &early, "--timeout", "20s"]);
        let waited = sandbox.run(&["job", "wait", &late, "--timeout", "20s"]);
        assert_eq!(waited.status.code(), Some(1), "a failed job makes wait say 1");
        let log = sandbox.ok(&["job", "logs", &early]);
        assert!(log.starts_with("early\n") && log.trim_end().ends_with("/work"), "{log}");
        let failed = sandbox.job(&late);
        assert_eq!(failed["state"], "failed");
        assert_eq!(failed["failure"]["group"], "exit 3");
        assert_eq!(failed["failure"]["message"], "late");
        assert_eq!(mode(&sandbox.path("state")), 0o700);
        assert_eq!(mode(&sandbox.path("run")), 0o700);
        sandbox.ok(&["stop"]);
        assert!(running.wait().success(), "{}", sandbox.stderr());
        sandbox.assert_nothing_left();
    });
}

#[test]
fn no_two_lives_of_a_slot_have_the_same_number_also_after_kills_of_the_supervisor() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "2"]);
    let mut lives = std::collections::BTreeSet::new();
    for round in 0..3 {
        let jobs: Vec<String> = (0..6).map(|_| sandbox.put(&["true"])).collect();
        for job in jobs {
            sandbox.run(&["job", "wait", &job, "--timeout", "20s"]);
            let worker = sandbox.job(&job)["forensics"]["worker"].to_string();
            assert!(lives.insert(worker.clone()), "{worker} comes again in round {round}");
        }
        sandbox::kill(sandbox.one("tv-supervisor"), "KILL");
        wait_until("the next supervisor is up", || {
            let status = sandbox.status();
            status["supervisor_restarts"] == round + 1 && is_up(&status)
        });
    }
    assert_eq!(lives.len(), 18);
}

#[test]
fn term_once_or_many_times_lets_the_running_job_end() {
    in_all_settings(|sandbox| {
        let mut running = sandbox.start(&["-w", "2"]);
        let jid =
            sandbox.put(&["sh", "-c", "touch begun; while [ ! -e go ]; do sleep 0.02; done; echo done"]);
        wait_until("the job runs", || sandbox.work("begun").exists());
        for _ in 0..5 {
            running.signal("TERM");
        }
        wait_until("the stop is known", || sandbox.json(&["status", "--json"])["stopping"] == "drain");
        std::fs::write(sandbox.work("go"), "").expect("go");
        assert!(running.wait().success(), "{}", sandbox.stderr());
        assert_eq!(sandbox.state(&jid), "complete");
        sandbox.assert_nothing_left();
    });
}

#[test]
fn second_interrupt_ends_the_job_and_requeues_it_unspent() {
    in_all_settings(|sandbox| {
        let mut running = sandbox.start(&["-w", "1"]);
        let jid = sandbox.put(&["sh", "-c", "touch begun; exec sleep 1000"]);
        wait_until("the job runs", || sandbox.work("begun").exists());
        running.signal("INT");
        wait_until("it drains", || sandbox.json(&["status", "--json"])["stopping"] == "drain");
        running.signal("INT");
        assert!(running.wait().success(), "{}", sandbox.stderr());
        let job = sandbox.job(&jid);
        assert_eq!((job["state"].as_str(), job["attempt"].as_u64()), (Some("waiting"), Some(0)), "{job}");
        assert_eq!(job["interruptions"], 0);
        sandbox.assert_nothing_left();
    });
}

#[test]
fn a_job_that_ignores_term_is_killed_at_the_end_of_its_grace() {
    in_all_settings(|sandbox| {
        let mut running = sandbox.start(&["-w", "1", "--grace", "200ms"]);
        let jid = sandbox.put(&["sh", "-c", "trap '' TERM; touch begun; while :; do sleep 0.05; done"]);
        wait_until("the job runs", || sandbox.work("begun").exists());
        sandbox.ok(&["job", "cancel", "--wait", &jid]);
        assert_eq!(sandbox.state(&jid), "canceled");
        assert!(sandbox.job_processes().is_empty(), "{:?}", sandbox.job_processes());
        running.signal("QUIT");
        assert!(running.wait().success(), "{}", sandbox.stderr());
        sandbox.assert_nothing_left();
    });
}

/// The time from TERM to the end, while each slot has a job that takes no time and thousands wait.
fn stop_of_busy(put: &[&str], start: impl Fn(&Sandbox) -> sandbox::Running<'_>) -> Duration {
    const JOBS: u64 = 20_000;
    let sandbox = Sandbox::new(Setting::Plain);
    let mut jobs = sandbox.command(&[&["put", "--lines"], put].concat());
    let mut jobs = jobs.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("put");
    let lines: String = (0..JOBS).map(|n| format!("{n}\n")).collect();
    jobs.stdin.take().expect("stdin").write_all(lines.as_bytes()).expect("lines");
    assert!(jobs.wait().expect("put").success());
    let mut running = start(&sandbox);
    let waiting = || sandbox.json(&["queue", "list", "--json"])["default"]["jobs"]["waiting"].as_u64();
    wait_until("it is busy", || waiting().is_some_and(|waiting| waiting < JOBS - 100));
    let ordered = Instant::now();
    running.signal("TERM");
    assert!(running.wait().success(), "{}", sandbox.stderr());
    let took = ordered.elapsed();
    assert!(waiting().is_some_and(|waiting| waiting > 0), "it was not busy");
    sandbox.assert_nothing_left();
    took
}

#[test]
fn stop_of_a_busy_pool_whose_jobs_take_no_time_takes_less_than_0_3_s() {
    let most = Duration::from_millis(300);
    // Others use the machine meanwhile, so one of a few counts.
    let in_time = |stop: &dyn Fn() -> Duration| {
        let mut took = Vec::new();
        while took.last().is_none_or(|took| *took >= most) {
            assert!(took.len() < 9, "{took:?}");
            took.push(stop());
        }
    };
    in_time(&|| stop_of_busy(&["--", "true"], |sandbox| sandbox.start(&["-w", "8"])));
    in_time(&|| {
        stop_of_busy(&["default", "echo"], |sandbox| python::start(sandbox, "prefork", "app", &["-w", "2"]))
    });
}

#[test]
fn process_tree_is_keeper_supervisor_and_spawner_and_idle_slots_have_no_process() {
    let sandbox = Sandbox::new(SETTINGS[usize::from(!sandbox::is_root()) * 2]);
    let running = sandbox.start(&["-w", "8"]);
    let comms = |name: &str| sandbox.processes().iter().filter(|seen| seen.comm == name).count();
    wait_until("all have their names", || {
        (comms("taskvisor"), comms("tv-supervisor"), comms("tv-spawner"), comms("tv-parked")) == (1, 1, 1, 0)
    });
    drop(running);
    sandbox.assert_nothing_left();
}

#[test]
fn second_start_on_the_same_run_dir_is_refused_and_names_it() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "1"]);
    let second = sandbox.run(&["start", "-w", "1"]);
    let stderr = String::from_utf8_lossy(&second.stderr);
    assert!(!second.status.success());
    assert!(stderr.contains(&sandbox.path("run").display().to_string()), "{stderr}");
}

#[test]
fn start_is_refused_when_nothing_can_prove_the_death_of_jobs() {
    let sandbox = Sandbox::new(Setting::Plain);
    let mut start = sandbox.command(&["start", "-w", "1"]);
    let output = start.env("TASKVISOR_WITHOUT", "cgroup,subreaper").output().expect("taskvisor runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(78), "{said}");
    assert!(said.contains("nothing proves that a job's processes have ended"), "{said}");
    sandbox.assert_nothing_left();
}

#[test]
fn burst_ends_when_the_queue_is_empty() {
    in_all_settings(|sandbox| {
        let jids: Vec<String> =
            (0..20).map(|n| sandbox.put(&["sh", "-c", &format!("touch ran{n}")])).collect();
        let mut running = sandbox.start_raw(&["-w", "3", "--burst"]);
        assert!(running.wait().success(), "{}", sandbox.stderr());
        assert!(jids.iter().all(|jid| sandbox.state(jid) == "complete"));
        assert!((0..20).all(|n| sandbox.work(&format!("ran{n}")).exists()));
        sandbox.assert_nothing_left();
    });
}

/// Asserts that a burst ends with this code and these words though jobs are left.
#[track_caller]
fn assert_burst_gives_up(args: &[&str], put: &[&str], code: i32, words: &[&str]) {
    let sandbox = Sandbox::new(Setting::Plain);
    if !put.is_empty() {
        sandbox.ok(put);
    }
    let mut running = sandbox.start_raw(&[&["--burst"], args].concat());
    let status = running.wait();
    let said = sandbox.stderr();
    assert_eq!(status.code(), Some(code), "{said}");
    for word in words.iter().chain(&["the burst ends with jobs left"]) {
        assert!(said.contains(word), "no {word:?} in {said}");
    }
    sandbox.assert_nothing_left();
}

#[test]
fn burst_that_cannot_finish_ends_with_the_reason() {
    let job: &[&str] = &["put", "default", "Nobody", "1"];
    assert_burst_gives_up(&["-w", "2", "--", "false"], job, 1, &["pool default: 5 workers died"]);
    // No server listens there.
    let nowhere = ["-b", "redis://127.0.0.1:1", "-w", "1"];
    assert_burst_gives_up(&nowhere, &[], 69, &["127.0.0.1:1"]);
    let unknown = ["1 of classes that no worker knows, such as 'Nobody'"];
    assert_burst_gives_up(&["-w", "1"], job, 1, &unknown);
}

#[test]
fn burst_does_not_wait_for_dependents_of_a_failed_job() {
    let sandbox = Sandbox::new(Setting::Plain);
    let failed = sandbox.put(&["false"]);
    let after = sandbox.ok(&["put", "--depends", &failed, "--", "true"]);
    let mut running = sandbox.start_raw(&["-w", "1", "--burst"]);
    assert_eq!(running.wait().code(), Some(1), "{}", sandbox.stderr());
    assert!(
        sandbox.stderr().contains("1 that depend on jobs which are not complete"),
        "{}",
        sandbox.stderr()
    );
    assert_eq!(sandbox.state(after.trim()), "depends");
}

#[test]
fn put_lines_makes_jobs_from_names_with_any_byte() {
    let sandbox = Sandbox::new(Setting::Plain);
    let odd = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"odd \xff\nname");
    std::fs::write(sandbox.work("plain"), "").expect("a file");
    std::fs::write(sandbox.path("work").join(odd), "").expect("a file");
    let mut put = sandbox.command(&["put", "--lines", "-0", "--", "mv", "{}", "{}.moved"]);
    let mut put = put.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("put");
    let input = put.stdin.take().expect("stdin");
    std::io::Write::write_all(&mut { input }, b"plain\0odd \xff\nname\0").expect("names");
    let output = put.wait_with_output().expect("put");
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 2);
    let mut running = sandbox.start_raw(&["-w", "2", "--burst"]);
    assert!(running.wait().success());
    let mut moved = odd.to_owned();
    moved.push(".moved");
    assert!(sandbox.work("plain.moved").exists() && sandbox.path("work").join(moved).exists());
}

#[test]
fn put_lines_continues_in_the_store_when_the_supervisor_stops() {
    use std::io::{BufRead, Write};
    let sandbox = Sandbox::new(Setting::Plain);
    let mut running = sandbox.start(&["-w", "1"]);
    let mut put = sandbox.command(&["put", "--lines", "--", "true"]);
    let mut put = put.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("put");
    let mut lines = put.stdin.take().expect("stdin");
    let mut ids = std::io::BufReader::new(put.stdout.take().expect("stdout")).lines();
    writeln!(lines, "with a supervisor").expect("a line");
    let first = ids.next().expect("an id").expect("text");
    sandbox.ok(&["job", "wait", &first, "--timeout", "20s"]);
    sandbox.ok(&["stop"]);
    assert!(running.wait().success(), "{}", sandbox.stderr());
    writeln!(lines, "without one").expect("a line");
    let second = ids.next().expect("an id").expect("text");
    drop(lines);
    assert!(put.wait().expect("put").success());
    assert_eq!(sandbox.state(&second), "waiting");
    assert_eq!(sandbox.ok(&["job", "list", "--json"]).lines().count(), 2);
}

/// Runs the command on a terminal of its own, which is closed once the file `close` exists.
const ON_A_TERMINAL: &str = "import os, pty, sys, time
pid, terminal = pty.fork()
if pid == 0: os.execvp(sys.argv[1], sys.argv[1:])
os.set_blocking(terminal, False)
while not os.path.exists('close'):
    time.sleep(0.02)
    try: os.read(terminal, 65536)
    except OSError: pass
os.close(terminal)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))";

#[test]
fn closed_terminal_stops_a_start_in_it() {
    let sandbox = Sandbox::new(Setting::Plain);
    let mut running = sandbox.start_under(&["python3", "-c", ON_A_TERMINAL], &["-w", "1"]);
    wait_until("it is up", || is_up(&sandbox.status()));
    std::fs::write(sandbox.work("close"), "").expect("a file");
    assert!(running.wait().success());
    sandbox.assert_nothing_left();
}

#[test]
fn signal_to_the_supervisor_itself_is_answered_in_the_log_with_who_takes_it() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "1"]);
    sandbox::kill(sandbox.one("tv-supervisor"), "TERM");
    let keeper = sandbox.status()["keeper"]["pid"].clone();
    let words = format!(
        "SIGTERM to the supervisor does nothing: send it to the keeper, pid {keeper} (or: taskvisor stop)"
    );
    wait_until("it is said", || sandbox.stderr().contains(&words));
}
