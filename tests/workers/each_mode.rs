//! How jobs run, end and die in each mode, and the effect on other jobs.

use super::*;

/// The exception that interrupts a job in this mode.
fn hit_by(mode: &str, error: &str) -> String {
    if mode == "coroutine" { "CancelledError".into() } else { error.into() }
}

/// Makes a test of each check for each mode.
macro_rules! in_each_mode {
    ($($story:ident: $check:ident),* $(,)?) => {
        mod prefork { $( #[test] fn $story() { super::$check("prefork"); } )* }
        mod fork { $( #[test] fn $story() { super::$check("fork"); } )* }
        mod coroutine { $( #[test] fn $story() { super::$check("coroutine"); } )* }
    };
}

in_each_mode! {
    a_canceled_job_is_interrupted: check_cancel,
    a_job_sees_its_time_limit: check_time_limit,
    picture_of_a_job_has_the_stacks_of_its_threads_and_leaves_it_alone: check_picture,
    a_job_that_kills_its_worker_has_crashed: check_crashes,
    foreign_term_to_a_worker_spends_no_attempt: check_foreign_term,
    stop_waits_for_the_job_and_stop_now_interrupts_it: check_stop,
    killed_supervisor_or_keeper_leaves_no_process_and_jobs_run_again: check_killed,
}

fn check_outcomes(mode: &str) {
    let sandbox = python::new();
    let _running = start(&sandbox, mode, "app", &["-w", "2"]);
    let failed = run(&sandbox, "raises", "\"value\"");
    assert_eq!(failed["state"], "failed", "{failed}");
    assert_eq!(
        (&failed["failure"]["group"], &failed["failure"]["message"]),
        (&json!("ValueError"), &json!("no such value"))
    );
    assert!(failed["failure"]["trace"].as_str().unwrap().contains("in raises"), "{failed}");
    let retried = run(&sandbox, "raises", "\"retry\"");
    assert_eq!((result(&retried), counts(&retried)), (json!(2), [2, 0, 0]), "{retried}");
    let snoozed = run(&sandbox, "raises", "\"snooze\"");
    assert_eq!((result(&snoozed), counts(&snoozed)), (json!(1), [1, 0, 0]), "{snoozed}");
    let jid = sandbox.ok(&["put", "--retries", "5", "default", "raises", "\"fail\""]);
    let gone = ended(&sandbox, jid.trim());
    assert_eq!((&gone["state"], &gone["failure"]["group"]), (&json!("failed"), &json!("Fail")), "{gone}");
    assert_eq!(counts(&gone), [1, 0, 0]);
    let depth = 5000;
    let deep = run(&sandbox, "raises", &format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
    let failure = &deep["failure"];
    assert_eq!(
        (&deep["state"], &failure["group"]),
        (&json!("failed"), &json!("RecursionError")),
        "{failure}"
    );
    let puts = run(&sandbox, "puts", "null");
    let child = ended(&sandbox, result(&puts).as_str().unwrap());
    assert_eq!((&child["state"], &child["class"]), (&json!("complete"), &json!("look")), "{child}");
}

#[test]
fn exceptions_decide_the_outcome_in_a_prefork_worker() {
    check_outcomes("prefork");
}

#[test]
fn exceptions_decide_the_outcome_in_a_fork_worker() {
    check_outcomes("fork");
}

#[test]
fn exceptions_decide_the_outcome_in_a_coroutine_worker() {
    check_outcomes("coroutine");
}

fn check_cancel(mode: &str) {
    let sandbox = python::new();
    let _running = start(&sandbox, mode, "app", &["-w", "1"]);
    let jid = put(&sandbox, hold(mode), "\"a\"");
    word(&sandbox, "begun-a");
    sandbox.ok(&["job", "cancel", "--wait", &jid]);
    let job = sandbox.job(&jid);
    assert_eq!((&job["state"], counts(&job)), (&json!("canceled"), [1, 0, 0]), "{job}");
    assert!(word(&sandbox, "hit-a").starts_with(&hit_by(mode, "Interrupted:")));
    let log = sandbox.ok(&["job", "logs", &jid]);
    assert!(log.starts_with("taskvisor.worker: Interrupted") && log.contains("The job was here:"), "{log}");
    assert_eq!(run(&sandbox, "look", "null")["state"], "complete");
}

fn check_time_limit(mode: &str) {
    let sandbox = python::new();
    let _running = start(&sandbox, mode, "app", &["-w", "1", "--time-limit", "300ms"]);
    let job = run(&sandbox, hold(mode), "\"a\"");
    assert_eq!((&job["state"], &job["failure"]["group"]), (&json!("failed"), &json!("time limit")), "{job}");
    assert!(word(&sandbox, "hit-a").starts_with(&hit_by(mode, "TimeLimitExceeded: the time limit of 0.3 s")));
    assert_eq!(sent(&job), if mode == "coroutine" { vec![] } else { vec!["TERM"] }, "{job}");
}

fn check_crashes(mode: &str) {
    let sandbox = python::new();
    let _running = start(&sandbox, mode, "app", &["-w", "1"]);
    for (class, why) in [("leaves", "exit 3"), ("segfault", "signal 11")] {
        let job = run(&sandbox, class, "null");
        assert_eq!((&job["state"], counts(&job)), (&json!("failed"), [1, 1, 0]), "{job}");
        assert!(job["failure"]["message"].as_str().unwrap().contains(why), "{job}");
    }
    assert_eq!(run(&sandbox, "look", "null")["state"], "complete");
}

/// Somebody else ends the worker of a job; then a job does that itself, which must not go on for ever.
fn check_foreign_term(mode: &str) {
    let sandbox = python::new();
    let _running = start(&sandbox, mode, "app", &["-w", "1"]);
    let jid = put(&sandbox, hold(mode), "\"a\"");
    let first = word(&sandbox, "begun-a");
    kill(first.parse().unwrap(), "TERM");
    assert!(word(&sandbox, "hit-a").starts_with(&hit_by(mode, "Interrupted:")));
    wait_until("it runs again", || word(&sandbox, "begun-a") != first);
    touch(&sandbox, "go");
    let job = ended(&sandbox, &jid);
    assert_eq!((&job["state"], counts(&job)), (&json!("complete"), [1, 1, 0]), "{job}");
    let job = run(&sandbox, "terms", "null");
    assert_eq!((&job["state"], &job["failure"]["group"]), (&json!("held"), &json!("interrupted")), "{job}");
    assert_eq!(counts(&job), [1, 3, 0], "{job}");
}

fn check_stop(mode: &str) {
    let sandbox = python::new();
    let mut running = start(&sandbox, mode, "app", &["-w", "1"]);
    let jid = put(&sandbox, hold(mode), "\"a\"");
    word(&sandbox, "begun-a");
    assert_eq!(sandbox.run(&["stop", "--timeout", "300ms"]).status.code(), Some(124), "it waits for the job");
    assert!(!sandbox.work("hit-a").exists());
    touch(&sandbox, "go");
    assert!(running.wait().success());
    let job = sandbox.job(&jid);
    assert_eq!((&job["state"], counts(&job)), (&json!("complete"), [1, 0, 0]), "{job}");

    fs::remove_file(sandbox.work("go")).unwrap();
    let mut running = start(&sandbox, mode, "app", &["-w", "1"]);
    let jid = put(&sandbox, hold(mode), "\"b\"");
    word(&sandbox, "begun-b");
    sandbox.ok(&["stop", "--now"]);
    assert!(running.wait().success());
    assert!(word(&sandbox, "hit-b").starts_with(&hit_by(mode, "Interrupted:")));
    let job = sandbox.job(&jid);
    assert_eq!((&job["state"], &job["interruptions"]), (&json!("waiting"), &json!(0)), "{job}");
    sandbox.assert_nothing_left();
    let log = sandbox.stderr();
    assert!(!log.contains("Traceback") && !log.contains("Exception ignored"), "{log}");
}

/// Kills first the supervisor and then the keeper during jobs: no process survives, jobs run again.
fn check_killed(mode: &str) {
    let sandbox = python::new();
    let runs_again = |jid: &str, times: u64| {
        wait_until("it runs again", || {
            let output = sandbox.run(&["job", "show", jid, "--json"]);
            let job: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            job["state"] == "running" && job["interruptions"] == times && sandbox.work("begun-a").exists()
        });
    };
    let worker = || word(&sandbox, "begun-a").parse::<i32>().unwrap();
    let mut running = start(&sandbox, mode, "app", &["-w", "1"]);
    let jid = put(&sandbox, hold(mode), "\"a\"");
    let old = worker();
    fs::remove_file(sandbox.work("begun-a")).unwrap();
    kill(sandbox.one("tv-supervisor"), "KILL");
    wait_until("the old worker is dead", || !alive(old));
    runs_again(&jid, 1);
    kill(running.child.id() as i32, "KILL");
    running.wait();
    sandbox.assert_nothing_left();
    assert!(!alive(worker()));
    fs::remove_file(sandbox.work("begun-a")).unwrap();
    let _running = start(&sandbox, mode, "app", &["-w", "1"]);
    runs_again(&jid, 2);
    touch(&sandbox, "go");
    let job = ended(&sandbox, &jid);
    assert_eq!((&job["state"], counts(&job)), (&json!("complete"), [1, 0, 2]), "{job}");
}

/// The settings of a class win over those of the pool.
fn check_class_settings(mode: &str) {
    let sandbox = python::new();
    let _running = start(&sandbox, mode, "app", &["-w", "1", "--time-limit", "60s"]);
    let job = run(&sandbox, "limited", "null");
    assert_eq!((&job["state"], &job["failure"]["group"]), (&json!("failed"), &json!("time limit")), "{job}");
    assert_eq!((counts(&job), word(&sandbox, "limits").as_str()), ([2, 0, 0], "0.3 0.3 "), "{job}");
}

#[test]
fn the_settings_of_a_class_win_over_those_of_the_pool() {
    check_class_settings("prefork");
    check_class_settings("fork");
}

#[test]
fn a_job_knows_how_long_it_has_once_it_is_told_to_end() {
    for mode in ["prefork", "fork", "coroutine"] {
        for (grace, deadline, told) in [("7s", "25s", 7.0), ("7s", "3s", 3.0)] {
            let sandbox = python::new();
            let times = ["-w", "1", "--grace", grace, "--stop-deadline", deadline];
            let _running = start(&sandbox, mode, "app", &times);
            assert_eq!(result(&run(&sandbox, "look", "null"))["grace"], told, "{mode}");
        }
    }
}

/// Workers are recycled as planned: no restart is counted, no job is affected. The only worker goes on until the next
/// one is ready.
fn check_max_jobs(mode: &str, options: &[&str]) {
    let sandbox = python::new();
    let _running = start(&sandbox, mode, "app", &[&["-w", "1", "--max-jobs", "5"], options].concat());
    let (mut pids, mut jobs) = (HashSet::new(), 0);
    wait_until("the fourth worker has had a job", || {
        let job = run(&sandbox, "look", "null");
        assert_eq!(counts(&job), [1, 0, 0], "{job}");
        pids.insert(result(&job)["pid"].as_i64().unwrap());
        jobs += 1;
        pids.len() == 4
    });
    assert!(jobs > 3 * 5, "{jobs} jobs are too few for four workers");
    assert_eq!(slots(&sandbox)[0]["restarts"], 0);
}

#[test]
fn worker_is_recycled_after_its_jobs_per_life() {
    check_max_jobs("prefork", &[]);
    check_max_jobs("coroutine", &["--concurrency", "3"]);
}

#[test]
fn burst_ends_when_all_jobs_are_done_in_each_mode() {
    for mode in ["prefork", "fork", "coroutine"] {
        let sandbox = python::new();
        let jids = put_lines(&sandbox, "default", "look", &[], &vec!["null".into(); 20]);
        let env = format!("PYTHONPATH={}", python::path());
        let args = ["-m", mode, "-w", "2", "--burst", "--env", &env];
        let command = ["--", "python3", "-m", "taskvisor.worker", "app"];
        let mut running = sandbox.start_raw(&[&args[..], &command].concat());
        assert!(running.wait().success(), "{}", sandbox.stderr());
        jids.iter().for_each(|jid| assert_eq!(sandbox.state(jid), "complete"));
        sandbox.assert_nothing_left();
    }
}

/// A process that dies with a hundred jobs leaves them waiting to run alone. The end of the supervisor at that moment,
/// orderly or not, costs none of them an attempt.
fn check_end_in_the_middle(end: impl FnOnce(&Sandbox), interrupted: u64) {
    let sandbox = python::new();
    let mut running = start(&sandbox, "coroutine", "app", &["-w", "1"]);
    let bomb = sandbox.ok(&["put", "--retries", "5", "default", "bomb"]).trim().to_owned();
    let jids = put_lines(&sandbox, "default", "hold.async", &[], &names("a", 30));
    wait_until("all run", || words(&sandbox, "begun-") == 31);
    touch(&sandbox, "boom");
    // One job blocks all the others.
    wait_until("they wait for the one that runs alone", || {
        slots(&sandbox)[0]["waiting_jobs"]
            .as_array()
            .is_some_and(|waits| !waits.is_empty() && waits.len() < 30)
    });
    end(&sandbox);
    running.wait();
    fs::remove_file(sandbox.work("boom")).unwrap();
    touch(&sandbox, "go");
    let _running = start(&sandbox, "coroutine", "app", &["-w", "1"]);
    // The job that is due again may have the only worker for itself.
    sandbox.ok(&["job", "cancel", "--wait", &bomb]);
    for jid in &jids {
        let job = ended(&sandbox, jid);
        assert_eq!(
            (&job["state"], &job["attempt"], &job["crashes"]),
            (&json!("complete"), &json!(1), &json!(0)),
            "{job}"
        );
        assert!(job["interruptions"].as_u64().unwrap() <= interrupted, "{job}");
    }
}

#[test]
fn stop_releases_jobs_that_wait_to_run_alone_unspent() {
    check_end_in_the_middle(|sandbox| drop(sandbox.ok(&["stop", "--now"])), 1);
}

#[test]
fn keeper_death_costs_jobs_that_wait_to_run_alone_no_attempt() {
    check_end_in_the_middle(|sandbox| kill(keeper(sandbox), "KILL"), 1);
}

fn check_picture(mode: &str) {
    let sandbox = python::new();
    let _running = start(&sandbox, mode, "app", &["-w", "1"]);
    let jid = put(&sandbox, hold(mode), "\"a\"");
    wait_until("it runs", || sandbox.work("begun-a").exists());
    let place = if mode == "coroutine" { "asyncio" } else { " in hold" };
    for _ in 0..3 {
        let picture = sandbox.json(&["job", "picture", &jid, "--json"]);
        let stacks = picture["processes"][0]["stacks"].as_str().unwrap_or_default();
        assert!(stacks.contains(place), "{picture}");
    }
    let shown = sandbox.ok(&["job", "picture", &jid]);
    assert!(shown.contains("      Current thread") || shown.contains("      Thread"), "{shown}");
    assert!(sandbox.ok(&["why", "job", &jid]).contains(place), "why shows the picture");
    touch(&sandbox, "go");
    let job = ended(&sandbox, &jid);
    assert_eq!((&job["state"], &job["attempt"]), (&json!("complete"), &json!(1)), "{job}");
    assert!(!sandbox.work("hit-a").exists(), "no signal reached it");
    assert_eq!(sandbox.ok(&["job", "logs", &jid]).matches("most recent call").count(), 0);
}
