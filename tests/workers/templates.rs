//! Templates: applications that are imported once and forked for each job.

use super::*;

/// Each slot has a child of the keeper, forked ahead; each job gets a fresh one, alone in its session.
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
fn application_that_starts_threads_at_import_can_be_forked() {
    check_forks("threaded");
}

/// Jobs may hang for ever on a lock of that thread; only the warning explains why.
#[test]
fn status_and_log_warn_of_template_threads_that_jobs_do_not_have() {
    let sandbox = python::new();
    let _running = start(&sandbox, "fork", "threaded", &["-w", "1"]);
    assert_eq!(run(&sandbox, "look", "null")["state"], "complete");
    let template = pool(&sandbox, "default")["template"].clone();
    let warning = template["warning"].as_str().unwrap_or_else(|| panic!("no warning: {template}"));
    assert!(
        warning.contains("threads, which do not run in a job") && warning.contains("Thread-1"),
        "{warning}"
    );
    let shown = sandbox.ok(&["status"]);
    assert!(shown.contains("warning: every job of this pool is a fork"), "{shown}");
    assert!(sandbox.stderr().contains("a worker warns: every job of this pool"), "{}", sandbox.stderr());
}

/// 60 jobs of 10 MB each; `benches/` runs 2,000.
#[test]
fn leaking_jobs_do_not_grow_template_keeper_and_supervisor() {
    let sandbox = python::new();
    let _running = start(&sandbox, "fork", "app", &["-w", "2"]);
    let rss = || {
        let status = sandbox.status();
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
fn killed_template_is_replaced_and_its_running_jobs_continue() {
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
fn template_that_cannot_be_imported_is_reported_and_retried_with_backoff() {
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
    // The backoff doubles from 100 ms: more attempts would take minutes.
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
