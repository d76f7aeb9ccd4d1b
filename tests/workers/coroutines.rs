//! Coroutine workers: many jobs at a time in one process, and jobs that disturb them.

use super::*;

#[test]
fn a_hundred_coroutines_run_at_once_in_one_process() {
    let sandbox = python::new();
    let _running = start(&sandbox, "coroutine", "app", &["-w", "1"]);
    let jids = put_lines(&sandbox, "default", "together", &[], &vec!["100".into(); 100]);
    let jobs: Vec<Value> = jids.iter().map(|jid| ended(&sandbox, jid)).collect();
    let pids: HashSet<i64> = jobs.iter().map(|job| result(job).as_i64().unwrap()).collect();
    assert_eq!(pids.len(), 1);
    // Each job ends only once all have begun.
    assert!(jobs.iter().all(|job| counts(job) == [1, 0, 0]));
}

#[test]
fn cancel_of_a_coroutine_does_not_affect_its_neighbours() {
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
fn coroutine_that_ignores_its_cancel_is_killed_and_neighbours_rerun_unspent() {
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

/// One job with 99 neighbours kills its process whenever it runs; `meanwhile` is called until it is held.
fn check_bomb(meanwhile: impl Fn(&Sandbox)) {
    let sandbox = python::new();
    let _running = start(&sandbox, "coroutine", "app", &["-w", "1"]);
    let bomb = sandbox.ok(&["put", "--retries", "5", "default", "bomb"]).trim().to_owned();
    put_lines(&sandbox, "default", "hold.async", &[], &names("a", 99));
    wait_until("all run", || words(&sandbox, "begun-") == 100);
    touch(&sandbox, "boom");
    wait_until("the process is dead", || {
        slots(&sandbox)[0]["waiting_jobs"].as_array().is_some_and(|waits| !waits.is_empty())
    });
    touch(&sandbox, "go");
    wait_until("the bomb is held", || {
        meanwhile(&sandbox);
        sandbox.state(&bomb) == "held"
    });
    let job = sandbox.job(&bomb);
    assert_eq!(counts(&job), [3, 3, 0], "{job}");
    wait_until("all others have ended", || {
        sandbox.status()["queues"]["default"]["jobs"]
            == json!({"complete": all(&sandbox, "complete").len(), "held": 1})
    });
    let complete = all(&sandbox, "complete");
    assert!(complete.len() >= 99, "{}", complete.len());
    for job in complete {
        assert_eq!(counts(&job), [1, 0, 0], "{job}");
    }
}

#[test]
fn killer_among_100_coroutines_is_held_and_the_others_complete_unspent() {
    check_bomb(|_| ());
}

#[test]
fn killer_coroutine_is_held_while_new_jobs_keep_coming() {
    let number = Cell::new(0);
    check_bomb(|sandbox| {
        number.set(number.get() + 1);
        put(sandbox, "hold.async", &format!("\"b{}\"", number.get()));
    });
    assert!(number.get() > 0);
}

#[test]
fn job_that_runs_again_alone_is_shown_in_its_present_worker_with_the_reason() {
    let sandbox = python::new();
    let _running = start(&sandbox, "coroutine", "app", &["-w", "1"]);
    let first = put(&sandbox, "hold.async", "\"a\"");
    wait_until("it runs", || words(&sandbox, "begun-") == 1);
    let bomb = put(&sandbox, "bomb", "null");
    wait_until("both run", || words(&sandbox, "begun-") == 2);
    touch(&sandbox, "boom");
    wait_until("the first runs again", || slots(&sandbox)[0]["jobs"][0]["alone"] == true);
    let reason = "worker default.1#1 had other jobs too: the worker died: exit 7";
    let why = sandbox.ok(&["why", "job", &first]);
    assert!(why.contains(" in worker default.1#2"), "{why}");
    assert!(why.contains(&format!("It runs alone: {reason}.")), "{why}");
    let page = sandbox.ok(&["job", "show", &first]);
    assert!(page.lines().any(|line| line.starts_with("alone       in worker default.1#2 for ")), "{page}");
    assert!(page.contains(reason), "{page}");
    let waits = "alone       waits at slot default.1 until others have ended\n";
    assert!(sandbox.ok(&["job", "show", &bomb]).contains(waits));
    assert!(sandbox.ok(&["why", "slot", "default.1"]).contains("s, alone.\nJob "));
    touch(&sandbox, "go");
    assert_eq!(counts(&ended(&sandbox, &first)), [1, 0, 0]);
}

#[test]
fn output_of_each_coroutine_goes_to_the_log_of_its_own_job() {
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

/// A job that ignores all signals: KILL ends it at its time limit; in mode coroutine its neighbours run again.
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
fn job_that_blocks_the_event_loop_ends_at_its_time_limit() {
    check_deaf("coroutine", "blocks.loop");
}

/// A job without limits of its own blocks the loop: those of its neighbours run out meanwhile.
fn check_neighbours(limit: &str, class: &str, data: &str, place: &str) {
    let sandbox = python::new();
    let _running = start(&sandbox, "coroutine", "app", &["-w", "1", "--grace", "9s"]);
    let jid = put(&sandbox, class, data);
    let limit = ["--time-limit", limit];
    let mut near = put_lines(&sandbox, "default", "hold.async", &limit, &names("a", 3));
    word(&sandbox, "begun-b");
    // The worker cannot read these any more.
    near.extend(put_lines(&sandbox, "default", "hold.async", &limit, &names("late", 2)));
    touch(&sandbox, "go");
    let job = ended(&sandbox, &jid);
    let seen = (&job["state"], &job["failure"]["group"]);
    assert_eq!(seen, (&json!("failed"), &json!("EventLoopBlocked")), "{job}");
    assert!(log(&sandbox, &job).contains(place), "{job}");
    for jid in near {
        let job = ended(&sandbox, &jid);
        assert_eq!((&job["state"], counts(&job)), (&json!("complete"), [1, 0, 0]), "{job}");
    }
}

#[test]
fn job_that_blocks_the_event_loop_fails_and_neighbours_rerun_unspent_before_their_limits() {
    check_neighbours("4s", "blocks.later", "[\"b\", 3]", "in blocks_for_long");
}

/// The worker sees nothing while the interpreter's lock is kept, and judges before it reads that limits are over.
#[test]
fn job_that_keeps_the_interpreters_lock_fails_and_neighbours_rerun_unspent_after_their_limits() {
    check_neighbours("2s", "holds.later", "[\"b\", 3, 2.5]", "in holds_for_long");
}

#[test]
fn a_job_in_c_code_with_all_signals_blocked_ends_at_its_time_limit_in_each_mode() {
    for mode in ["prefork", "fork", "coroutine"] {
        check_deaf(mode, "deaf");
    }
}
