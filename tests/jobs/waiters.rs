//! Clients that wait for jobs, in numbers; and commands that jobs run.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, Setting, is_root, wait_until};

fn sandbox() -> Sandbox {
    Sandbox::new(if is_root() { Setting::Root } else { Setting::Plain })
}

fn connect(sandbox: &Sandbox) -> UnixStream {
    let stream = UnixStream::connect(sandbox.path("run/ctl.sock")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// A client whose request to wait was accepted.
fn waits(sandbox: &Sandbox, body: &Value) -> BufReader<UnixStream> {
    let (mut stream, body) = (connect(sandbox), body.to_string());
    let head = format!("POST /v1/wait HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all((head + &body).as_bytes()).unwrap();
    let mut answer = BufReader::new(stream);
    let mut line = String::new();
    answer.read_line(&mut line).unwrap();
    assert_eq!(line, "HTTP/1.1 200 OK\r\n");
    answer
}

/// The next line with an end, without HTTP's own lines.
fn next_end(answer: &mut impl BufRead) -> Value {
    loop {
        let mut line = String::new();
        assert!(answer.read_line(&mut line).unwrap() > 0, "it is over");
        if line.starts_with('{') {
            return serde_json::from_str(&line).unwrap();
        }
    }
}

#[test]
fn a_thousand_waiting_clients_lock_nobody_out() {
    let sandbox = sandbox();
    let mut running = sandbox.start(&["-w", "1"]);
    let never = sandbox.ok(&["put", "--delay", "1h", "--", "true"]).trim().to_owned();
    let mut waiting: Vec<_> = (0..1000)
        .map(|_| {
            let mut stream = connect(&sandbox);
            let request = format!("GET /v1/jobs/{never}/wait HTTP/1.1\r\nhost: x\r\n\r\n");
            stream.write_all(request.as_bytes()).unwrap();
            stream
        })
        .collect();
    let before = Instant::now();
    sandbox.ok(&["status", "-q"]);
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
    let jid = sandbox.put(&["true"]);
    assert_eq!(sandbox.ok(&["job", "wait", &jid]).trim(), format!("{jid} complete"));
    sandbox.ok(&["job", "cancel", &never]);
    for stream in &mut waiting {
        let mut status = [0; 15];
        stream.read_exact(&mut status).unwrap();
        assert_eq!(&status, b"HTTP/1.1 200 OK");
    }
    sandbox.ok(&["stop"]);
    assert!(running.wait().success());
}

#[test]
fn ends_of_many_jobs_come_over_one_connection_as_they_happen() {
    let sandbox = sandbox();
    let _running = sandbox.start(&["-w", "1"]);
    let never = sandbox.ok(&["put", "--delay", "1h", "--", "true"]).trim().to_owned();
    let ids: Vec<String> = (0..1200).map(|n| format!("j{n}")).collect();
    let jobs: Vec<Value> =
        ids.iter().map(|id| json!({"id": id, "queue": "none", "class": "c", "delay": 3600})).collect();
    let put = json!({ "jobs": jobs }).to_string();
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        put.len()
    );
    let (mut asked, mut answer) = (connect(&sandbox), String::new());
    asked.write_all((head + &put).as_bytes()).unwrap();
    asked.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let good = sandbox.put(&["sh", "-c", "echo 5"]);
    let bad = sandbox.put(&["sh", "-c", "exit 3"]);
    let mut wanted = ids.clone();
    wanted.extend([never.clone(), "nosuch".to_owned(), good.clone(), bad.clone()]);
    let mut answer = waits(&sandbox, &json!({ "jobs": wanted, "records": true }));
    let mut ends: Vec<Value> = (0..3).map(|_| next_end(&mut answer)).collect();
    ends.sort_by_key(|end| [&good, &bad].iter().position(|id| end["job"] == id.as_str()));
    let states: Vec<&Value> = ends.iter().map(|end| &end["state"]).collect();
    assert_eq!(states, [&Value::Null, &json!("complete"), &json!("failed")]);
    assert_eq!((&ends[0]["job"], &ends[0]["code"]), (&json!("nosuch"), &json!(404)));
    assert_eq!(ends[2]["record"]["failure"]["group"], "exit 3");
    sandbox.ok(&[&["job", "cancel"], &ids.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat());
    for _ in &ids {
        assert_eq!(next_end(&mut answer)["state"], "canceled");
    }
    sandbox.ok(&["job", "cancel", &never]);
    assert_eq!(next_end(&mut answer)["job"], never.as_str());
    let mut rest = String::new();
    while !rest.ends_with("0\r\n\r\n") {
        assert!(answer.read_line(&mut rest).unwrap() > 0, "{rest}");
    }
}

#[test]
fn commands_of_a_job_speak_to_its_own_supervisor() {
    let sandbox = sandbox();
    let _running = sandbox.start(&["-w", "1"]);
    let program = sandbox.command(&[]).get_program().to_owned();
    let home = sandbox.work("home");
    std::fs::create_dir(&home).unwrap();
    let run = |line: &str| {
        let script = format!("HOME={} XDG_STATE_HOME= XDG_RUNTIME_DIR= exec {}", home.display(), line);
        let script = script.replace("taskvisor", program.to_str().unwrap());
        let jid = sandbox.put(&["sh", "-c", &script]);
        sandbox.run(&["job", "wait", &jid]);
        (sandbox.state(&jid), sandbox.ok(&["job", "logs", &jid]))
    };
    let (state, said) = run("taskvisor put --jid inner -- true");
    assert_eq!((&*state, said.trim()), ("complete", "inner"), "{said}");
    wait_until("the job that was put in a job is complete", || sandbox.state("inner") == "complete");
    // What names another place is heard; without a supervisor there nothing is made in the default one.
    let (state, said) = run("taskvisor job list --state-dir \"$HOME/else\" --run-dir \"$HOME/run\"");
    assert!(state == "failed" && said.contains("there is no store"), "{state} {said}");
    assert_eq!(std::fs::read_dir(&home).unwrap().count(), 0);
}
