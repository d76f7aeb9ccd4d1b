//! Programs with data, and workers in other languages.

use super::*;

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

#[test]
fn run_pool_program_gets_data_on_stdin_and_class_in_its_environment() {
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
fn shell_worker_of_the_protocol_page_runs_jobs() {
    if !is_there("jq") {
        return missing("jq");
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
        let job = put("{\"path\": \"three lines\"}");
        assert_eq!(result(&job), 3);
        assert_eq!(job["forensics"]["left"], json!(null), "{job}");
    }
    let failed = put("{\"path\": \"none\"}");
    assert_eq!((&failed["state"], &failed["failure"]["group"]), (&json!("failed"), &json!("wc")), "{failed}");
    assert!(log(&sandbox, &failed).contains("none: No such file"), "{failed}");
}

#[test]
fn a_worker_in_node_runs_jobs() {
    if !is_there("node") {
        return missing("node");
    }
    let sandbox = python::new();
    fs::write(sandbox.work("three"), "1\n2\n3\n").unwrap();
    let worker = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/worker.js");
    let _running = sandbox.start(&["-w", "1", "--retries", "0", "--", "node", worker]);
    let good = run(&sandbox, "text.Count", "{\"path\": \"three\"}");
    assert_eq!(result(&good), 3);
    assert_eq!(good["progress"], json!({"fraction": 1.0, "message": "reading"}), "{good}");
    assert_eq!(log(&sandbox, &good), "reading three\n");
    let bad = run(&sandbox, "text.Count", "{\"path\": \"none\"}");
    assert_eq!((&bad["state"], &bad["failure"]["group"]), (&json!("failed"), &json!("ENOENT")), "{bad}");
    assert_eq!(result(&run(&sandbox, "text.Count", "{\"path\": \"three\"}")), 3);
}

/// The path of an example program. Cargo builds it with the tests, unless only some of them are built.
pub fn example(name: &str) -> String {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(path.exists(), "{} is not there: cargo build --examples", path.display());
    path.display().to_string()
}

#[test]
fn rust_worker_runs_jobs_puts_jobs_and_cancels() {
    let sandbox = python::new();
    fs::write(sandbox.work("text"), "two words\nand three more\n").unwrap();
    assert!(Command::new("mkfifo").arg(sandbox.work("pipe")).status().unwrap().success());
    let _running = sandbox.start(&["-w", "2", "--retries", "0", "--grace", "1s", "--", &example("worker")]);
    let one = run(&sandbox, "text.Count", "{\"path\": \"text\"}");
    assert_eq!(result(&one), json!({"lines": 2, "words": 5}));
    assert_eq!(
        (&one["progress"]["fraction"], log(&sandbox, &one).as_str()),
        (&json!(1.0), "counting text\n")
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
fn async_rust_worker_runs_many_jobs_at_once_and_cancels_one() {
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

/// Runs `put` with this input on stdin.
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
fn job_wait_answers_for_hundreds_of_jobs_in_the_given_order() {
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
