//! Pools: who takes which jobs in which order, how many workers there are and who they are, and workers in other languages.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/python.rs"]
mod python;
#[path = "support/sandbox.rs"]
mod sandbox;

use std::fs;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use python::{
    counts, ended, pid_of, pool, put, put_lines, result, run, start, start_file, status, touch, words,
};
use sandbox::{Sandbox, is_root, wait_until};
use serde_json::{Value, json};

fn put_into(sandbox: &Sandbox, queue: &str, class: &str) -> String {
    sandbox.ok(&["put", queue, class]).trim().to_owned()
}

fn skipped(why: &str) {
    println!("skipped: {why}");
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn log(sandbox: &Sandbox, job: &Value) -> String {
    sandbox.ok(&["job", "logs", job["id"].as_str().unwrap()])
}

#[test]
fn pools_of_different_modes_take_each_its_own_queue_and_one_that_cannot_boot_hurts_no_other() {
    let sandbox = python::new();
    let text = "pools:
  - {name: broken, workers: 2, queues: [never], PYTHON broken}
  - {name: one, mode: prefork, queues: [q.one], PYTHON app}
  - {name: two, mode: fork, workers: 2, queues: [q.two], PYTHON app}
  - {name: three, mode: coroutine, queues: [q.three], PYTHON app}
  - {name: four, queues: [default]}";
    let path = python::file(&sandbox, text);
    let _running = sandbox.start_raw(&["-c", &path]);
    wait_until("it listens", || status(&sandbox).is_object());
    let never = put_into(&sandbox, "never", "where");
    let own = [("one", "prefork"), ("two", "fork"), ("three", "coroutine")];
    let jids: Vec<String> =
        own.iter().map(|(name, _)| put_into(&sandbox, &format!("q.{name}"), "where")).collect();
    for (jid, (name, mode)) in jids.iter().zip(own) {
        assert_eq!(result(&ended(&sandbox, jid)), json!([name, mode]));
    }
    let program = sandbox.put(&["true"]);
    assert_eq!(ended(&sandbox, &program)["state"], "complete");
    wait_until("the broken one is probing", || pool(&sandbox, "broken")["probing"].is_string());
    for (name, _) in own {
        let again = put_into(&sandbox, &format!("q.{name}"), "where");
        assert_eq!(result(&ended(&sandbox, &again))[0], name);
        assert!(pool(&sandbox, name)["probing"].is_null());
    }
    assert_eq!(sandbox.state(&never), "waiting");
}

/// Queues C, B and A hold 3, 2 and 5 jobs: the order in which they begin. A worker that runs 8 at a time takes 8 in its first
/// fetch, and begins them in the order in which they were given to it.
fn taken(order: &str, mode: &str, concurrency: u32) -> String {
    let sandbox = python::new();
    let class = if mode == "coroutine" { "queue.async" } else { "queue" };
    for (queue, count) in [("A", 5), ("B", 2), ("C", 3)] {
        put_lines(&sandbox, queue, class, &[], &vec!["null".into(); count]);
    }
    let text = format!(
        "pools: [{{mode: {mode}, concurrency: {concurrency}, order: {order}, queues: [C, B, A], PYTHON app}}]"
    );
    let _running = start_file(&sandbox, &text);
    let order = || fs::read_to_string(sandbox.work("order")).unwrap_or_default();
    wait_until("all have run", || order().len() == 10);
    order()
}

#[test]
fn jobs_are_taken_from_the_first_queue_that_has_one() {
    assert_eq!(taken("ordered", "prefork", 1), "CCCBBAAAAA");
    assert_eq!(taken("ordered", "coroutine", 8), "CCCBBAAAAA");
}

#[test]
fn jobs_are_taken_from_each_queue_in_turn() {
    assert_eq!(taken("round_robin", "prefork", 1), "CBACBACAAA");
    assert_eq!(taken("round_robin", "coroutine", 8), "CBACBACAAA");
}

/// Eight slots fetch at once: the jobs come to all three queues in one put, and the first job goes to the first slot.
fn taken_at_once(order: &str) -> String {
    let sandbox = python::new();
    let text = format!("pools: [{{workers: 8, order: {order}, queues: [C, B, A], PYTHON app}}]");
    let _running = start_file(&sandbox, &text);
    let put = "from taskvisor import NewJob, put_many
put_many([NewJob(queue, 'hold', f'{queue}{n}') for n in range(5) for queue in 'ABC' if n < {'A': 5, 'B': 2, 'C': 3}[queue]])";
    let mut python = Command::new("python3");
    python.args(["-c", put]).env("PYTHONPATH", python::path()).env("TASKVISOR_RUN_DIR", sandbox.path("run"));
    assert!(python.status().unwrap().success());
    wait_until("all are at work", || words(&sandbox, "begun-") == 8);
    let slots = python::slots(&sandbox);
    let jids = slots.iter().map(|slot| slot["jobs"][0]["id"].as_str().unwrap());
    let order = jids.map(|jid| sandbox.job(jid)["queue"].as_str().unwrap().to_owned()).collect();
    touch(&sandbox, "go");
    wait_until("all have run", || python::all(&sandbox, "complete").len() == 10);
    order
}

#[test]
fn eight_slots_that_fetch_at_once_keep_the_order_of_the_queues() {
    assert_eq!(taken_at_once("ordered"), "CCCBBAAA");
    assert_eq!(taken_at_once("round_robin"), "CBACBACA");
}

#[test]
fn shuffled_queues_are_all_served() {
    for (mode, concurrency) in [("prefork", 1), ("coroutine", 8)] {
        let mut taken: Vec<char> = taken("shuffled", mode, concurrency).chars().collect();
        taken.sort();
        assert_eq!(taken.into_iter().collect::<String>(), "AAAAABBCCC");
    }
}

#[test]
fn two_pools_on_one_queue_take_each_its_own_classes() {
    let sandbox = python::new();
    let text = "pools:
  - {name: many, classes: [many.*], except_classes: [many.Two], PYTHON app}
  - {name: others, except_classes: [many.One], PYTHON app}";
    let _running = start_file(&sandbox, text);
    for _ in 0..5 {
        assert_eq!(result(&run(&sandbox, "many.One", "null")), "many");
        assert_eq!(result(&run(&sandbox, "many.Two", "null")), "others");
        assert_eq!(result(&run(&sandbox, "where", "null"))[0], "others");
    }
}

#[test]
fn a_class_that_no_worker_knows_comes_back_later_and_later_until_one_does() {
    let sandbox = python::new();
    let running = start(&sandbox, "prefork", "app", &["-w", "1"]);
    let jid = put(&sandbox, "later.Class", "null");
    let due = |times: u64| {
        let mut job = Value::Null;
        wait_until("nobody knew it", || {
            job = sandbox.job(&jid);
            job["state"] == "delayed" && job["unknown"] == times
        });
        assert_eq!(counts(&job), [0, 0, 0], "{job}");
        job["due_at"].as_i64().unwrap()
    };
    let first = due(1);
    assert_eq!(pool(&sandbox, "default")["unknown"], json!({"later.Class": 1}));
    assert!(sandbox.ok(&["status"]).contains("known to no worker: later.Class (1)"));
    assert_eq!(run(&sandbox, "look", "null")["state"], "complete");
    let second = due(2);
    assert!(second - first >= 2000, "1 s at first, then 2 s: {}", second - first);
    sandbox.ok(&["stop"]);
    drop(running);
    let _running =
        start_file(&sandbox, "pools: [{name: old, queues: [other], PYTHON app}, {name: new, PYTHON later}]");
    let job = ended(&sandbox, &jid);
    assert_eq!((result(&job), counts(&job)), (json!("known"), [1, 0, 0]), "{job}");
}

#[test]
fn a_class_that_no_worker_knew_ten_times_is_held() {
    let sandbox = python::new();
    let jid = put(&sandbox, "later.Class", "null");
    let store = rusqlite::Connection::open(sandbox.path("state").join("store.db")).unwrap();
    assert_eq!(store.execute("UPDATE job SET unknown = 10", []).unwrap(), 1);
    drop(store);
    let _running = start(&sandbox, "prefork", "app", &["-w", "1"]);
    let job = ended(&sandbox, &jid);
    assert_eq!((&job["state"], &job["failure"]["group"]), (&json!("held"), &json!("unknown class")), "{job}");
}

/// Shrinking takes a minute: the simulation has it.
#[test]
fn a_pool_grows_by_one_a_second_while_jobs_wait_and_not_beyond_its_limit() {
    let sandbox = python::new();
    let _running = start_file(&sandbox, "pools: [{workers: {min: 1, max: 3}, PYTHON app}]");
    let slots = || python::slots(&sandbox).len();
    assert_eq!(slots(), 1);
    let names: Vec<String> = (0..6).map(|number| format!("\"{number}\"")).collect();
    let begin = Instant::now();
    let jids = put_lines(&sandbox, "default", "hold", &[], &names);
    wait_until("there are two", || slots() == 2);
    let second = begin.elapsed();
    wait_until("there are three", || slots() == 3);
    let third = begin.elapsed();
    assert!(
        second > Duration::from_millis(900) && third > Duration::from_millis(1900),
        "{second:?} {third:?}"
    );
    wait_until("all are at work", || words(&sandbox, "begun-") == 3);
    let full = Instant::now();
    wait_until("there was time for one more", || full.elapsed() > Duration::from_millis(1500));
    assert_eq!((slots(), words(&sandbox, "begun-")), (3, 3));
    touch(&sandbox, "go");
    for jid in jids {
        assert_eq!(ended(&sandbox, &jid)["state"], "complete");
    }
}

#[test]
fn each_job_finds_an_empty_directory_in_every_kind_of_sandboxed_pool() {
    let sandbox = python::new();
    let look = sandbox.script("look", "#!/bin/sh\nls -A\npwd\necho x > left\n");
    let text = format!(
        "pools:
  - {{name: programs, queues: [programs], sandbox: true}}
  - {{name: run, queues: [run], sandbox: true, run: {look}}}
  - {{name: forked, mode: fork, queues: [forked], sandbox: true, PYTHON app}}"
    );
    let _running = start_file(&sandbox, &text);
    let state = sandbox.path("state").display().to_string();
    for _ in 0..3 {
        let jids = [
            sandbox.ok(&["put", "-q", "programs", "--", &look]),
            put_into(&sandbox, "run", "any"),
            put_into(&sandbox, "forked", "surroundings"),
        ];
        let [programs, run, forked] = jids.map(|jid| ended(&sandbox, jid.trim()));
        for job in [programs, run] {
            assert_eq!(job["state"], "complete", "{job}");
            let log = log(&sandbox, &job);
            assert!(log.lines().count() == 1 && log.starts_with(&state), "{log}");
        }
        let seen = result(&forked);
        assert!(seen["cwd"].as_str().unwrap().starts_with(&state), "{seen}");
        assert_eq!(seen["found"], json!([]), "{seen}");
    }
}

#[test]
fn workers_have_the_umask_directory_and_variables_of_their_pool_and_no_others() {
    let sandbox = python::new();
    fs::create_dir(sandbox.work("there")).unwrap();
    let text = "pools: [{mode: fork, umask: '027', cwd: there, PYTHON app}]";
    let path = python::file(&sandbox, text);
    let _running = sandbox.start_with(&["-c", &path, "--env", "WANTED_*"], |command| {
        command.env("WANTED_A", "1").env("SECRET_TOKEN", "x");
    });
    wait_until("it listens", || status(&sandbox).is_object());
    let seen = result(&run(&sandbox, "surroundings", "null"));
    assert_eq!(seen["mode"], 0o750);
    assert_eq!(seen["cwd"], sandbox.work("there").display().to_string());
    assert_eq!((&seen["env"]["WANTED_A"], &seen["env"]["SECRET_TOKEN"]), (&json!("1"), &Value::Null));
    assert!(sandbox.work("there/made").exists());
}

#[test]
fn workers_are_the_user_and_group_of_their_pool() {
    if !is_root() {
        return skipped("only root can set a user");
    }
    let sandbox = python::new();
    let waits = sandbox.script(
        "waits",
        "#!/bin/sh\necho \"$HOME $USER $LOGNAME\"\nwhile [ ! -e \"$1/go\" ]; do sleep 0.02; done\n",
    );
    let text = format!(
        "pools:
  - {{name: user, queues: [user], user: nobody}}
  - {{name: both, queues: [both], user: nobody, group: daemon, run: [{waits}, {dir}]}}",
        dir = sandbox.path("work").display()
    );
    let _running = start_file(&sandbox, &text);
    let jids = [
        sandbox.ok(&["put", "-q", "user", "--", &waits, sandbox.path("work").to_str().unwrap()]),
        put_into(&sandbox, "both", "any"),
    ];
    let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
    let daemon = nix::unistd::Group::from_name("daemon").unwrap().unwrap();
    for (name, gid) in [("user", nobody.gid), ("both", daemon.gid)] {
        let mut pid = 0;
        wait_until("the job runs", || {
            let slot = pool(&sandbox, name)["slots"][0].clone();
            let runs = slot["state"] == "busy" && slot["process"]["name"] == "waits";
            pid = if runs { pid_of(&slot["process"]) } else { 0 };
            runs
        });
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let ids = |field: &str| {
            let line = status.lines().find(|line| line.starts_with(field)).unwrap();
            line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(ids("Uid:"), vec![nobody.uid.to_string(); 4]);
        assert_eq!(ids("Gid:"), vec![gid.to_string(); 4]);
        assert!(!ids("Groups:").contains(&"0".to_owned()), "{status}");
    }
    touch(&sandbox, "go");
    for jid in jids {
        let job = ended(&sandbox, jid.trim());
        assert_eq!(job["state"], "complete", "{job}");
        assert_eq!(log(&sandbox, &job), format!("{} nobody nobody\n", nobody.dir.display()));
    }
}

/// Takes one job after the other, each in its directory; needs nothing that only root may read.
const PLAIN_WORKER: &str = r#"#!/bin/bash
echo '{"hello":{"protocol":1,"sdk":"bash"}}
{"ready":{}}' >&3
field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p" <<<"$frame"; }
while IFS= read -r frame <&3; do
    [ -n "$(field cwd)" ] || continue
    cd "$(field cwd)" && echo "$(id -u) $(pwd) $(ls -A)" && touch made || exit 1
    echo "{\"done\":{\"job\":\"$(field id)\",\"fence\":$(field fence),\"outcome\":\"complete\"}}" >&3
done
"#;

#[test]
fn workers_of_another_user_find_their_way_to_the_directory_of_each_job() {
    if !is_root() {
        return skipped("only root can set a user");
    }
    let sandbox = python::new();
    let worker = sandbox.script("worker", PLAIN_WORKER);
    let text = format!("pools: [{{sandbox: true, user: nobody, retries: 0, command: {worker}}}]");
    let _running = start_file(&sandbox, &text);
    let uid = nix::unistd::User::from_name("nobody").unwrap().unwrap().uid;
    let dir = sandbox.path("state").join("sandbox").join("default-1");
    for _ in 0..2 {
        let job = run(&sandbox, "any", "null");
        assert_eq!(job["state"], "complete", "{job}");
        assert_eq!(log(&sandbox, &job), format!("{uid} {} \n", dir.display()));
    }
    // Of the rest of the state they see nothing.
    assert_eq!(sandbox::mode(&sandbox.path("state")), 0o711);
    for name in fs::read_dir(sandbox.path("state")).unwrap().flatten() {
        let mode = sandbox::mode(&name.path());
        assert!(name.file_name() == "sandbox" || mode & 0o077 == 0, "{name:?} {mode:o}");
    }
}

#[test]
fn what_a_forked_job_leaves_running_is_killed_and_counted() {
    let sandbox = python::new();
    let _running = start(&sandbox, "fork", "app", &["-w", "1"]);
    let job = run(&sandbox, "litters", "null");
    assert_eq!(
        (&job["state"], &job["forensics"]["exit"]["left_behind"]),
        (&json!("complete"), &json!(1)),
        "{job}"
    );
    assert!(sandbox.ok(&["job", "show", job["id"].as_str().unwrap()]).contains("1 process, killed"));
}

#[test]
fn a_program_of_a_run_pool_gets_its_data_on_stdin_and_its_class_in_the_environment() {
    let sandbox = python::new();
    let program =
        "#!/bin/sh\necho \"$TASKVISOR_CLASS of $TASKVISOR_QUEUE\"\ncat\nexit \"${TASKVISOR_CLASS#exit.}\"\n";
    let program = sandbox.script("program", program);
    let _running = start_file(&sandbox, &format!("pools: [{{workers: 2, run: {program}}}]"));
    let data = "{\"n\": [1, 2.50]}";
    let good = run(&sandbox, "exit.0", data);
    assert_eq!(good["state"], "complete", "{good}");
    assert_eq!(log(&sandbox, &good), format!("exit.0 of default\n{data}"));
    let bad = run(&sandbox, "exit.4", data);
    assert_eq!((&bad["state"], &bad["failure"]["group"]), (&json!("failed"), &json!("exit 4")), "{bad}");
}

#[test]
fn the_worker_in_shell_of_the_protocol_page_runs_jobs() {
    if !is_there("jq") {
        return skipped("no jq");
    }
    let sandbox = python::new();
    let page = fs::read_to_string("docs/worker-protocol.md").unwrap();
    let script = page.split("```bash\n").nth(1).unwrap().split("```").next().unwrap();
    let script = sandbox.script("worker.sh", script);
    fs::write(sandbox.work("three lines"), "1\n2\n3\n").unwrap();
    let _running =
        sandbox.start(&["-w", "2", "-q", "files", "-m", "prefork", "--retries", "0", "--", &script]);
    let put = |data: &str| ended(&sandbox, sandbox.ok(&["put", "files", "Count", data]).trim());
    for _ in 0..3 {
        assert_eq!(result(&put("{\"path\": \"three lines\"}")), 3);
    }
    let failed = put("{\"path\": \"none\"}");
    assert_eq!((&failed["state"], &failed["failure"]["group"]), (&json!("failed"), &json!("wc")), "{failed}");
    assert!(log(&sandbox, &failed).contains("none: No such file"), "{failed}");
}

#[test]
fn a_worker_in_node_runs_jobs() {
    if !is_there("node") {
        return skipped("no node");
    }
    let sandbox = python::new();
    fs::write(sandbox.work("three"), "1\n2\n3\n").unwrap();
    let worker = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/worker.js");
    let _running = sandbox.start(&["-w", "1", "--retries", "0", "--", "node", worker]);
    let good = run(&sandbox, "text.Count", "{\"path\": \"three\"}");
    assert_eq!(result(&good), 3);
    assert_eq!(good["progress"], json!({"fraction": 0.5, "message": "reading"}), "{good}");
    assert_eq!(log(&sandbox, &good), "reading three\n");
    let bad = run(&sandbox, "text.Count", "{\"path\": \"none\"}");
    assert_eq!((&bad["state"], &bad["failure"]["group"]), (&json!("failed"), &json!("ENOENT")), "{bad}");
    assert_eq!(result(&run(&sandbox, "text.Count", "{\"path\": \"three\"}")), 3);
}

/// Built with the tests, unless only some of them are built.
fn example(name: &str) -> String {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(path.exists(), "{} is not there: cargo build --examples", path.display());
    path.display().to_string()
}

#[test]
fn the_worker_in_rust_runs_jobs_puts_jobs_and_is_canceled() {
    let sandbox = python::new();
    fs::write(sandbox.work("text"), "two words\nand three more\n").unwrap();
    assert!(Command::new("mkfifo").arg(sandbox.work("pipe")).status().unwrap().success());
    let _running = sandbox.start(&["-w", "2", "--retries", "0", "--grace", "1s", "--", &example("worker")]);
    let one = run(&sandbox, "text.Count", "{\"path\": \"text\"}");
    assert_eq!(result(&one), json!({"lines": 2, "words": 5}));
    assert_eq!(
        (&one["progress"]["fraction"], log(&sandbox, &one).as_str()),
        (&json!(0.5), "counting text\n")
    );
    let all = run(&sandbox, "text.CountAll", "[\"text\", \"text\"]");
    for jid in result(&all).as_array().unwrap() {
        assert_eq!(result(&ended(&sandbox, jid.as_str().unwrap()))["words"], 5);
    }
    let bad = run(&sandbox, "text.Count", "{\"path\": \".\"}");
    assert_eq!(bad["state"], "failed", "{bad}");
    let hangs = put(&sandbox, "text.Count", "{\"path\": \"pipe\"}");
    wait_until("it runs", || sandbox.ok(&["job", "logs", &hangs]) == "counting pipe\n");
    sandbox.ok(&["job", "cancel", "--wait", &hangs]);
    assert_eq!(sandbox.state(&hangs), "canceled");
    assert_eq!(run(&sandbox, "text.Count", "{\"path\": \"text\"}")["state"], "complete");
}

#[test]
fn the_asynchronous_worker_in_rust_runs_many_at_once_and_one_is_canceled() {
    let sandbox = python::new();
    let _running = sandbox.start(&["-m", "coroutine", "--", &example("async_worker")]);
    let before = python::slots(&sandbox)[0]["process"]["pid"].clone();
    let long = put(&sandbox, "clock.Wait", "1000");
    let jids = put_lines(&sandbox, "default", "clock.Wait", &[], &vec!["0.3".into(); 50]);
    for jid in jids {
        let job = ended(&sandbox, &jid);
        assert_eq!((result(&job), counts(&job)), (json!(0.3), [1, 0, 0]), "{job}");
        assert_eq!(log(&sandbox, &job), "waiting\n");
    }
    sandbox.ok(&["job", "cancel", "--wait", &long]);
    let canceled = sandbox.job(&long);
    assert_eq!((&canceled["state"], &canceled["forensics"]["signals"]), (&json!("canceled"), &json!([])));
    assert_eq!(python::slots(&sandbox)[0]["process"]["pid"], before, "the worker lives on");
}

/// `put` with this on stdin.
fn put_from(sandbox: &Sandbox, args: &[&str], input: &[u8]) -> Output {
    let file = sandbox.work(".input");
    fs::write(&file, input).unwrap();
    let mut command = sandbox.command(&[&["put"], args].concat());
    command.stdin(fs::File::open(&file).unwrap()).output().unwrap()
}

#[test]
fn data_reaches_its_worker_as_it_was_put() {
    let sandbox = python::new();
    let _running = start(&sandbox, "prefork", "app", &["-w", "2"]);
    fs::write(sandbox.work("data"), "{\"from\": [\"a file\", 1.50]}").unwrap();
    let arrives = |output: Output| -> Value {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let jids = String::from_utf8(output.stdout).unwrap();
        jids.lines().map(|jid| result(&ended(&sandbox, jid))).collect()
    };
    let none = put_from(&sandbox, &["default", "echo"], b"");
    assert_eq!(arrives(none), json!([{"data": null}]));
    let typed = put_from(&sandbox, &["default", "echo", "{\"a\": \"\\u00e4\"}"], b"");
    assert_eq!(arrives(typed), json!([{"data": {"a": "ä"}}]));
    let file = put_from(&sandbox, &["default", "echo", "@data"], b"");
    assert_eq!(arrives(file), json!([{"data": {"from": ["a file", 1.5]}}]));
    let stdin = put_from(&sandbox, &["default", "echo", "-"], b"[1,\n 2]\n");
    assert_eq!(arrives(stdin), json!([{"data": [1, 2]}]));
    let lines = put_from(&sandbox, &["--lines", "default", "echo"], b"1\n\"two\"\n[3]\n");
    assert_eq!(arrives(lines), json!([{"data": 1}, {"data": "two"}, {"data": [3]}]));
    let raw = put_from(&sandbox, &["--raw", "default", "echo", "-"], b"\xff\x00\n");
    assert_eq!(arrives(raw), json!([{"bytes": [255, 0, 10]}]));
    let wrong = put_from(&sandbox, &["default", "echo", "-"], b"{\"a\": 1,\n \"b\" 2}");
    assert_eq!((wrong.status.code(), wrong.stdout.as_slice()), (Some(2), b"".as_slice()));
    let why = String::from_utf8(wrong.stderr).unwrap();
    assert!(why.contains("the data on stdin is not JSON") && why.contains("line 2 column 6"), "{why}");
}

#[test]
fn waits_for_hundreds_of_jobs_are_told_in_the_order_given() {
    let sandbox = python::new();
    let running = sandbox.start(&["-m", "coroutine", "--", &example("async_worker")]);
    let waits: Vec<String> =
        (0..300).map(|number| if number % 7 == 0 { "0.1".into() } else { "0".into() }).collect();
    let mut jids = put_lines(&sandbox, "default", "clock.Wait", &[], &waits);
    let told = |jids: &[String], code: i32| {
        let args: Vec<&str> = ["job", "wait"].into_iter().chain(jids.iter().map(String::as_str)).collect();
        let output = sandbox.run(&args);
        assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let complete = |jids: &[String]| jids.iter().map(|jid| format!("{jid} complete\n")).collect::<String>();
    assert_eq!(told(&jids, 0), complete(&jids));
    sandbox.ok(&["stop"]);
    drop(running);
    assert_eq!(told(&jids, 0), complete(&jids), "without a supervisor too");
    let expected = complete(&jids);
    jids.insert(100, "nobody-knows-it".into());
    assert_eq!(told(&jids, 7), expected, "the others all the same");
}
