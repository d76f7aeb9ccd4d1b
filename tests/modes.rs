//! Workers in Python in each of the three modes: how jobs run, end, and die, and what the others notice of it.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/python.rs"]
mod python;
#[path = "support/sandbox.rs"]
mod sandbox;

use std::cell::Cell;
use std::collections::HashSet;
use std::fs;

use python::{
    all, counts, ended, pid_of, pool, put, put_lines, result, run, slots, start, status, touch, word, words,
};
use sandbox::{Sandbox, alive, kill, wait_until};
use serde_json::{Value, json};

/// The class that waits for the file `go`, as the mode runs it in its main thread.
fn hold(mode: &str) -> &'static str {
    if mode == "coroutine" { "hold.async" } else { "hold" }
}

/// What an interrupted job of it is hit by.
fn hit_by(mode: &str, error: &str) -> String {
    if mode == "coroutine" { "CancelledError".into() } else { error.into() }
}

fn keeper(sandbox: &Sandbox) -> i32 {
    pid_of(&status(sandbox)["keeper"])
}

fn sent(job: &Value) -> Vec<&str> {
    let signals = job["forensics"]["signals"].as_array().unwrap();
    signals.iter().map(|sent| sent["signal"].as_str().unwrap()).collect()
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("\"{prefix}{number}\"")).collect()
}

/// Each slot waits with a child of the keeper, forked ahead; each job gets a fresh one, alone in its session.
fn check_forks(module: &str) {
    let sandbox = python::new();
    let _running = start(&sandbox, "fork", module, &["-w", "2"]);
    let keeper = keeper(&sandbox);
    let template = pid_of(&pool(&sandbox, "default")["template"]["process"]);
    assert_eq!(python::parent(template), keeper);
    for slot in slots(&sandbox) {
        assert_eq!(python::parent(pid_of(&slot["process"])), keeper, "forked ahead: {slot}");
    }
    let mut pids = HashSet::new();
    for _ in 0..4 {
        let job = run(&sandbox, "look", "null");
        let seen = result(&job);
        assert_eq!((&seen["count"], &seen["ppid"]), (&json!(1), &json!(keeper)), "{job}");
        assert_eq!(seen["sid"], seen["pid"], "a session of its own: {job}");
        assert!(pids.insert(seen["pid"].as_i64().unwrap()), "a child for each job");
        let log = sandbox.ok(&["job", "logs", job["id"].as_str().unwrap()]);
        assert!(log.contains("on stdout\n") && log.contains("on stderr\n"), "{log}");
    }
    assert_eq!(pid_of(&pool(&sandbox, "default")["template"]["process"]), template, "loaded once");
}

#[test]
fn each_job_of_a_template_gets_a_fresh_child_of_the_keeper() {
    check_forks("app");
}

#[test]
fn an_application_that_starts_threads_while_it_is_loaded_can_be_forked() {
    check_forks("threaded");
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
fn what_a_job_raises_decides_what_becomes_of_it_in_a_prefork_worker() {
    check_outcomes("prefork");
}

#[test]
fn what_a_job_raises_decides_what_becomes_of_it_in_a_fork() {
    check_outcomes("fork");
}

#[test]
fn what_a_job_raises_decides_what_becomes_of_it_in_a_coroutine_worker() {
    check_outcomes("coroutine");
}

/// 60 jobs of 10 MB each; `benches/` has 2,000.
#[test]
fn jobs_that_leak_leave_template_keeper_and_supervisor_as_they_were() {
    let sandbox = python::new();
    let _running = start(&sandbox, "fork", "app", &["-w", "2"]);
    let rss = || {
        let status = status(&sandbox);
        let template = &status["pools"][0]["template"]["process"];
        [template, &status["keeper"], &status["supervisor"]].map(|process| process["rss"].as_u64().unwrap())
    };
    let leak = |count: usize| {
        let jids = put_lines(&sandbox, "default", "leaks", &[], &vec!["null".into(); count]);
        jids.iter().for_each(|jid| assert_eq!(ended(&sandbox, jid)["state"], "complete"));
    };
    leak(10);
    let before = rss();
    leak(60);
    let after = rss();
    for (before, after) in before.into_iter().zip(after) {
        assert!(after < before + (4 << 20), "{before} became {after}");
    }
}

#[test]
fn a_killed_template_hurts_no_running_job_and_is_replaced() {
    let sandbox = python::new();
    let _running = start(&sandbox, "fork", "app", &["-w", "3"]);
    let template = || pool(&sandbox, "default")["template"].clone();
    let jids = put_lines(&sandbox, "default", "hold", &[], &names("a", 2));
    wait_until("both run", || words(&sandbox, "begun-") == 2);
    let before = pid_of(&template()["process"]);
    kill(before, "KILL");
    wait_until("there is another template", || {
        let template = template();
        template["state"] == "ready" && template["process"]["pid"] != before
    });
    let more = run(&sandbox, "look", "null");
    assert_eq!(more["state"], "complete", "{more}");
    touch(&sandbox, "go");
    for (number, jid) in jids.iter().enumerate() {
        let job = ended(&sandbox, jid);
        assert_eq!(counts(&job), [1, 0, 0], "{job}");
        assert_eq!(
            result(&job)["pid"].to_string(),
            word(&sandbox, &format!("begun-a{number}")),
            "undisturbed"
        );
    }
    for _ in 0..4 {
        assert_eq!(result(&run(&sandbox, "look", "null"))["count"], 1);
    }
    assert!(template()["why"].as_str().unwrap().contains("signal 9"));
}

#[test]
fn a_template_that_cannot_be_imported_is_explained_and_spins_not_and_others_work() {
    let sandbox = python::new();
    let text = "pools:
  - {name: broken, mode: fork, workers: 2, queues: [never], PYTHON broken}
  - {name: good, mode: fork, workers: 1, PYTHON app}";
    let path = python::file(&sandbox, text);
    let _running = sandbox.start_raw(&["-c", &path]);
    wait_until("it is probing", || pool(&sandbox, "broken")["probing"].is_string());
    let broken = pool(&sandbox, "broken");
    let trace = broken["template"]["trace"].as_str().unwrap();
    assert!(trace.contains("RuntimeError: this application cannot be imported"), "{broken}");
    assert!(sandbox.ok(&["status"]).contains("RuntimeError: this application cannot be imported"));
    for _ in 0..5 {
        assert_eq!(run(&sandbox, "look", "null")["state"], "complete");
    }
    // From 100 ms on each wait is twice the one before it: more would take minutes.
    let tries = fs::metadata(sandbox.work("imports")).unwrap().len();
    assert!((5..=11).contains(&tries), "{tries} tries");
}

#[test]
fn a_template_that_hangs_is_replaced() {
    let sandbox = python::new();
    let _running = start(&sandbox, "fork", "app", &["-w", "2", "--boot-timeout", "3s"]);
    let before = pid_of(&pool(&sandbox, "default")["template"]["process"]);
    kill(before, "STOP");
    let jids = put_lines(&sandbox, "default", "look", &[], &vec!["null".into(); 6]);
    for jid in jids {
        let job = ended(&sandbox, &jid);
        assert_eq!((&job["state"], counts(&job)), (&json!("complete"), [1, 0, 0]), "{job}");
    }
    let template = pool(&sandbox, "default")["template"].clone();
    assert_ne!(template["process"]["pid"], before);
    assert!(template["why"].as_str().unwrap().contains("did not fork in time"), "{template}");
    assert!(!alive(before));
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
    assert_eq!(sandbox.ok(&["job", "logs", &jid]), "", "it has printed nothing");
    assert_eq!(run(&sandbox, "look", "null")["state"], "complete");
}

fn check_time_limit(mode: &str) {
    let sandbox = python::new();
    let _running = start(&sandbox, mode, "app", &["-w", "1", "--time-limit", "300ms"]);
    let job = run(&sandbox, hold(mode), "\"a\"");
    assert_eq!((&job["state"], &job["failure"]["group"]), (&json!("failed"), &json!("time limit")), "{job}");
    assert!(word(&sandbox, "hit-a").starts_with(&hit_by(mode, "TimeLimit: the time limit of 0.3 s")));
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
    assert_eq!((&job["state"], &job["interrupted"]), (&json!("waiting"), &json!(1)), "{job}");
    sandbox.assert_nothing_left();
    let log = sandbox.stderr();
    assert!(!log.contains("Traceback") && !log.contains("Exception ignored"), "{log}");
}

/// Both a supervisor and, at the next start, a keeper that are killed in the middle: nothing survives, jobs run again.
fn check_killed(mode: &str) {
    let sandbox = python::new();
    let runs_again = |jid: &str, times: u64| {
        wait_until("it runs again", || {
            let output = sandbox.run(&["job", "show", jid, "--json"]);
            let job: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            job["state"] == "running" && job["interrupted"] == times && sandbox.work("begun-a").exists()
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

/// Its workers are replaced as planned: nothing is a restart, no job notices.
fn check_max_jobs(mode: &str, options: &[&str]) {
    let sandbox = python::new();
    let _running = start(&sandbox, mode, "app", &[&["-w", "1", "--max-jobs", "5"], options].concat());
    let jids = put_lines(&sandbox, "default", "look", &[], &vec!["null".into(); 20]);
    let jobs: Vec<Value> = jids.iter().map(|jid| ended(&sandbox, jid)).collect();
    assert!(jobs.iter().all(|job| counts(job) == [1, 0, 0]), "{jobs:?}");
    let pids: HashSet<i64> = jobs.iter().map(|job| result(job)["pid"].as_i64().unwrap()).collect();
    assert_eq!(pids.len(), 4);
    assert_eq!(slots(&sandbox)[0]["restarts"], 0);
}

#[test]
fn a_worker_is_replaced_after_the_jobs_of_its_life() {
    check_max_jobs("prefork", &[]);
    check_max_jobs("coroutine", &["--concurrency", "3"]);
}

#[test]
fn a_burst_ends_when_all_is_done_in_each_mode() {
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

/// A process that dies under a hundred jobs leaves them waiting to run alone. An end of the supervisor in that moment, in
/// order or not, costs none of them an attempt.
fn check_end_in_the_middle(end: impl FnOnce(&Sandbox), interrupted: u64) {
    let sandbox = python::new();
    let mut running = start(&sandbox, "coroutine", "app", &["-w", "1"]);
    let bomb = sandbox.ok(&["put", "--retries", "5", "default", "bomb"]).trim().to_owned();
    let jids = put_lines(&sandbox, "default", "hold.async", &[], &names("a", 30));
    wait_until("all run", || words(&sandbox, "begun-") == 31);
    touch(&sandbox, "boom");
    // One of them holds up all the others.
    wait_until("they wait for the one that runs alone", || {
        slots(&sandbox)[0]["waits"].as_array().is_some_and(|waits| !waits.is_empty() && waits.len() < 30)
    });
    end(&sandbox);
    running.wait();
    fs::remove_file(sandbox.work("boom")).unwrap();
    touch(&sandbox, "go");
    let _running = start(&sandbox, "coroutine", "app", &["-w", "1"]);
    // If it is due again by now, it may have the only worker for itself.
    sandbox.ok(&["job", "cancel", "--wait", &bomb]);
    for jid in &jids {
        let job = ended(&sandbox, jid);
        assert_eq!(
            (&job["state"], &job["attempt"], &job["crashes"]),
            (&json!("complete"), &json!(1), &json!(0)),
            "{job}"
        );
        assert!(job["interrupted"].as_u64().unwrap() <= interrupted, "{job}");
    }
}

#[test]
fn a_stop_while_jobs_wait_to_run_alone_gives_them_back_unspent() {
    check_end_in_the_middle(|sandbox| drop(sandbox.ok(&["stop", "--now"])), 1);
}

#[test]
fn a_killed_keeper_while_jobs_wait_to_run_alone_costs_them_no_attempt() {
    check_end_in_the_middle(|sandbox| kill(keeper(sandbox), "KILL"), 1);
}

mod prefork {
    #[test]
    fn a_canceled_job_is_interrupted() {
        super::check_cancel("prefork");
    }

    #[test]
    fn a_job_sees_its_time_limit() {
        super::check_time_limit("prefork");
    }

    #[test]
    fn a_job_that_kills_its_worker_has_crashed() {
        super::check_crashes("prefork");
    }

    #[test]
    fn a_stop_waits_for_the_job_and_one_at_once_interrupts_it() {
        super::check_stop("prefork");
    }

    #[test]
    fn nothing_survives_a_killed_supervisor_or_keeper_and_jobs_run_again() {
        super::check_killed("prefork");
    }
}

mod fork {
    #[test]
    fn a_canceled_job_is_interrupted() {
        super::check_cancel("fork");
    }

    #[test]
    fn a_job_sees_its_time_limit() {
        super::check_time_limit("fork");
    }

    #[test]
    fn a_job_that_kills_its_worker_has_crashed() {
        super::check_crashes("fork");
    }

    #[test]
    fn a_stop_waits_for_the_job_and_one_at_once_interrupts_it() {
        super::check_stop("fork");
    }

    #[test]
    fn nothing_survives_a_killed_supervisor_or_keeper_and_jobs_run_again() {
        super::check_killed("fork");
    }
}

mod coroutine {
    #[test]
    fn a_canceled_job_is_interrupted() {
        super::check_cancel("coroutine");
    }

    #[test]
    fn a_job_sees_its_time_limit() {
        super::check_time_limit("coroutine");
    }

    #[test]
    fn a_job_that_kills_its_worker_has_crashed() {
        super::check_crashes("coroutine");
    }

    #[test]
    fn a_stop_waits_for_the_job_and_one_at_once_interrupts_it() {
        super::check_stop("coroutine");
    }

    #[test]
    fn nothing_survives_a_killed_supervisor_or_keeper_and_jobs_run_again() {
        super::check_killed("coroutine");
    }
}

#[test]
fn a_hundred_coroutines_run_at_once_in_one_process() {
    let sandbox = python::new();
    let _running = start(&sandbox, "coroutine", "app", &["-w", "1"]);
    let jids = put_lines(&sandbox, "default", "together", &[], &vec!["100".into(); 100]);
    let jobs: Vec<Value> = jids.iter().map(|jid| ended(&sandbox, jid)).collect();
    let pids: HashSet<i64> = jobs.iter().map(|job| result(job).as_i64().unwrap()).collect();
    assert_eq!(pids.len(), 1);
    // Each ends only once all have begun.
    assert!(jobs.iter().all(|job| counts(job) == [1, 0, 0]));
}

#[test]
fn the_neighbours_of_a_canceled_coroutine_never_notice() {
    let sandbox = python::new();
    let _running = start(&sandbox, "coroutine", "app", &["-w", "1"]);
    let jids = put_lines(&sandbox, "default", "hold.async", &[], &names("a", 10));
    wait_until("all run", || words(&sandbox, "begun-") == 10);
    sandbox.ok(&["job", "cancel", "--wait", &jids[3]]);
    let canceled = sandbox.job(&jids[3]);
    assert_eq!((&canceled["state"], sent(&canceled)), (&json!("canceled"), vec![]), "{canceled}");
    assert!(word(&sandbox, "hit-a3").starts_with("CancelledError"));
    touch(&sandbox, "go");
    for (number, jid) in jids.iter().enumerate().filter(|(number, _)| *number != 3) {
        let job = ended(&sandbox, jid);
        assert_eq!(counts(&job), [1, 0, 0], "{job}");
        assert_eq!(
            result(&job)["pid"].to_string(),
            word(&sandbox, &format!("begun-a{number}")),
            "the same process"
        );
    }
    assert_eq!(words(&sandbox, "hit-"), 1);
}

#[test]
fn a_coroutine_that_ignores_its_cancellation_is_killed_and_its_neighbours_run_again_unspent() {
    let sandbox = python::new();
    let _running = start(&sandbox, "coroutine", "app", &["-w", "1", "--grace", "500ms"]);
    let stubborn = put(&sandbox, "stubborn", "\"s\"");
    let jids = put_lines(&sandbox, "default", "hold.async", &[], &names("a", 10));
    wait_until("all run", || words(&sandbox, "begun-") == 11);
    let before = word(&sandbox, "begun-a0");
    sandbox.ok(&["job", "cancel", "--wait", &stubborn]);
    let canceled = sandbox.job(&stubborn);
    assert_eq!((&canceled["state"], sent(&canceled)), (&json!("canceled"), vec!["KILL"]), "{canceled}");
    assert!(sandbox.work("hit-s").exists());
    assert!(!alive(before.parse().unwrap()));
    touch(&sandbox, "go");
    for jid in &jids {
        let job = ended(&sandbox, jid);
        assert_eq!(counts(&job), [1, 0, 0], "{job}");
        assert_ne!(result(&job)["pid"].to_string(), before);
    }
}

/// One job among 99 kills its process, whenever it runs; `meanwhile` happens until it is found.
fn check_bomb(meanwhile: impl Fn(&Sandbox)) {
    let sandbox = python::new();
    let _running = start(&sandbox, "coroutine", "app", &["-w", "1"]);
    let bomb = sandbox.ok(&["put", "--retries", "5", "default", "bomb"]).trim().to_owned();
    put_lines(&sandbox, "default", "hold.async", &[], &names("a", 99));
    wait_until("all run", || words(&sandbox, "begun-") == 100);
    touch(&sandbox, "boom");
    wait_until("the process is dead", || {
        slots(&sandbox)[0]["waits"].as_array().is_some_and(|waits| !waits.is_empty())
    });
    touch(&sandbox, "go");
    wait_until("the bomb is held", || {
        meanwhile(&sandbox);
        sandbox.state(&bomb) == "held"
    });
    let job = sandbox.job(&bomb);
    assert_eq!(counts(&job), [3, 3, 0], "{job}");
    wait_until("all others have ended", || {
        status(&sandbox)["queues"]["default"]["jobs"]
            == json!({"complete": all(&sandbox, "complete").len(), "held": 1})
    });
    let complete = all(&sandbox, "complete");
    assert!(complete.len() >= 99, "{}", complete.len());
    for job in complete {
        assert_eq!(counts(&job), [1, 0, 0], "{job}");
    }
}

#[test]
fn one_of_a_hundred_that_kills_its_process_is_found_and_held_and_the_others_complete_unspent() {
    check_bomb(|_| ());
}

#[test]
fn one_that_kills_its_process_is_found_and_held_while_new_jobs_keep_coming() {
    let number = Cell::new(0);
    check_bomb(|sandbox| {
        number.set(number.get() + 1);
        put(sandbox, "hold.async", &format!("\"b{}\"", number.get()));
    });
    assert!(number.get() > 0);
}

#[test]
fn lines_of_many_coroutines_land_each_in_the_log_of_its_own_job() {
    let sandbox = python::new();
    let _running = start(&sandbox, "coroutine", "app", &["-w", "1"]);
    let jids = put_lines(&sandbox, "default", "chatters", &[], &names("n", 20));
    for (number, jid) in jids.iter().enumerate() {
        assert_eq!(ended(&sandbox, jid)["state"], "complete");
        let expected: String = (0..20).map(|line| format!("n{number} {line}\n")).collect();
        assert_eq!(sandbox.ok(&["job", "logs", jid]), expected);
    }
}

#[test]
fn plain_functions_run_in_threads_of_a_coroutine_worker() {
    let sandbox = python::new();
    let _running = start(&sandbox, "coroutine", "app", &["-w", "1"]);
    let jids = put_lines(&sandbox, "default", "threads", &[], &vec!["null".into(); 10]);
    let seen: Vec<Value> = jids.iter().map(|jid| result(&ended(&sandbox, jid))).collect();
    assert!(seen.iter().all(|seen| seen["main"] == false), "{seen:?}");
    let pids: HashSet<i64> = seen.iter().map(|seen| seen["pid"].as_i64().unwrap()).collect();
    assert_eq!(pids.len(), 1);
}

/// A job that hears nothing, with neighbours in mode coroutine: it ends at its time limit by KILL, they run again.
fn check_deaf(mode: &str, class: &str) {
    let sandbox = python::new();
    let _running = start(&sandbox, mode, "app", &["-w", "2", "--grace", "300ms"]);
    let near = match mode {
        "coroutine" => put_lines(&sandbox, "default", "hold.async", &[], &names("a", 20)),
        _ => vec![],
    };
    wait_until("they run", || words(&sandbox, "begun-a") == near.len());
    let jid = sandbox.ok(&["put", "--time-limit", "300ms", "default", class, "\"d\""]);
    word(&sandbox, "begun-d");
    touch(&sandbox, "go");
    let job = ended(&sandbox, jid.trim());
    assert_eq!((&job["state"], &job["failure"]["group"]), (&json!("failed"), &json!("time limit")), "{job}");
    assert_eq!(sent(&job), if mode == "coroutine" { vec!["KILL"] } else { vec!["TERM", "KILL"] }, "{job}");
    for jid in near {
        let job = ended(&sandbox, &jid);
        assert_eq!((&job["state"], counts(&job)), (&json!("complete"), [1, 0, 0]), "{job}");
    }
}

#[test]
fn an_event_loop_that_a_job_blocks_ends_at_its_time_limit() {
    check_deaf("coroutine", "blocks.loop");
}

#[test]
fn a_job_in_c_code_with_all_signals_blocked_ends_at_its_time_limit_in_each_mode() {
    for mode in ["prefork", "fork", "coroutine"] {
        check_deaf(mode, "deaf");
    }
}
