//! The worker protocol, kept and broken: the effect on jobs, workers and the pool.

use crate::sandbox::{Sandbox, Setting, alive, kill, wait_until};
use serde_json::{Value, json};

const ACTOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/actor.py");

/// Puts a job of a class and returns its jid.
fn put(sandbox: &Sandbox, class: &str, data: &str) -> String {
    sandbox.ok(&["put", "default", class, data]).trim().to_owned()
}

/// Runs a job to its end and returns its record.
fn run(sandbox: &Sandbox, class: &str, data: &str) -> Value {
    let jid = put(sandbox, class, data);
    sandbox.run(&["job", "wait", &jid, "--timeout", "60s"]);
    sandbox.job(&jid)
}

/// A pool of one actor; `options` come before its command.
fn with_actor(options: &[&str], story: impl FnOnce(&Sandbox)) {
    let sandbox = Sandbox::new(Setting::Root);
    let args = ["-w", "1", "--retries", "0", "--grace", "300ms"];
    let _running = sandbox
        .start(&args.iter().chain(options).copied().chain(["--", "python3", ACTOR]).collect::<Vec<_>>());
    story(&sandbox);
    assert_eq!(run(&sandbox, "fine", "null")["state"], "complete", "the pool still works");
}

fn slot(sandbox: &Sandbox) -> Value {
    sandbox.json(&["status", "--json"])["pools"][0]["slots"][0].clone()
}

/// Runs a job whose worker breaks the protocol; asserts its failure, and that another worker runs the next job.
fn check_crash(class: &str, words: &str) {
    with_actor(&[], |sandbox| {
        let before = slot(sandbox)["process"]["pid"].clone();
        let job = run(sandbox, class, "null");
        assert_eq!(job["state"], "failed", "{job}");
        assert_eq!(job["crashes"], 1, "{job}");
        let message = job["failure"]["message"].as_str().unwrap();
        assert!(message.contains(words), "{message}");
        wait_until("another worker is ready", || slot(sandbox)["state"] == "ready");
        assert_ne!(slot(sandbox)["process"]["pid"], before);
    });
}

#[test]
fn data_and_result_of_a_job_are_kept_byte_for_byte() {
    with_actor(&[], |sandbox| {
        let job = run(sandbox, "fine", "{\"to\":\n  [1.50, \"\\u00e4\"]}");
        assert_eq!(job["state"], "complete", "{job}");
        let jid = job["id"].as_str().unwrap();
        let result = "{\"data\": {\"to\": [1.5, \"\\u00e4\"]}, \"attempt\": 1}";
        assert_eq!(sandbox.ok(&["job", "result", jid]).trim_end(), result);
        assert!(
            sandbox.ok(&["job", "show", jid, "--json"]).contains(&format!("\"result\":{result},")),
            "{job}"
        );
        assert!(
            sandbox.ok(&["job", "show", jid, "--json"]).contains("\"data\":{\"to\":   [1.50, \"\\u00e4\"]}"),
            "{job}"
        );
        assert_eq!(sandbox.ok(&["job", "logs", jid]), "a word on stdout\n");
    });
}

#[test]
fn a_line_that_is_no_frame_ends_the_worker_and_is_quoted() {
    check_crash("garbage", "a line that is no frame");
}

#[test]
fn long_failure_is_truncated() {
    with_actor(&[], |sandbox| {
        let job = run(sandbox, "talks", "null");
        let failure = &job["failure"];
        let [group, message, trace] =
            ["group", "message", "trace"].map(|part| failure[part].as_str().unwrap());
        assert!(group.len() < 250 && message.len() < 5 << 10 && trace.len() < 70 << 10, "{}", trace.len());
        assert!(message.ends_with("m… (10481664 bytes more)"), "{}", &message[message.len() - 60..]);
        let longest = sandbox.stderr().lines().map(str::len).max();
        assert!(longest < Some(16 << 10), "a line of {longest:?} bytes in the log");
    });
}

#[test]
fn worker_that_sends_frames_of_unknown_jobs_is_killed_before_it_fills_the_log() {
    check_crash("raves", "of 100 jobs it does not have");
    with_actor(&[], |sandbox| {
        run(sandbox, "raves", "null");
        assert!(sandbox.stderr().len() < 100 << 10, "{} bytes of log", sandbox.stderr().len());
    });
}

#[test]
fn unknown_option_of_a_put_is_refused() {
    with_actor(&[], |sandbox| {
        let job = run(sandbox, "misspells", "null");
        assert!(job["result"].as_str().unwrap().contains("unknown field `prority`"), "{job}");
    });
}

#[test]
fn half_a_frame_is_a_crash_even_with_exit_code_0() {
    check_crash("half", "exit 0");
}

#[test]
fn a_frame_over_the_limit_ends_the_worker() {
    check_crash("long", "longer than 16777216 bytes");
}

#[test]
fn unknown_frame_ends_the_worker_and_is_quoted() {
    check_crash("unknown", "unknown frame 'dome'");
}

#[test]
fn exit_without_done_is_a_crash() {
    check_crash("leaves", "exit 0");
}

#[test]
fn job_that_its_worker_never_read_is_released_unspent() {
    with_actor(&[], |sandbox| {
        for _ in 0..5 {
            let before = run(sandbox, "quits", "null");
            assert_eq!(before["state"], "complete", "{before}");
            let job = run(sandbox, "fine", "null");
            assert_eq!(job["state"], "complete", "{job}");
            assert_eq!((job["crashes"].as_u64(), job["attempt"].as_u64()), (Some(0), Some(1)), "{job}");
        }
    });
}

#[test]
fn worker_that_closes_its_channel_is_killed() {
    check_crash("shuts", "closed its channel");
}

#[test]
fn worker_that_forks_and_exits_leaves_no_process() {
    check_crash("forks", "exit 0");
}

#[test]
fn done_counts_once_and_only_for_its_own_job() {
    with_actor(&[], |sandbox| {
        let pid = slot(sandbox)["process"]["pid"].clone();
        assert_eq!(run(sandbox, "twice", "null")["result"], 1);
        assert_eq!(run(sandbox, "other", "null")["result"], "right");
        assert_eq!(slot(sandbox)["process"]["pid"], pid, "the worker lives on");
        let log = sandbox.stderr();
        assert_eq!(log.matches("a worker says 'done' of a job it does not have").count(), 3, "{log}");
    });
}

#[test]
fn a_worker_that_blocks_all_signals_is_killed_at_its_time_limit() {
    with_actor(&["--time-limit", "300ms"], |sandbox| {
        let job = run(sandbox, "blocks", "null");
        assert_eq!(
            (&job["state"], &job["failure"]["group"]),
            (&json!("failed"), &json!("time limit")),
            "{job}"
        );
        let signals = job["forensics"]["signals"].as_array().unwrap();
        let sent: Vec<&str> = signals.iter().map(|sent| sent["signal"].as_str().unwrap()).collect();
        assert_eq!(sent, ["TERM", "KILL"], "{job}");
    });
}

#[test]
fn a_job_that_prints_100_mb_is_cut_and_completes() {
    with_actor(&[], |sandbox| {
        let job = run(sandbox, "floods", "null");
        assert_eq!(job["state"], "complete", "{job}");
        let dropped = job["forensics"]["output_dropped"].as_u64().unwrap();
        assert_eq!(dropped, (100 << 20) - (10 << 20), "{job}");
        let log = sandbox.ok(&["job", "logs", job["id"].as_str().unwrap()]);
        assert!(log.len() < 11 << 20 && log.contains("was dropped"), "{}", log.len());
    });
}

#[test]
fn worker_puts_jobs_through_the_supervisor() {
    with_actor(&[], |sandbox| {
        let job = run(sandbox, "calls", "null");
        let answers = &job["result"];
        let child = answers[0]["ok"]["ids"][0].as_str().unwrap();
        assert!(answers[1]["error"].as_str().unwrap().contains("known are: put"), "{answers}");
        assert!(answers[2]["error"].as_str().unwrap().contains("queue"), "{answers}");
        sandbox.run(&["job", "wait", child, "--timeout", "30s"]);
        let child = sandbox.job(child);
        assert_eq!((&child["state"], &child["tags"]), (&json!("complete"), &json!(["child"])));
        assert_eq!(child["result"], json!({"data": {"n": [1, 2.5]}, "attempt": 1}));
    });
}

#[test]
fn worker_may_tag_prioritize_and_set_data_of_jobs_within_its_rights() {
    with_actor(&[], |sandbox| {
        let other = sandbox.ok(&["put", "--delay", "1h", "default", "fine", "1"]);
        let other = other.trim();
        let job = run(sandbox, "calls_about_jobs", &json!(other).to_string());
        let me = job["id"].as_str().unwrap();
        let answers = &job["result"];
        let granted = [json!({ "tags": ["a"] }), json!({}), json!({})];
        assert_eq!(answers.as_array().unwrap()[..3], granted, "{answers}");
        let refused = [
            format!("job '{other}' is delayed: it cannot be given other data"),
            format!("job '{me}' is run by somebody else: its data is theirs to change"),
            "data: missing field `data`".into(),
            "tag: missing field `id`".into(),
            "no job has the id 'none'".into(),
            "priority: invalid type: floating point `3.5`, expected i32".into(),
        ];
        for (answer, refused) in answers.as_array().unwrap()[3..].iter().zip(refused) {
            assert!(answer.as_str().unwrap().starts_with(&refused), "{answer}\n{refused}");
        }
        assert_eq!((&job["tags"], &job["data"]), (&json!(["a"]), &json!([1.5])));
        let other = sandbox.job(other);
        assert_eq!((&other["priority"], &other["data"]), (&json!(3), &json!(1)));
    });
}

#[test]
fn processes_left_by_a_job_are_reported_or_killed() {
    with_actor(&[], |sandbox| {
        let job = run(sandbox, "litters", "null");
        let left = job["forensics"]["left"].as_array().unwrap().clone();
        assert_eq!(left.len(), 2, "{job}");
        assert!(left[0].as_str().unwrap().starts_with("python3 (pid "), "{job}");
        let next = run(sandbox, "fine", "null");
        assert!(next["forensics"].get("left").is_none(), "told once: {next}");
        // The worker dies with what an earlier job has left: that is not this job's.
        let crashed = run(sandbox, "leaves", "null");
        assert_eq!(crashed["forensics"]["exit"]["left_behind"], 0, "{crashed}");
    });
    let sandbox = Sandbox::new(Setting::Root);
    let config = sandbox.work("pools.yaml");
    std::fs::write(&config, format!("pools: [{{command: [python3, '{ACTOR}'], leftovers: kill}}]\n"))
        .unwrap();
    let _running = sandbox.start(&["-c", config.to_str().unwrap()]);
    let worker = slot(&sandbox)["process"]["pid"].as_i64().unwrap();
    let job = run(&sandbox, "litters", "null");
    let left = job["forensics"]["left"].as_array().unwrap().clone();
    assert!(left.len() == 2 && left[0].as_str().unwrap().ends_with(", killed"), "{job}");
    let pid: i32 = left[0].as_str().unwrap().split(['(', ')']).nth(1).unwrap()[4..].parse().unwrap();
    assert!(!alive(pid));
    assert!(alive(worker as i32), "the worker lives on");
}

#[test]
fn worker_that_reads_no_answers_costs_the_supervisor_little_memory() {
    with_actor(&["--time-limit", "2s"], |sandbox| {
        let data = sandbox.work("data.json");
        std::fs::write(&data, format!("\"{}\"", "x".repeat(1 << 20))).unwrap();
        let large = format!("@{}", data.display());
        let large = sandbox.ok(&["put", "elsewhere", "fine", &large]).trim().to_owned();
        let job = run(sandbox, "asks", &format!("\"{large}\""));
        assert_eq!(job["failure"]["group"], "time limit", "{job}");
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", sandbox.one("tv-supervisor"))).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
        assert!(peak < 400 << 10, "the supervisor took {peak} KB");
    });
}

/// Starts a worker that never takes a job; asserts what status shows.
fn check_boot(part: &str, options: &[&str], why: &str, trace: &str) {
    let sandbox = Sandbox::new(Setting::Root);
    let args = ["-w", "2", "--grace", "300ms"];
    let command = ["--", "python3", ACTOR, part];
    let args: Vec<&str> = args.iter().chain(options).chain(&command).copied().collect();
    let _running = sandbox.start_raw(&args);
    wait_until("status says why", || {
        let output = sandbox.run(&["status", "--json"]);
        let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let slots = status["pools"][0]["slots"].as_array().cloned().unwrap_or_default();
        slots.iter().any(|slot| {
            slot["why"].as_str().is_some_and(|text| text.contains(why))
                && slot["trace"].as_str().unwrap_or_default().contains(trace)
        })
    });
    wait_until("it is probing", || sandbox.json(&["status", "--json"])["pools"][0]["probing"].is_string());
    assert_ne!(sandbox.run(&["status", "-q"]).status.code(), Some(0));
    assert!(sandbox.ok(&["status"]).contains(trace.lines().next_back().unwrap_or(why)));
}

#[test]
fn a_worker_that_dies_at_import_shows_its_traceback() {
    check_boot("traceback", &[], "exit 1", "RuntimeError: cannot be imported");
}

#[test]
fn worker_with_another_protocol_version_is_refused() {
    check_boot("modern", &[], "it speaks protocol 2, this supervisor speaks 1", "");
}

#[test]
fn a_worker_that_never_says_hello_or_ready_is_killed_at_its_boot_timeout() {
    check_boot("mute", &["--boot-timeout", "500ms"], "not ready in time", "");
    check_boot("shy", &["--boot-timeout", "500ms"], "not ready in time", "");
}

#[test]
fn worker_is_killed_when_its_supervisor_dies_and_its_job_runs_again() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "1", "--grace", "300ms", "--", "python3", ACTOR]);
    let jid = put(&sandbox, "blocks", "null");
    wait_until("the job runs", || sandbox.work("begun").exists());
    let worker = slot(&sandbox)["process"]["pid"].as_i64().unwrap() as i32;
    kill(sandbox.one("tv-supervisor"), "KILL");
    wait_until("the old worker is dead", || !alive(worker));
    wait_until("it runs again", || {
        // Between two supervisors there may be no answer.
        let output = sandbox.run(&["job", "show", &jid, "--json"]);
        let job: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        job["state"] == "running" && job["interruptions"] == 1
    });
    sandbox.ok(&["job", "cancel", "--wait", &jid]);
}

#[test]
fn each_job_of_a_sandboxed_pool_finds_an_empty_directory() {
    with_actor(&["--sandbox"], |sandbox| {
        let results: Vec<Value> = (0..3).map(|_| run(sandbox, "where", "null")["result"].clone()).collect();
        assert!(results.iter().all(|result| result["found"] == json!([])), "{results:?}");
        let dir = results[0]["cwd"].as_str().unwrap();
        assert!(dir.starts_with(sandbox.path("state").to_str().unwrap()), "{dir}");
    });
}

#[test]
fn worker_gets_only_the_passed_environment_variables() {
    let sandbox = Sandbox::new(Setting::Root);
    let args = ["-w", "1", "--env", "WANTED_*", "--env", "SET=here", "--", "python3", ACTOR];
    let _running = sandbox.start_with(&args, |command| {
        command.env("WANTED_A", "1").env("SECRET_TOKEN", "x").env("SET", "there");
    });
    let job = run(&sandbox, "who", "null");
    let result = &job["result"];
    let env = result["env"].as_object().unwrap();
    assert_eq!((&env["WANTED_A"], &env["SET"]), (&json!("1"), &json!("here")));
    assert!(!env.contains_key("SECRET_TOKEN"));
    let own: Vec<&String> = env.keys().filter(|name| name.starts_with("TASKVISOR_")).collect();
    let known = [
        "TASKVISOR_CONCURRENCY",
        "TASKVISOR_FD",
        "TASKVISOR_KEEPER",
        "TASKVISOR_MODE",
        "TASKVISOR_POOL",
        "TASKVISOR_PROTOCOL",
        "TASKVISOR_SOCKET",
        "TASKVISOR_WORKER",
    ];
    assert_eq!(own, known);
}
