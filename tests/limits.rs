//! Jobs over their limits, in the real binary: each ends by its limit, names it, and affects no other job.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/python.rs"]
mod python;
#[path = "support/sandbox.rs"]
mod sandbox;

use std::fs;
use std::path::{Path, PathBuf};

use python::{counts, ended, pool, put, result, run, start_file, touch};
use sandbox::{Running, Sandbox, Setting, in_all_settings, is_root, wait_until};
use serde_json::{Value, json};

/// A pool of programs with limits.
fn programs<'a>(sandbox: &'a Sandbox, limits: &str) -> Running<'a> {
    start_file(sandbox, &format!("pools: [{{name: default, grace: 300ms, limits: {limits}}}]\n"))
}

/// A pool of Python workers with limits.
fn workers<'a>(sandbox: &'a Sandbox, mode: &str, settings: &str) -> Running<'a> {
    let pool = format!("{{name: default, mode: {mode}, grace: 300ms, {settings}, PYTHON heavy}}");
    start_file(sandbox, &format!("pools: [{pool}]\n"))
}

fn program(sandbox: &Sandbox, argv: &[&str]) -> Value {
    let jid = sandbox.put(argv);
    ended(sandbox, &jid)
}

#[track_caller]
fn assert_ended_by(job: &Value, limit: &str, signals: &[&str]) {
    let failure = &job["failure"];
    assert_eq!((&job["state"], &failure["group"]), (&json!("failed"), &json!(limit)), "{job}");
    assert_eq!(job["crashes"], 0, "a limit is no crash: {job}");
    let message = failure["message"].as_str().unwrap();
    // Where the cgroup has the same bound the kernel may kill first.
    let by_kernel = message.starts_with("the kernel ended it at its limit of ");
    assert!(message.contains("limit is") || by_kernel && limit == "memory limit", "{message}");
    let signals = if by_kernel { &[] } else { signals };
    let sent = job["forensics"]["signals"].as_array().unwrap();
    let sent: Vec<(&str, &str)> =
        sent.iter().map(|sent| (sent["signal"].as_str().unwrap(), sent["why"].as_str().unwrap())).collect();
    let expected: Vec<(&str, &str)> = signals.iter().map(|signal| (*signal, limit)).collect();
    assert_eq!(sent, expected, "{job}");
}

/// Limits enforced by polling alone, and by the kernel too.
const WAYS: [Setting; 2] = [Setting::Root, Setting::RootCgroup];

const HOG: &str = "import time\nkept = [bytearray(b'x' * 10_000_000) for _ in range(40)]\ntime.sleep(1000)";

#[test]
fn program_over_its_memory_limit_is_killed_and_its_page_names_the_limit() {
    in_all_settings(|sandbox| {
        let _running = programs(sandbox, "{memory: 100MB}");
        let job = program(sandbox, &["python3", "-c", HOG]);
        assert_ended_by(&job, "memory limit", &["KILL"]);
        let shown = sandbox.ok(&["job", "show", job["id"].as_str().unwrap()]);
        let named = ["the limit is 100 MB", "its limit of 100 MB"].iter().any(|words| shown.contains(words));
        assert!(shown.contains("memory limit") && named, "{shown}");
        sandbox.assert_calm();
    });
}

#[test]
fn memory_limit_counts_the_sum_of_a_process_tree() {
    in_all_settings(|sandbox| {
        let _running = programs(sandbox, "{memory: 150MB}");
        let child = "import time\nkept = bytearray(b'x' * 40_000_000)\ntime.sleep(1000)";
        let tree = "for i in 1 2 3 4 5; do setsid python3 -c \"$0\" & done; wait";
        let job = program(sandbox, &["sh", "-c", tree, child]);
        assert_ended_by(&job, "memory limit", &["KILL"]);
        sandbox.assert_calm();
    });
}

#[test]
fn memory_shared_by_forked_processes_counts_once() {
    let sandbox = python::new();
    let _running = programs(&sandbox, "{memory: 150MB}");
    let family = "import os, time\nkept = b'x' * 80_000_000\npids = []\nfor _ in range(4):\n    pid = os.fork()\n    if not pid:\n        time.sleep(0.5)\n        os._exit(0)\n    pids.append(pid)\nfor pid in pids: os.waitpid(pid, 0)";
    let job = program(&sandbox, &["python3", "-c", family]);
    assert_eq!(job["state"], "complete", "400 MB resident, and 80 MB in truth: {job}");
}

#[test]
fn memory_hog_in_a_prefork_or_fork_worker_fails_alone() {
    for (mode, setting) in WAYS.map(|setting| [("prefork", setting), ("fork", setting)]).as_flattened() {
        let sandbox = Sandbox::new(*setting);
        let _running = workers(&sandbox, mode, "workers: 2, limits: {memory: 150MB}");
        let job = run(&sandbox, "hog", "null");
        assert_ended_by(&job, "memory limit", &["KILL"]);
        assert_eq!(run(&sandbox, "look", "null")["state"], "complete", "{mode}");
    }
}

#[test]
fn memory_hog_in_a_coroutine_worker_is_found_and_its_neighbours_are_spared() {
    WAYS.map(Sandbox::new).iter().for_each(a_hog_harms_no_neighbour);
}

fn a_hog_harms_no_neighbour(sandbox: &Sandbox) {
    let _running = workers(sandbox, "coroutine", "concurrency: 10, limits: {memory: 150MB}");
    let near: Vec<String> = (0..5).map(|_| put(sandbox, "neighbour", "null")).collect();
    let hog = put(sandbox, "hog.async", "null");
    wait_until("all run", || {
        let slots = pool(sandbox, "default")["slots"].clone();
        slots[0]["jobs"].as_array().is_some_and(|jobs| jobs.len() == 6)
    });
    touch(sandbox, "go");
    for jid in near {
        let job = ended(sandbox, &jid);
        assert_eq!((result(&job), counts(&job)), (json!("unharmed"), [1, 0, 0]), "{job}");
    }
    assert_ended_by(&ended(sandbox, &hog), "memory limit", &["KILL"]);
}

#[test]
fn job_over_its_cpu_limit_gets_term_and_then_kill() {
    in_all_settings(|sandbox| {
        let _running = programs(sandbox, "{cpu: 200ms}");
        let job = program(sandbox, &["sh", "-c", "while :; do :; done"]);
        assert_ended_by(&job, "cpu limit", &["TERM"]);
        let deaf = "trap '' TERM; (while :; do :; done) & while :; do :; done";
        assert_ended_by(&program(sandbox, &["sh", "-c", deaf]), "cpu limit", &["TERM", "KILL"]);
        sandbox.assert_calm();
    });
}

#[test]
fn cpu_limit_counts_ended_children_but_not_earlier_jobs() {
    let sandbox = python::new();
    let _running = workers(&sandbox, "prefork", "limits: {cpu: 600ms}");
    let pids: Vec<Value> = (0..3).map(|_| result(&run(&sandbox, "burns", "0.3"))).collect();
    assert!(pids.iter().all(|pid| *pid == pids[0]), "one worker has run them all");
    assert_ended_by(&run(&sandbox, "burns", "1000"), "cpu limit", &["TERM"]);
    drop(_running);

    let sandbox = python::new();
    let _running = programs(&sandbox, "{cpu: 600ms}");
    let many = "import os, time\ndef burn():\n    end = time.process_time() + 0.1\n    while time.process_time() < end: pass\n    os._exit(0)\nwhile True:\n    pid = os.fork()\n    if not pid: burn()\n    os.waitpid(pid, 0)";
    assert_ended_by(&program(&sandbox, &["python3", "-c", many]), "cpu limit", &["TERM"]);
}

#[test]
fn a_job_with_too_many_processes_is_killed_as_a_whole() {
    in_all_settings(|sandbox| {
        let _running = programs(sandbox, "{processes: 20}");
        let crowd = "for i in $(seq 40); do setsid sleep 1000 & done; wait";
        assert_ended_by(&program(sandbox, &["sh", "-c", crowd]), "process limit", &["KILL"]);
        sandbox.assert_calm();
    });
}

#[test]
fn fork_bomb_is_killed_at_its_process_limit() {
    let Some(cell) = Cell::new() else { return };
    for setting in [Setting::RootCgroup, Setting::Root] {
        let sandbox = Sandbox::new(setting);
        let _running = programs(&sandbox, "{processes: 50}");
        let bomb = "echo $$ > \"$0\"; b() { b | b & }; b; b; sleep 1000";
        let job = program(&sandbox, &["bash", "-c", bomb, &cell.procs()]);
        assert_ended_by(&job, "process limit", &["KILL"]);
        sandbox.assert_calm();
    }
}

/// A cgroup for at most 400 processes.
struct Cell(PathBuf);

impl Cell {
    fn new() -> Option<Cell> {
        let pids = Path::new("/sys/fs/cgroup/pids");
        if !is_root() || !pids.join("cgroup.procs").exists() {
            sandbox::missing("pids");
            return None;
        }
        let cell = pids.join(format!("taskvisor-test-limits-{}", std::process::id()));
        fs::create_dir(&cell).unwrap();
        fs::write(cell.join("pids.max"), "400").unwrap();
        Some(Cell(cell))
    }

    fn procs(&self) -> String {
        self.0.join("cgroup.procs").display().to_string()
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        wait_until("the cell is empty", || fs::remove_dir(&self.0).is_ok());
    }
}

#[test]
fn job_over_its_output_limit_is_terminated() {
    in_all_settings(|sandbox| {
        let _running = programs(sandbox, "{output: 20MB}");
        let job = program(sandbox, &["yes"]);
        assert_ended_by(&job, "output limit", &["TERM"]);
        let log = sandbox.ok(&["job", "logs", job["id"].as_str().unwrap()]);
        assert!(log.contains("was dropped"), "what is kept of it has a cap of its own");
        sandbox.assert_calm();
    });
}

#[test]
fn worker_is_told_to_end_a_job_over_its_output_limit() {
    let sandbox = python::new();
    let running = workers(&sandbox, "prefork", "limits: {output: 2MB}");
    assert_ended_by(&run(&sandbox, "prints", "3"), "output limit", &["TERM"]);
    drop(running);
    let sandbox = python::new();
    let _running = workers(&sandbox, "coroutine", "limits: {output: 2MB}");
    assert_ended_by(&run(&sandbox, "prints.async", "null"), "output limit", &[]);
}

#[test]
fn limits_of_a_class_apply_and_class_limits_of_the_file_win() {
    let sandbox = python::new();
    let running = workers(&sandbox, "fork", "limits: {memory: 10GB}");
    assert_ended_by(&run(&sandbox, "hog.class", "null"), "memory limit", &["KILL"]);
    drop(running);
    let sandbox = python::new();
    let settings = "class_limits: {hog: {memory: 100MB}, burns: {cpu: 100ms}}";
    let _running = workers(&sandbox, "prefork", settings);
    assert_ended_by(&run(&sandbox, "hog", "null"), "memory limit", &["KILL"]);
    assert_ended_by(&run(&sandbox, "burns", "1000"), "cpu limit", &["TERM"]);
    assert_eq!(run(&sandbox, "look", "null")["state"], "complete");
}

#[test]
fn status_names_a_worker_over_the_memory_limit_before_its_first_job() {
    for mode in ["prefork", "fork"] {
        let sandbox = python::new();
        let pool = format!("{{name: default, mode: {mode}, limits: {{memory: 1MB}}, PYTHON heavy}}");
        let file = python::file(&sandbox, &format!("pools: [{pool}]\n"));
        let jid = put(&sandbox, "look", "null");
        let _running = sandbox.start_raw(&["-c", &file]);
        wait_until("status says why", || {
            let text = String::from_utf8(sandbox.run(&["status"]).stdout).unwrap();
            text.contains("of memory before its first job, and limits.memory of its pool is 1 MB")
        });
        assert_eq!(counts(&sandbox.job(&jid)), [0, 0, 0]);
        assert_eq!(sandbox.state(&jid), "waiting");
    }
}

#[test]
fn processes_have_the_rlimits_nice_and_oom_score_of_their_pool() {
    let sandbox = python::new();
    let _running = programs(&sandbox, "{open_files: 200, nice: 7, oom_score_adj: 300}");
    let look = "ulimit -Sn; ulimit -Hn; nice; cat /proc/self/oom_score_adj";
    let job = program(&sandbox, &["sh", "-c", look]);
    assert_eq!(sandbox.ok(&["job", "logs", job["id"].as_str().unwrap()]), "200\n200\n7\n300\n");
    drop(_running);
    for mode in ["prefork", "fork"] {
        let sandbox = python::new();
        let _running = workers(&sandbox, mode, "limits: {open_files: 200, nice: 7, oom_score_adj: 300}");
        assert_eq!(result(&run(&sandbox, "means", "null")), json!([200, 200, 7, 300]), "{mode}");
    }
}

#[test]
fn processes_of_jobs_die_for_want_of_memory_before_keeper_and_supervisor() {
    let score = |pid: i32| -> i64 {
        std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap().trim().parse().unwrap()
    };
    let own = score(std::process::id() as i32);
    let above = |sandbox: &Sandbox, found: i64, what: &str| {
        let services = ["taskvisor", "tv-supervisor"].map(|name| score(sandbox.one(name)));
        assert_eq!(services, [own; 2], "{what}");
        assert!(found > own.max(0) && found <= 1000, "{what}: {found}");
    };
    in_all_settings(|sandbox| {
        let _running = programs(sandbox, "{}");
        let job = program(sandbox, &["cat", "/proc/self/oom_score_adj"]);
        let found = sandbox.ok(&["job", "logs", job["id"].as_str().unwrap()]);
        above(sandbox, found.trim().parse().unwrap(), "a program");
    });
    for mode in ["prefork", "fork", "coroutine"] {
        let sandbox = python::new();
        let _running = workers(&sandbox, mode, "limits: {}");
        let child = result(&run(&sandbox, "child_score", "null")).as_i64().unwrap();
        above(&sandbox, child, &format!("a child of a worker of mode {mode}"));
        if mode == "coroutine" {
            continue;
        }
        let found = || result(&run(&sandbox, "means", "null"))[3].as_i64().unwrap();
        above(&sandbox, found(), mode);
        above(&sandbox, found(), mode);
    }
}

#[test]
fn limits_that_only_root_can_raise_are_refused_at_start() {
    let sandbox = Sandbox::new(Setting::Plain);
    for (limits, words) in [
        ("nice: -5", "limits.nice is -5: only root may go below 0"),
        ("oom_score_adj: -5", "limits.oom_score_adj is -5: only root may go below"),
        ("open_files: 99999999999", "limits.open_files is 99999999999: only root may go above"),
    ] {
        let file = python::file(&sandbox, &format!("pools: [{{name: a, limits: {{{limits}}}}}]\n"));
        let output = sandbox.run(&["start", "-c", &file]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(77), "{said}");
        assert!(said.contains(words) && said.contains("pool 'a'"), "{said}");
    }
}

#[test]
fn invalid_limits_are_refused_with_their_place() {
    let sandbox = python::new();
    for (settings, words) in [
        ("limits: {memory: 0}", "limits.memory is 0: no job could run"),
        ("limits: {cpu: 0s}", "limits.cpu is 0: no job could run"),
        ("limits: {memory: -5MB}", "'-5MB' is no size like 512MB, 1GiB or 100kB"),
        ("limits: {memory: -5}", "'-5' is no size like 512MB, 1GiB or 100kB"),
        ("limits: {output: 3XB}", "'3XB' is no size like 512MB, 1GiB or 100kB"),
        ("limits: {processes: -1}", "invalid type: integer `-1`, expected u64"),
        ("limits: {memroy: 1MB}", "unknown setting 'memroy'"),
        ("limits: {time: 3s, soft_time: 3s}", "limits.soft_time is not before limits.time"),
        ("limits: {nice: 20}", "limits.nice is 20, and can be -20 to 19"),
        ("limits: {oom_score_adj: 1001}", "limits.oom_score_adj is 1001, and can be -1000 to 1000"),
        ("limits: {open_files: 3}", "limits.open_files is 3: no program could run with fewer than 128"),
        (
            "class_limits: {a: {nice: 3}}",
            "class_limits.a.nice cannot be held: a worker has it for all classes",
        ),
        ("class_limits: {a: {cpu: 0s}}", "class_limits.a.cpu is 0: no job could run"),
        ("class_limits: {a.*: {cpu: 1s}}", "'a.*' in class_limits is no name of a class"),
        ("class_limits: {a: {cpu: 1s}, a: {cpu: 2s}}", "the setting 'a' is given twice"),
        ("command: x, recycle: {memory: 0}", "recycle.memory is 0: no job could run"),
        ("recycle: {memory: 1MB}", "there is none to recycle"),
        ("mode: coroutine, command: x, limits: {cpu: 1s}", "limits.cpu cannot be held: the jobs of a worker"),
        (
            "mode: coroutine, command: x, class_limits: {a: {memory: 1GB}}",
            "class_limits.a.memory cannot be held",
        ),
    ] {
        let file = python::file(&sandbox, &format!("pools:\n  - {{name: a, {settings}}}\n"));
        let output = sandbox.run(&["start", "-c", &file]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(78), "{settings}: {said}");
        assert!(said.contains(words) && said.contains("pools.yaml:2:"), "{settings}: {said}");
    }
}

#[test]
fn job_gets_soft_time_limit_exceeded_and_may_still_complete() {
    for (mode, class) in [("prefork", "soft"), ("fork", "soft"), ("coroutine", "soft.async")] {
        let sandbox = python::new();
        let _running = workers(&sandbox, mode, "limits: {soft_time: 200ms, time: 30s}");
        assert_eq!(result(&run(&sandbox, class, "true")), json!("in time"), "{mode}");
        let job = run(&sandbox, class, "false");
        let failure = &job["failure"];
        assert_eq!(
            (&job["state"], &failure["group"]),
            (&json!("failed"), &json!("SoftTimeLimitExceeded")),
            "{job}"
        );
        assert_eq!(failure["message"], "the soft time limit of 0.2 s is over", "{job}");
        assert_eq!(run(&sandbox, "look", "null")["state"], "complete", "{mode}");
    }
}

#[test]
fn worker_that_begins_above_its_recycle_size_is_not_replaced_again_and_again() {
    for (mode, class) in [("prefork", "keeps"), ("coroutine", "keeps.async")] {
        let sandbox = python::new();
        let _running = workers(&sandbox, mode, "recycle: {memory: 1MB}");
        let pid = || result(&run(&sandbox, "look", "null"));
        let first = pid();
        assert_eq!([pid(), pid()], [first.clone(), first.clone()], "{mode}");
        let why = "of memory before its first job, and recycle.memory of its pool is 1 MB";
        let seen = sandbox.status()["pools"][0]["slots"][0]["warning"].as_str().unwrap().to_owned();
        for said in [seen, sandbox.stderr(), sandbox.ok(&["why", "pool", "default"])] {
            assert!(said.contains(why), "{mode}: {said}");
        }
        // It is replaced once it has grown to twice its first size.
        assert_eq!(result(&run(&sandbox, class, "150")), first, "{mode}");
        wait_until("another worker is there", || pid() != first);
    }
}

#[test]
fn worker_that_outgrew_its_recycle_size_is_recycled_after_its_job() {
    for (mode, class) in [("prefork", "keeps"), ("coroutine", "keeps.async")] {
        let sandbox = python::new();
        let _running = workers(&sandbox, mode, "recycle: {memory: 120MB}");
        let pid = || result(&run(&sandbox, "look", "null"));
        let first = pid();
        assert_eq!(result(&run(&sandbox, class, "20")), first, "{mode}");
        assert_eq!(pid(), first, "20 MB are none too many in mode {mode}");
        assert_eq!(result(&run(&sandbox, class, "150")), first, "{mode}");
        wait_until("another worker is there", || pid() != first);
    }
}

/// A stranger stops the process of a job for longer than the job may run, and lets it go on.
fn check_stopped(sandbox: &Sandbox, put: impl Fn(&Sandbox) -> String) {
    let jid = put(sandbox);
    wait_until("it runs", || sandbox.work("begun-a").exists());
    let slot = || sandbox.status()["pools"][0]["slots"][0].clone();
    let pid = slot()["process"]["pid"].as_i64().unwrap() as i32;
    sandbox::kill(pid, "STOP");
    wait_until("it has been stopped for long", || slot()["jobs"][0]["stopped"].as_f64() > Some(16.0));
    let said = sandbox.ok(&["why", "job", &jid]);
    assert!(said.contains("has been stopped by a signal for "), "{said}");
    let reasons = sandbox.status()["reasons"].to_string();
    assert!(reasons.contains("the process of slot default.1 is stopped (state T)"), "{reasons}");
    sandbox::kill(pid, "CONT");
    touch(sandbox, "go");
    let job = ended(sandbox, &jid);
    assert_eq!((&job["state"], counts(&job)), (&json!("complete"), [1, 0, 0]), "{job}");
}

#[test]
fn time_for_which_a_stranger_stops_a_program_counts_towards_no_limit() {
    let sandbox = python::new();
    let _running = programs(&sandbox, "{time: 15s}");
    let script = "echo > begun-a; until [ -e go ]; do sleep 0.05; done";
    check_stopped(&sandbox, |sandbox| sandbox.put(&["sh", "-c", script]));
}

#[test]
fn time_for_which_a_stranger_stops_a_worker_counts_towards_no_limit() {
    for (mode, class) in [("prefork", "hold"), ("coroutine", "hold.async")] {
        let sandbox = python::new();
        let settings =
            format!("{{name: default, mode: {mode}, workers: 1, limits: {{time: 15s}}, PYTHON app}}");
        let _running = start_file(&sandbox, &format!("pools: [{settings}]\n"));
        check_stopped(&sandbox, |sandbox| python::put(sandbox, class, "\"a\""));
    }
}

#[test]
fn time_for_which_a_worker_is_stopped_counts_towards_no_limit_of_its_own() {
    for (mode, class) in [("prefork", "stands"), ("fork", "stands"), ("coroutine", "stands.async")] {
        let sandbox = python::new();
        let _running = workers(&sandbox, mode, "limits: {soft_time: 3s, time: 60s}");
        let jid = python::put(&sandbox, class, "null");
        wait_until("it runs", || sandbox.work("begun-a").exists());
        let slot = || sandbox.status()["pools"][0]["slots"][0].clone();
        let pid = slot()["process"]["pid"].as_i64().unwrap() as i32;
        sandbox::kill(pid, "STOP");
        wait_until("it has been stopped for long", || slot()["jobs"][0]["stopped"].as_f64() > Some(4.0));
        sandbox::kill(pid, "CONT");
        touch(&sandbox, "go");
        let job = ended(&sandbox, &jid);
        assert!(job["result"].as_f64() > Some(57.0), "{mode}: {job}");
    }
}

#[test]
fn job_whose_worker_dies_is_not_charged_with_what_that_used_before() {
    for mode in ["prefork", "coroutine"] {
        let sandbox = python::new();
        let pool = format!("{{name: default, mode: {mode}, workers: 1, PYTHON slow}}");
        let _running = start_file(&sandbox, &format!("pools: [{pool}]\n"));
        let first = run(&sandbox, "dies", "null");
        assert!(first["forensics"]["cpu"].as_f64() < Some(0.5), "{mode}: {first}");
        assert_eq!(run(&sandbox, "lives", "null")["state"], "complete", "{mode}");
        let later = run(&sandbox, "dies", "null");
        assert_eq!(later["forensics"]["cpu"], Value::Null, "{mode}: nobody knows it: {later}");
        let page = sandbox.ok(&["job", "show", later["id"].as_str().unwrap()]);
        assert!(!page.contains("cpu"), "{mode}: {page}");
    }
}
