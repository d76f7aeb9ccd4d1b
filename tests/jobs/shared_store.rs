//! One store file, several supervisors, many clients: some use a supervisor's socket, some the file itself.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::Stdio;

use crate::sandbox::{Sandbox, Setting, in_all_settings};

const CLIENTS: usize = 10;
const JOBS: usize = 30;

/// A client that puts jobs; each job appends its id to `ran`.
fn client(sandbox: &Sandbox, store: &str, ran: &str) -> std::process::Child {
    let tell = format!("echo $TASKVISOR_JOB >> {ran}");
    let mut put = sandbox.command(&["-b", store, "put", "--lines", "--", "sh", "-c", &tell]);
    let mut put = put.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines: String = (0..JOBS).map(|n| format!("{n}\n")).collect();
    put.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    put
}

#[test]
fn two_supervisors_on_one_store_run_each_job_of_ten_clients_once() {
    let (one, two, none) =
        (Sandbox::new(Setting::Plain), Sandbox::new(Setting::Plain), Sandbox::new(Setting::Plain));
    let store = format!("sqlite:{}", one.work("shared.db").display());
    let ran = one.work("ran");
    let mut first = one.start(&["-b", &store, "-w", "2"]);
    let mut second = two.start(&["-b", &store, "-w", "2"]);
    let places = [&one, &two, &none];
    let clients: Vec<_> =
        (0..CLIENTS).map(|n| client(places[n % places.len()], &store, ran.to_str().unwrap())).collect();
    let mut jids = BTreeSet::new();
    for client in clients {
        let output = client.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        jids.extend(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned));
    }
    assert_eq!(jids.len(), CLIENTS * JOBS);
    let wait = ["-b", &store, "job", "wait", "--timeout", "60s"].into_iter();
    let states = none.ok(&wait.chain(jids.iter().map(String::as_str)).collect::<Vec<_>>());
    assert_eq!(states.matches(" complete\n").count(), CLIENTS * JOBS, "{states}");
    let told = std::fs::read_to_string(&ran).unwrap();
    assert_eq!(told.lines().count(), CLIENTS * JOBS, "none ran twice");
    assert_eq!(told.lines().map(str::to_owned).collect::<BTreeSet<_>>(), jids, "all ran");
    let queues = none.json(&["-b", &store, "queue", "list", "--json"]);
    assert_eq!(queues["default"]["jobs"], serde_json::json!({ "complete": CLIENTS * JOBS }), "{queues}");
    // Both supervisors ran jobs, and neither leaves a process.
    for (sandbox, running) in [(&one, &mut first), (&two, &mut second)] {
        let settled = sandbox.json(&["-b", &store, "status", "--json"])["settled"]["complete"].clone();
        assert!(settled.as_u64().is_some_and(|settled| settled > 0), "{settled}");
        sandbox.ok(&["-b", &store, "stop"]);
        assert!(running.wait().success());
    }
    places.into_iter().for_each(Sandbox::assert_nothing_left);
}

#[test]
fn state_directory_other_than_that_of_the_running_supervisor_is_refused() {
    in_all_settings(|sandbox| {
        let _running = sandbox.start(&["-w", "1"]);
        for args in [&["put", "--", "true"][..], &["job", "list"]] {
            let other = [&["--state-dir", "../other"][..], args].concat();
            let (code, said) = sandbox.refused(&other);
            assert!(code == 2 && said.contains("/run/ctl.sock has not "), "{said}");
            assert!(said.contains("/other as its state directory\nhint: leave --state-dir"), "{said}");
        }
        assert!(!sandbox.path("other").exists());
        // The same directory by a symlink is accepted, and another one with its own run directory too.
        std::os::unix::fs::symlink(sandbox.path("state"), sandbox.work("link")).unwrap();
        sandbox.ok(&["--state-dir", "link", "put", "--", "true"]);
        sandbox.ok(&["--state-dir", "own/state", "--run-dir", "own/run", "put", "--", "true"]);
    });
}
