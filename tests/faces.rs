//! What taskvisor shows of itself to people and machines that look from outside: `check`, `config show`, metrics, health,
//! and its API over TCP.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by a panic")]

#[path = "support/sandbox.rs"]
mod sandbox;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sandbox::{Sandbox, Setting, in_all_settings, wait_until};
use serde_json::Value;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn check_says_what_start_would_refuse_with_the_same_words_and_code() {
    let sandbox = Sandbox::new(Setting::Root);
    for yaml in [
        "pools:\n- name: a\n  wokers: 2\n",
        "pools:\n- {name: a, command: nosuch}\n",
        "pools:\n- {name: a, user: nosuch}\n",
        "lease: 15s\n",
    ] {
        fs::write(sandbox.work("t.yaml"), yaml).unwrap();
        let (checked, started) =
            (sandbox.run(&["check", "-c", "t.yaml"]), sandbox.run(&["start", "-c", "t.yaml"]));
        assert_eq!((checked.status.code(), started.status.code()), (Some(78), Some(78)), "{yaml}");
        assert_eq!(text(&checked.stderr), text(&started.stderr));
    }
    assert!(!sandbox.path("state").exists(), "it makes nothing");
    fs::write(sandbox.path("state"), "").unwrap();
    for verb in ["check", "start"] {
        let in_the_way = sandbox.run(&[verb, "--state-dir", "../state/dir"]);
        assert_eq!(in_the_way.status.code(), Some(74), "{}", text(&in_the_way.stderr));
    }
    fs::remove_file(sandbox.path("state")).unwrap();
    fs::create_dir(sandbox.path("state")).unwrap();
    fs::set_permissions(sandbox.path("state"), fs::Permissions::from_mode(0o777)).unwrap();
    for verb in ["check", "start"] {
        let refused = sandbox.run(&[verb]);
        assert_eq!(refused.status.code(), Some(77));
        assert!(text(&refused.stderr).contains("can be written by others (mode 777)"));
    }
    let report = sandbox.run(&["check", "-c", "none.yaml", "--json"]);
    let report = (report.status.code(), serde_json::from_slice::<Value>(&report.stdout).unwrap());
    assert_eq!((report.0, report.1["verdict"].as_str()), (Some(78), Some("refused")));
    assert!(report.1["error"].as_str().unwrap().contains("failed to read none.yaml"));
}

#[test]
fn a_contradiction_is_a_warning_with_its_place_and_start_logs_it_once() {
    in_all_settings(|sandbox| {
        let yaml = "lease: 2m\npools:\n- name: mail\n  queues: [a, a]\n  grace: 40s\n";
        fs::write(sandbox.work("t.yaml"), yaml).unwrap();
        let warned = sandbox.ok(&["check", "-c", "t.yaml", "--stop-deadline", "30s"]);
        assert!(warned.contains("warning: t.yaml:5:3: pool 'mail': a grace of 40s"), "{warned}");
        assert!(warned.contains("[queue-twice]\nhint: name it once\n"), "{warned}");
        assert!(warned.ends_with("2 warnings\n"), "{warned}");
        assert_eq!(sandbox.ok(&["check", "-c", "t.yaml", "--grace", "3s", "-q", "a"]), "fine\n");
        assert_eq!(sandbox.run(&["check", "-c", "t.yaml", "--strict"]).status.code(), Some(1));
        let report = sandbox.json(&["check", "-c", "t.yaml", "--json", "--grace", "50s"]);
        let found = &report["findings"][0];
        assert_eq!(report["verdict"], "warnings");
        assert_eq!((&found["rule"], &found["place"]), (&"grace-beyond-stop".into(), &"--grace".into()));

        let mut running = sandbox.start(&["-c", "t.yaml"]);
        let keeper = sandbox.one("tv-supervisor");
        sandbox::kill(keeper, "KILL");
        wait_until("another supervisor serves", || {
            let output = sandbox.run(&["status", "--json"]);
            serde_json::from_slice::<Value>(&output.stdout)
                .is_ok_and(|status| status["supervisor_restarts"] == 1)
        });
        sandbox.ok(&["stop", "--kill"]);
        running.wait();
        assert_eq!(sandbox.stderr().matches("grace-beyond-stop").count(), 1, "{}", sandbox.stderr());
        sandbox.assert_nothing_left();
    });
}

#[test]
fn check_sees_who_may_do_what_with_files() {
    let sandbox = Sandbox::new(Setting::Root);
    let program = sandbox.script("worker", "#!/bin/sh\n");
    let yaml = format!(
        "pools:\n- name: a\n  command: [{program}]\n  user: daemon\n  env: {{set: {{API_KEY: x}}}}\n"
    );
    fs::write(sandbox.work("t.yaml"), yaml).unwrap();
    let rules = |modes: [u32; 3]| -> Vec<String> {
        for (name, mode) in ["t.yaml", "worker", ""].iter().zip(modes) {
            fs::set_permissions(sandbox.work(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let report = sandbox.json(&["check", "-c", "t.yaml", "--json"]);
        let found = report["findings"].as_array().unwrap().clone();
        found.iter().map(|found| found["rule"].as_str().unwrap().to_owned()).collect()
    };
    if !sandbox::is_root() {
        println!("skipped: only root may name a user");
        return;
    }
    assert_eq!(rules([0o600, 0o755, 0o755]), [""; 0]);
    assert_eq!(rules([0o644, 0o755, 0o755]), ["secret-readable"]);
    assert_eq!(rules([0o602, 0o755, 0o755]), ["config-open"]);
    assert_eq!(rules([0o600, 0o757, 0o755]), ["program-open"]);
    assert_eq!(rules([0o600, 0o750, 0o755]), ["program-closed"]);
    assert_eq!(rules([0o600, 0o755, 0o700]), ["program-closed"]);
    assert_eq!(rules([0o600, 0o755, 0o777]), ["config-open", "program-open"]);
}

#[test]
fn config_show_prints_what_start_reads_again() {
    let sandbox = Sandbox::new(Setting::Root);
    let yaml = "lease: 2m\nlog: {level: warn}\npools:\n- {name: a, workers: 2, umask: \"022\"}\n- name: b\n  run: cat\n  env: {set: {API_KEY: s3cret}}\n";
    fs::write(sandbox.work("t.yaml"), yaml).unwrap();
    let shown = sandbox.ok(&["config", "show", "-c", "t.yaml", "--secrets"]);
    for line in [
        "lease: 2m  # t.yaml:1:1",
        "state_dir: ",
        "# TASKVISOR_STATE_DIR",
        "grace: 10s  # default",
        "API_KEY: s3cret  # t.yaml:7:3",
    ] {
        assert!(shown.contains(line), "no {line:?} in\n{shown}");
    }
    fs::write(sandbox.work("again.yaml"), &shown).unwrap();
    let values = |file: &str| {
        let mut command = sandbox.command(&["config", "show", "-c", file, "--json", "--secrets"]);
        command.env_remove("TASKVISOR_STATE_DIR").env_remove("TASKVISOR_RUN_DIR");
        let mut shown: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        let pools =
            shown["pools"].as_array_mut().unwrap().iter_mut().flat_map(|pool| pool.as_object_mut().unwrap());
        pools.for_each(|(_, setting)| drop(setting.as_object_mut().unwrap().remove("from")));
        shown
    };
    assert_eq!(values("again.yaml")["pools"], values("t.yaml")["pools"]);
    assert_eq!(
        values("again.yaml")["settings"]["state_dir"]["value"],
        sandbox.path("state").display().to_string()
    );
    let mut running = sandbox.start(&["-c", "again.yaml"]);
    sandbox.ok(&["stop", "--kill"]);
    running.wait();

    let hidden = sandbox.ok(&["config", "show", "b", "-c", "t.yaml"]);
    assert!(hidden.contains("API_KEY: null  # hidden; t.yaml:7:3") && !hidden.contains("s3cret"), "{hidden}");
    assert!(!hidden.contains("name: a") && !hidden.contains("lease:"), "{hidden}");
    let none = sandbox.run(&["config", "show", "c", "-c", "t.yaml"]);
    assert_eq!(none.status.code(), Some(7));
    assert!(text(&none.stderr).contains("no pool has the name 'c'\nhint: the pools are a, b"));
}

/// An answer's status line and body.
fn get(sandbox: &Sandbox, path: &str) -> (String, String) {
    let mut stream = UnixStream::connect(sandbox.path("run/ctl.sock")).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

/// The value of one sample.
fn sample(page: &str, key: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn metrics_count_what_happened() {
    in_all_settings(|sandbox| {
        let _running = sandbox.start(&["-w", "2"]);
        for _ in 0..3 {
            let jid = sandbox.put(&["true"]);
            sandbox.ok(&["job", "wait", &jid]);
        }
        let jid = sandbox.put(&["false"]);
        sandbox.run(&["job", "wait", &jid]);
        sandbox.ok(&["put", "-q", "other \"queue\"", "--", "true"]);
        let mut page = String::new();
        wait_until("all is counted", || {
            page = get(sandbox, "/metrics").1;
            sample(&page, "taskvisor_jobs_settled_total{pool=\"default\",verdict=\"complete\"}") == Some(3.0)
        });
        for (key, value) in [
            ("taskvisor_jobs_settled_total{pool=\"default\",verdict=\"failed\"}", 1.0),
            ("taskvisor_jobs_fetched_total{pool=\"default\"}", 4.0),
            ("taskvisor_queue_jobs{queue=\"default\",state=\"complete\"}", 3.0),
            ("taskvisor_queue_jobs{queue=\"other \\\"queue\\\"\",state=\"waiting\"}", 1.0),
            ("taskvisor_slots{pool=\"default\",state=\"busy\"}", 0.0),
            ("taskvisor_health{verdict=\"healthy\"}", 1.0),
            ("taskvisor_broker_trouble", 0.0),
            ("taskvisor_queue_wait_seconds_count{queue=\"default\"}", 4.0),
            ("taskvisor_queue_run_seconds_count{queue=\"default\"}", 3.0),
            ("taskvisor_queue_failures_total{queue=\"default\"}", 1.0),
            ("taskvisor_queue_failures_total{queue=\"other \\\"queue\\\"\"}", 0.0),
        ] {
            assert_eq!(sample(&page, key), Some(value), "{key}\n{page}");
        }
        for key in [
            "taskvisor_workers_started_total{pool=\"default\"}",
            "taskvisor_fetch_seconds_sum",
            "taskvisor_process_resident_bytes{process=\"keeper\"}",
            "taskvisor_process_resident_bytes{process=\"supervisor\"}",
            "taskvisor_process_open_descriptors{process=\"keeper\"}",
            "taskvisor_up_seconds",
        ] {
            assert!(sample(&page, key).is_some_and(|value| value > 0.0), "{key}\n{page}");
        }
        assert!(!page.contains(&jid), "no label is a job's");
    });
}

#[test]
fn metrics_go_on_across_a_reload_and_a_pool_that_is_gone_is_shown_no_more() {
    let sandbox = Sandbox::new(Setting::Plain);
    let write = |pools: &str| fs::write(sandbox.work("t.yaml"), format!("pools:\n{pools}")).unwrap();
    let run = |queue: &str| {
        let jid = sandbox.ok(&["put", "-q", queue, "--", "true"]);
        sandbox.ok(&["job", "wait", jid.trim()]);
    };
    let counted = |name: &str, pool: &str, more: &str| {
        sample(&get(&sandbox, "/metrics").1, &format!("taskvisor_{name}{{pool=\"{pool}\"{more}}}"))
    };
    let complete = |pool: &str| counted("jobs_settled_total", pool, ",verdict=\"complete\"");
    write("- {name: a, queues: [a]}\n- {name: b, queues: [b]}\n");
    let _running = sandbox.start(&["-c", "t.yaml"]);
    run("a");
    run("b");
    wait_until("both are counted", || (complete("a"), complete("b")) == (Some(1.0), Some(1.0)));
    let started = counted("workers_started_total", "a", "").unwrap();

    write("- {name: a, queues: [a], umask: '027'}\n- {name: c, queues: [c]}\n");
    sandbox.ok(&["reload"]);
    run("a");
    run("c");
    wait_until("the heir goes on, and the new one begins", || {
        (complete("a"), complete("c")) == (Some(2.0), Some(1.0))
    });
    wait_until("b is gone", || counted("slots", "b", ",state=\"ready\"").is_none());
    assert!(!get(&sandbox, "/metrics").1.contains("pool=\"b\""));
    assert!(counted("workers_started_total", "a", "").unwrap() > started);
    assert_eq!(counted("jobs_fetched_total", "c", ""), Some(1.0));

    write("- {name: b, queues: [b]}\n");
    sandbox.ok(&["reload"]);
    run("b");
    wait_until("it goes on where it was", || complete("b") == Some(2.0));
}

#[test]
fn restarts_are_counted_and_the_ends_of_programs_are_none() {
    let sandbox = Sandbox::new(Setting::Plain);
    let dies = sandbox.script("worker", "#!/bin/sh\nexit 1\n");
    let pools = format!("pools:\n- name: good\n- {{name: bad, command: {dies}, queues: [bad]}}\n");
    fs::write(sandbox.work("t.yaml"), pools).unwrap();
    let _running = sandbox.start_raw(&["-c", "t.yaml"]);
    let jid = sandbox.put(&["false"]);
    wait_until("it has failed", || sandbox.state(&jid) == "failed");
    let restarts = |pool: &str| {
        let page = get(&sandbox, "/metrics").1;
        sample(&page, &format!("taskvisor_worker_restarts_total{{pool=\"{pool}\"}}"))
    };
    wait_until("the worker that dies is counted", || restarts("bad").is_some_and(|count| count >= 2.0));
    assert_eq!(restarts("good").unwrap_or_default(), 0.0);
}

#[test]
fn ready_is_who_can_take_jobs() {
    let sandbox = Sandbox::new(Setting::Plain);
    let refuses = sandbox.script("worker", "#!/bin/sh\nexit 1\n");
    let mut running = sandbox.start_raw(&["--", &refuses]);
    let mut answer = (String::new(), String::new());
    wait_until("it says why it is not ready", || {
        // Bound is not yet listening.
        if UnixStream::connect(sandbox.path("run/ctl.sock")).is_err() {
            return false;
        }
        answer = get(&sandbox, "/readyz");
        answer.1.contains("pool default")
    });
    assert_eq!(answer.0, "HTTP/1.1 503 Service Unavailable");
    assert!(answer.1.contains("no slot can take a job; pool default: "), "{}", answer.1);
    assert_eq!(get(&sandbox, "/livez").0, "HTTP/1.1 200 OK");
    running.signal("TERM");
    running.wait();

    let mut running = sandbox.start(&["--grace", "1s", "--stop-deadline", "30s"]);
    assert_eq!(get(&sandbox, "/readyz"), ("HTTP/1.1 200 OK".into(), "{}".into()));
    let jid = sandbox.put(&["sleep", "100"]);
    wait_until("it runs", || sandbox.state(&jid) == "running");
    running.signal("TERM");
    wait_until("it stops", || get(&sandbox, "/readyz").1.contains("it was ordered to stop"));
    assert_eq!(get(&sandbox, "/livez").0, "HTTP/1.1 200 OK");
    sandbox.ok(&["stop", "--kill"]);
    running.wait();
}

const TOKEN: &str = "correct-horse-battery-staple";

/// Settings with a port of the kernel's choice and a token.
fn with_port(sandbox: &Sandbox, more: &str) -> String {
    fs::write(sandbox.work("token"), format!("{TOKEN}\n")).unwrap();
    fs::set_permissions(sandbox.work("token"), fs::Permissions::from_mode(0o600)).unwrap();
    let owner = fs::metadata(sandbox.path("work")).unwrap();
    std::os::unix::fs::chown(sandbox.work("token"), Some(owner.uid()), Some(owner.gid())).unwrap();
    let yaml = format!("api:\n  listen: 127.0.0.1:0\n  token_file: token\n{more}");
    fs::write(sandbox.work("api.yaml"), yaml).unwrap();
    sandbox.work("api.yaml").display().to_string()
}

/// Where it listens, as its log says, which is written beside all else.
fn port(sandbox: &Sandbox) -> SocketAddr {
    let mut address = None;
    wait_until("the log says where it listens", || {
        let said = sandbox.stderr();
        let line = said.split_once("the API listens address=").and_then(|(_, rest)| rest.split_once('\n'));
        address = line.map(|(address, _)| address.parse().unwrap());
        address.is_some()
    });
    address.unwrap()
}

#[test]
fn a_new_token_opens_after_a_reload_and_the_old_one_no_more() {
    let sandbox = Sandbox::new(Setting::Plain);
    let file = with_port(&sandbox, "");
    let mut running = sandbox.start(&["-w", "1", "-c", &file]);
    let code = |token: &str| {
        let bearer = format!("authorization: Bearer {token}");
        by_tcp(&sandbox, "GET /livez", &["host: localhost", &bearer], "").0
    };
    assert_eq!(code(TOKEN), 200);
    let rotated = "the-next-horse-has-another-battery";
    fs::write(sandbox.work("token"), rotated).unwrap();
    fs::set_permissions(sandbox.work("token"), fs::Permissions::from_mode(0o644)).unwrap();
    let refused = sandbox.run(&["reload"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("the token file"), "{refused:?}");
    fs::set_permissions(sandbox.work("token"), fs::Permissions::from_mode(0o600)).unwrap();
    sandbox.ok(&["reload", "--dry-run"]);
    assert_eq!((code(TOKEN), code(rotated)), (200, 401), "nothing was taken in");
    sandbox.ok(&["reload"]);
    assert_eq!((code(TOKEN), code(rotated)), (401, 200));
    fs::write(sandbox.work("token"), TOKEN).unwrap();
    running.signal("HUP");
    wait_until("the signal has done the same", || code(TOKEN) == 200);
    assert_eq!(code(rotated), 401);
    sandbox.ok(&["stop", "--now"]);
    running.wait();
}

/// The answer to a request of these headers, by TCP.
fn by_tcp(sandbox: &Sandbox, first: &str, headers: &[&str], body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(port(sandbox)).unwrap();
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = body.len();
    write!(
        stream,
        "{first} HTTP/1.1\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

#[test]
fn by_tcp_comes_in_who_knows_the_token_and_calls_us_by_our_name() {
    in_all_settings(|sandbox| {
        let config =
            with_port(sandbox, "  hosts: [jobs.example.org]\n  origins: ['https://jobs.example.org']\n");
        let _running = sandbox.start(&["-c", &config]);
        let knows = format!("authorization: Bearer {TOKEN}");
        let get = |path: &str, headers: &[&str]| by_tcp(sandbox, &format!("GET {path}"), headers, "").0;
        for path in ["/v1", "/v1/status", "/metrics", "/livez", "/readyz"] {
            assert_eq!(get(path, &["host: localhost:1", &knows]), 200, "{path}");
            assert_eq!(get(path, &["host: localhost:1"]), 401, "{path}");
            assert_eq!(
                get(path, &["host: localhost:1", "authorization: Bearer correct-horse"]),
                401,
                "{path}"
            );
            assert_eq!(get(path, &["host: evil.example.org", &knows]), 403, "{path}");
            assert_eq!(
                get(path, &["host: localhost", &knows, "origin: https://evil.example.org"]),
                403,
                "{path}"
            );
        }
        assert_eq!(get("/nothing", &["host: localhost"]), 401, "not even what is not there");
        assert_eq!(get("/v1", &["host: jobs.example.org", &knows, "origin: https://jobs.example.org"]), 200);
        assert_eq!(by_tcp(sandbox, "DELETE /v1", &["host: localhost"], "").0, 401);
        assert!(by_tcp(sandbox, "GET /v1", &["host: localhost"], "").1.contains("www-authenticate: Bearer"));

        let headers = ["host: localhost", knows.as_str()];
        let put = |job: &str| by_tcp(sandbox, "POST /v1/jobs", &headers, &format!("{{\"jobs\":[{job}]}}"));
        let program =
            r#"{"queue":"default","class":"exec","payload":{"exec":{"argv":["true"],"cwd":"/","umask":18}}}"#;
        let data = r#"{"queue":"mail","class":"Welcome","payload":{"data":"1"}}"#;
        for jobs in [program, &format!("{data},{program}"), &data.replace("Welcome", "exec")] {
            let (code, answer) = put(jobs);
            assert!(code == 403 && answer.contains("programs cannot be put by TCP"), "{answer}");
        }
        let recur = |job: &str| {
            let every = r#"{"every":{"interval":{"secs":60,"nanos":0}}}"#;
            let body = format!("{{\"schedule\":{every},\"job\":{job}}}");
            by_tcp(sandbox, "POST /v1/recurring/often", &headers, &body)
        };
        let (code, answer) = recur(program);
        assert!(code == 403 && answer.contains("programs cannot be put by TCP"), "{answer}");
        assert_eq!(recur(data).0, 200);
        assert_eq!(put(data).0, 200);
        assert_eq!(by_tcp(sandbox, "POST /v1/queues/mail/pause", &headers, "").0, 200);
        let queues = sandbox.json(&["queue", "list", "--json"]);
        let text = queues.to_string();
        assert!(text.contains("\"by\":\"127.0.0.1\"") && !text.contains("default"), "{text}");
    });
}

#[test]
fn programs_are_put_by_tcp_where_that_is_allowed() {
    let sandbox = Sandbox::new(Setting::Plain);
    let config = with_port(&sandbox, "  allow_exec: true\n");
    let _running = sandbox.start(&["-c", &config]);
    let headers = ["host: 127.0.0.1", &format!("authorization: Bearer {TOKEN}")];
    let job = r#"{"jobs":[{"id":"j1","queue":"default","class":"exec","payload":{"exec":{"argv":["true"],"cwd":"/","umask":18}}}]}"#;
    assert_eq!(by_tcp(&sandbox, "POST /v1/jobs", &headers, job).0, 200);
    assert!(by_tcp(&sandbox, "GET /v1/jobs/j1/wait", &headers, "").1.contains("complete"));
}

#[test]
fn without_a_good_token_nobody_listens() {
    let sandbox = Sandbox::new(Setting::Root);
    let token = sandbox.work("token");
    let refused = |yaml: &str, words: &str| {
        fs::write(sandbox.work("t.yaml"), yaml).unwrap();
        for verb in ["start", "check"] {
            let output = sandbox.run(&[verb, "-c", "t.yaml"]);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(78), "{said}");
            assert!(said.contains(words) && said.contains("hint: "), "{said}");
            assert!(!said.contains("horse"), "{said}");
        }
    };
    let write = |text: &str, mode| {
        fs::write(&token, text).unwrap();
        fs::set_permissions(&token, fs::Permissions::from_mode(mode)).unwrap();
    };
    let listen = "api:\n  listen: 127.0.0.1:0\n";
    refused(listen, "error: t.yaml:2:3: to listen by TCP takes a token");
    refused("api:\n  listen: 0.0.0.0:0\n", "error: t.yaml:2:3: to listen by TCP takes a token");
    refused("api:\n  listen: 9180\n  token_file: token\n", "t.yaml:2:3: '9180' is nothing to listen on");
    refused("api:\n  listen: localhost\n", "t.yaml:2:3: 'localhost' is nothing to listen on");
    refused("api:\n  token: correct-horse-battery\n", "t.yaml:2:3: unknown setting 'token'");
    let file = format!("{listen}  token_file: token\n");
    refused(&file, "t.yaml:3:3: the token file");
    refused(&file, "cannot be opened: No such file");
    write("", 0o600);
    refused(&file, "token is empty");
    write("short-horse", 0o600);
    refused(&file, "has 11 letters, and 16 are the least");
    write("correct horse battery staple", 0o600);
    refused(&file, "without blanks");
    write(&"horse".repeat(1000), 0o600);
    refused(&file, "has more than 4096 letters");
    for mode in [0o604, 0o602, 0o620] {
        write(TOKEN, mode);
        refused(&file, &format!("can be read or changed by others (mode {mode:o})"));
    }
    refused(&file.replace("token\n", "/tmp\n"), "is no file");
    write(TOKEN, 0o640);
    refused(&format!("{file}  hosts: ['http://x/']\n"), "'http://x/' in hosts is no name of a host");
    refused(&format!("{file}  origins: [x]\n"), "'x' in origins is none");
    fs::write(sandbox.work("t.yaml"), &file).unwrap();
    assert_eq!(sandbox.ok(&["check", "-c", "t.yaml"]), "fine\n");
    fs::remove_file(&token).unwrap();
    assert!(sandbox.ok(&["config", "show", "-c", "t.yaml"]).contains("token_file: token  # t.yaml:3:3"));
}

#[test]
fn a_port_in_use_is_said_before_anything_runs() {
    let sandbox = Sandbox::new(Setting::Plain);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let config = with_port(&sandbox, "");
    let yaml = fs::read_to_string(&config).unwrap().replace("127.0.0.1:0", &address);
    fs::write(&config, yaml).unwrap();
    let mut running = sandbox.start_raw(&["-c", &config]);
    assert_eq!(running.wait().code(), Some(69), "{}", sandbox.stderr());
    let said = sandbox.stderr();
    assert!(
        said.contains(&format!("error: failed to listen on {address}\ncaused by: Address already in use")),
        "{said}"
    );
    assert!(!said.contains(TOKEN) && said.contains("hint: "), "{said}");
    sandbox.assert_nothing_left();
}

#[test]
fn a_crowd_at_the_port_keeps_nobody_out_of_the_socket() {
    let sandbox = Sandbox::new(Setting::Plain);
    let config = with_port(&sandbox, "");
    let _running = sandbox.start(&["-c", &config]);
    let address = port(&sandbox);
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard.min(4096), hard).unwrap();
    let silent: Vec<TcpStream> = (0..1000).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert_eq!(get(&sandbox, "/livez").0, "HTTP/1.1 200 OK");
    sandbox.ok(&["put", "--", "true"]);
    // Whoever asks comes in as soon as somebody has been silent for a second.
    let headers = ["host: localhost", &format!("authorization: Bearer {TOKEN}")];
    wait_until("one of the silent has made room", || {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET /livez HTTP/1.1\r\n{}\r\nconnection: close\r\n\r\n", headers.join("\r\n")).ok();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok();
        answer.starts_with("HTTP/1.1 200")
    });
    drop(silent);
}

#[test]
fn the_commands_work_from_elsewhere_with_the_token() {
    let sandbox = Sandbox::new(Setting::Plain);
    let config = with_port(&sandbox, "  allow_exec: true\n");
    let mut running = sandbox.start(&["-c", &config]);
    let url = format!("http://{}", port(&sandbox));
    let token = sandbox.work("token").display().to_string();
    // Of the machine itself it sees nothing.
    let there = |args: &[&str]| {
        let mut command = sandbox.command(args);
        command.env("TASKVISOR_RUN_DIR", "/nowhere").env("TASKVISOR_STATE_DIR", "/nowhere");
        command.env("TASKVISOR_URL", &url).env("TASKVISOR_TOKEN_FILE", &token).output().unwrap()
    };
    let ok = |args: &[&str]| {
        let output = there(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let jid = ok(&["put", "--", "true"]).trim().to_owned();
    ok(&["job", "wait", &jid]);
    assert!(ok(&["job", "show", &jid]).contains("complete"));
    assert_eq!(ok(&["job", "list", "-n", "0", "--json"]).lines().count(), 1);
    ok(&["job", "retry", &jid]);
    ok(&["queue", "pause", "default"]);
    assert!(ok(&["queue", "list"]).contains("by 127.0.0.1"));
    ok(&["queue", "resume", "default"]);
    ok(&["why", "job", &jid]);
    ok(&["status", "--json"]);
    ok(&["scale", "default", "2"]);
    ok(&["drain"]);
    let refused = |args: &[&str], code: i32, words: &str| {
        let output = there(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(words), "{args:?}: {}", text(&output.stderr));
    };
    refused(&["job", "logs", &jid], 2, "can only be done on the supervisor's machine");
    refused(&["status", "--url", "https://localhost:1"], 2, "TLS is a proxy's business");
    refused(
        &["status", "--token-file", "/nowhere/token"],
        78,
        "the token file /nowhere/token cannot be opened",
    );
    fs::write(sandbox.work("token"), "another-token-of-somebody\n").unwrap();
    refused(&["queue", "list"], 77, "this is not the token");
    refused(&["put", "--", "true"], 77, "this is not the token");
    fs::write(sandbox.work("token"), TOKEN).unwrap();
    ok(&["stop"]);
    running.wait();
    refused(&["queue", "list"], 3, "no supervisor listens on 127.0.0.1:");
    assert!(sandbox.json(&["job", "show", &jid, "--json"])["id"].is_string());
}

#[test]
fn no_worker_sees_the_token_whatever_its_pool_passes_on() {
    let sandbox = Sandbox::new(Setting::Plain);
    fs::write(sandbox.work("t.yaml"), "api: {listen: '127.0.0.1:0'}\npools:\n- env: {pass: ['*']}\n")
        .unwrap();
    let config = sandbox.work("t.yaml").display().to_string();
    let mut running = sandbox.start_with(&["-c", &config], |command| {
        command.env("TASKVISOR_API_TOKEN", TOKEN).env("SEEN", "yes");
    });
    let mut ready = false;
    wait_until("it listens", || {
        ready |= sandbox.stderr().contains("supervisor is up");
        ready
    });
    assert_eq!(
        by_tcp(&sandbox, "GET /v1", &["host: localhost", &format!("authorization: Bearer {TOKEN}")], "").0,
        200
    );
    let jid = sandbox.put(&["env"]);
    sandbox.ok(&["job", "wait", &jid]);
    let seen = sandbox.ok(&["job", "logs", &jid]);
    assert!(seen.contains("SEEN=yes") && !seen.contains("horse"), "{seen}");
    running.signal("TERM");
    running.wait();
}

#[test]
fn a_store_that_hangs_keeps_nobody_from_the_latest_counts_which_say_how_old_they_are() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "1"]);
    sandbox.ok(&["put", "-q", "never", "--", "true"]);
    let look = || {
        let status = sandbox.json(&["status", "--json"]);
        let waiting = status["queues"]["never"]["jobs"]["waiting"].clone();
        (waiting == 1, status["queues_age"].is_object(), status["broker_trouble"].clone())
    };
    wait_until("it is counted", || look() == (true, false, Value::Null));
    let store = rusqlite::Connection::open(sandbox.path("state/store.db")).unwrap();
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut put =
        sandbox.command(&["put", "-q", "never", "--", "true"]).stdout(Stdio::null()).spawn().unwrap();
    wait_until("it is known to hang", || {
        let (as_before, is_old, trouble) = look();
        assert!(as_before && (is_old || trouble.is_null()), "{is_old} {trouble}");
        trouble.as_str().is_some_and(|trouble| trouble.contains("no answer for"))
    });
    assert!(sandbox.ok(&["status"]).contains(" ago; the broker has not counted since\n"));
    assert!(sandbox.ok(&["why", "pool", "default"]).contains("Its queues were last counted "));
    let page = get(&sandbox, "/metrics").1;
    assert_eq!(sample(&page, "taskvisor_broker_trouble"), Some(1.0));
    assert!(!page.contains("queue=\"never\""), "a number that is not of now: {page}");
    store.execute_batch("ROLLBACK").unwrap();
    assert!(put.wait().unwrap().success());
    wait_until("it counts again", || {
        let status = sandbox.json(&["status", "--json"]);
        status["queues"]["never"]["jobs"]["waiting"] == 2 && status["queues_age"].is_null()
    });
}
