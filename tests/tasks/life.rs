//! The life of a task: success, failure, retries until the database is back.

use super::*;

#[test]
fn wq_up_starts_with_the_settings_of_its_environment_variables() {
    let sandbox = python::new();
    fs::write(sandbox.work("notify_insert.py"), block("notify_insert.py")).unwrap();
    let path = format!("PYTHONPATH={}", python::path());
    let options = [
        "-w",
        "1",
        "--max-tasks",
        "2",
        "--collect-telemetry-in",
        "measured",
        "--wq",
        "class=Insert",
        "--env",
        &path,
    ];
    let mut command = sandbox.command(&[&["wq", "up"], &options[..]].concat());
    command.args(["--", "python3", "-m", "taskvisor.worker", "notify_insert"]);
    command.env("WQ_MAX_RETRIES", "3").env("WQ_SUCCESS_TTL", "3600");
    let log = fs::File::create(sandbox.path("stderr")).unwrap();
    let mut child = command.stderr(log).stdout(std::process::Stdio::null()).spawn().unwrap();
    wait_until("it is up", || sandbox.path("run/ctl.sock").exists() && sandbox::is_up(&sandbox.status()));
    (0..5).for_each(|n| _ = notify(&sandbox, &[], &room(&format!("r{n}"))));
    wait_until("all have succeeded", || count(&sandbox, "succeeded") == 5);
    let left = get(&sandbox, &format!("{LIST}/summary"), &[])[0]["retries_left"].clone();
    assert_eq!((left, rows(&sandbox)), (json!(3), Some(5)));
    wait_until("the option is set", || sandbox.ok(&["option", "get", "keep_complete"]).contains("1h"));
    sandbox.ok(&["stop", "--now"]);
    assert!(child.wait().unwrap().success());
    let mut files: Vec<_> =
        fs::read_dir(sandbox.work("measured")).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let [durations, gauge] = &files[..] else { panic!("{files:?}") };
    let text = fs::read_to_string(durations).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines[0], lines.len()), ("Timepoint,Measurement,Label,PID", 6), "{text}");
    for line in &lines[1..] {
        let [at, value, label, pid] = line.split(',').collect::<Vec<_>>()[..] else { panic!("{line}") };
        assert!(at.parse::<u64>().unwrap() > 1 << 60 && pid.parse::<i32>().unwrap() > 1, "{line}");
        assert!((0.0..60.0).contains(&value.parse::<f64>().unwrap()) && label == "task: Insert", "{line}");
    }
    assert!(fs::read_to_string(gauge).unwrap().contains(",q:default:size,"));
}

#[test]
fn curl_examples_of_quantumleap_run_as_written_on_a_port_of_wq_up_without_a_file() {
    let sandbox = python::new();
    fs::write(sandbox.work("notify_insert.py"), block("notify_insert.py")).unwrap();
    let path = format!("PYTHONPATH={}", python::path());
    let options = ["-w", "1", "--wq", "class=Insert", "--wq", "listen=localhost:0", "--env", &path];
    let mut command = sandbox.command(&[&["wq", "up"], &options[..]].concat());
    command.args(["--", "python3", "-m", "taskvisor.worker", "notify_insert"]);
    let log = fs::File::create(sandbox.path("stderr")).unwrap();
    let mut child = command.stderr(log).stdout(std::process::Stdio::null()).spawn().unwrap();
    let mut port = None;
    wait_until("the log says where it listens", || {
        let said = sandbox.stderr();
        let line = said.split_once("address=127.0.0.1:").and_then(|(_, rest)| rest.split_once('\n'));
        port = line.map(|(port, _)| port.to_owned());
        port.is_some()
    });
    let url = format!("http://localhost:{}", port.unwrap());
    let curl = |path: &str, args: &[&str]| -> (String, Value) {
        let mut curl = std::process::Command::new("curl");
        curl.args(["-sS", "-w", "\n%{http_code}"]).args(args).arg(format!("{url}{path}"));
        let said = String::from_utf8(curl.output().unwrap().stdout).unwrap();
        let (body, code) = said.rsplit_once('\n').unwrap();
        (code.to_owned(), serde_json::from_str(body).unwrap_or(Value::Null))
    };
    let json = ["-H", "Content-Type: application/json", "-H", "fiware-service: t"];
    let room =
        r#"{"data":[{"id":"r","type":"Room","t":{"value":1.50},"mine":{"value":"2024-01-01T10:00:00Z"}}]}"#;
    let headers = [&json[..], &["-H", "Fiware-TimeIndex-Attribute: mine", "-d", room]].concat();
    assert_eq!(
        curl("/v2/notify", &headers),
        ("200".into(), json!("Notification successfully processed")),
        "{}",
        sandbox.stderr()
    );
    // Without entities there is nothing to do, and that is done.
    assert_eq!(curl("/v2/notify", &[&json[..], &["-d", r#"{"data": []}"#]].concat()).0, "200");
    let count = format!("{LIST}/count?taskStatus=succeeded");
    wait_until("both have succeeded", || curl(&count, &json).1 == json!(2));
    let list = curl("/wq/notifications?taskStatus=succeeded", &json).1;
    let times: Vec<_> =
        list.as_array().unwrap().iter().map(|task| &task["input"]["payload"][0]["time_index"]).collect();
    assert!(times.contains(&&json!("2024-01-01T10:00:00+00:00")), "{list}");
    assert_eq!(curl("/version", &[]), ("200".into(), json!({ "version": env!("CARGO_PKG_VERSION") })));
    let (code, answer) = curl("/v1/status", &[]);
    assert!(code == "404" && answer["title"] == "Not Found", "no other route: {answer}");
    let (code, answer) = curl(LIST, &["-H", "origin: http://evil.example.org"]);
    assert_eq!(
        (code.as_str(), &answer["title"], &answer["status"]),
        ("403", &json!("Forbidden"), &json!(403))
    );
    assert_eq!(curl(LIST, &["-H", "host: evil.example.org"]).0, "403");
    let of_others = format!("{LIST}?taskStatus=failed");
    assert_eq!(curl(&of_others, &[&["-X", "DELETE"][..], &json].concat()).0, "204");
    assert_eq!(curl(&count, &json).1, json!(2), "none of another status is removed");
    assert_eq!(curl(LIST, &[&["-X", "DELETE"][..], &json].concat()).0, "204");
    assert_eq!(curl(LIST, &json).1, json!([]));
    sandbox.ok(&["stop", "--now"]);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_task_is_retried_until_the_database_heals_and_keeps_its_errors() {
    let sandbox = python::new();
    let mut running =
        start(&sandbox, |settings| settings.replace("20s", "100ms").replace("retries: 5", "retries: 12"));
    let down = Connection::open(sandbox.work("rows.db")).unwrap();
    down.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let task = notify(&sandbox, &[], &room("r"));
    let runtime = || get(&sandbox, &format!("{LIST}/summary"), &[])[0].clone();
    wait_until("two attempts have failed", || {
        runtime()["errors"].as_array().is_some_and(|errors| errors.len() >= 2)
    });
    let seen = runtime();
    assert_eq!((&seen["task_id"], &seen["status"]), (&json!(task), &json!("pending")));
    assert!(seen["errors"][0].as_str().unwrap().contains("database is locked"), "{seen}");
    assert!((1..=10).contains(&seen["retries_left"].as_u64().unwrap()), "{seen}");
    down.execute_batch("ROLLBACK").unwrap();
    wait_until("the row is there", || rows(&sandbox) == Some(1) && runtime()["status"] == "succeeded");
    assert!(runtime()["errors"].as_array().unwrap().len() >= 2, "{}", runtime());
    // Each retry comes c * 2^k after the previous failure, plus at most a tenth.
    let job = sandbox.job(&task);
    let failed: Vec<&Value> =
        job["history"].as_array().unwrap().iter().map(|entry| &entry["attempt"]).collect();
    for (k, (entry, attempt)) in job["history"].as_array().unwrap().iter().zip(failed).enumerate() {
        let at = entry["at_ms"].as_i64().unwrap();
        let waited = attempt["due_at_ms"].as_i64().unwrap() - at;
        let least = 100 << k;
        assert!((least..=least + least / 10 + 1).contains(&waited), "retry {k} after {waited} ms: {entry}");
    }
    sandbox.ok(&["stop", "--now"]);
    running.wait();
}

#[test]
fn task_fails_when_it_is_out_of_retries_or_stops_itself() {
    let sandbox = python::new();
    let mut running = start(&sandbox, |settings| {
        let settings = settings.replace("20s", "10ms").replace("retries: 5", "retries: 2");
        settings.replace("  class: Insert\n", "")
    });
    let unknown = json!({ "data": [{ "id": "x", "type": "Unknown" }] }).to_string();
    notify(&sandbox, &["fiware-correlator: stops", "taskvisor-class: Insert"], &unknown);
    notify(&sandbox, &["fiware-correlator: odd", "taskvisor-class: Odd"], &room("r"));
    wait_until("both have failed", || count(&sandbox, "failed") == 2);
    let of = |correlator: &str| {
        let all = get(&sandbox, LIST, &[&format!("fiware-correlator: {correlator}")]);
        assert_eq!(all.as_array().unwrap().len(), 1, "{all}");
        all[0].clone()
    };
    let stopped = of("stops");
    assert_eq!(stopped["runtime"]["errors"].as_array().unwrap().len(), 1, "{stopped}");
    assert!(stopped["runtime"]["errors"][0] == "Fail('no table is for entities of this type')", "{stopped}");
    assert_eq!(stopped["input"]["fiware_correlator"], "stops");
    let odd = of("odd");
    assert_eq!(odd["runtime"]["errors"].as_array().unwrap().len(), 3, "{odd}");
    assert_eq!((&odd["runtime"]["retries_left"], &odd["runtime"]["status"]), (&json!(0), &json!("failed")));
    assert_eq!(rows(&sandbox).unwrap_or(0), 0);
    sandbox.ok(&["stop", "--now"]);
    running.wait();
}
