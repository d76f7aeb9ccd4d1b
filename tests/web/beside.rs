//! The page that a supervisor keeps beside it.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use crate::page::{Served, status};
use crate::sandbox::{Sandbox, Setting, kill, wait_until};

/// The page once it listens: as a process, and its address in `status`.
fn seen(sandbox: &Sandbox) -> Option<(i32, String)> {
    let web = &sandbox.status()["web"];
    Some((web["pid"].as_i64()? as i32, web["url"].as_str()?.to_owned()))
}

/// The page, which is not this one before.
fn next(sandbox: &Sandbox, before: i32) -> (i32, String) {
    let mut found = None;
    wait_until("the page is there", || {
        found = seen(sandbox).filter(|(pid, _)| *pid != before);
        found.is_some()
    });
    found.unwrap()
}

/// The address with its key that the log has said last.
fn told(sandbox: &Sandbox) -> String {
    let log = sandbox.stderr();
    let line =
        log.lines().rfind(|line| line.contains("/enter?key=")).unwrap_or_else(|| panic!("no key: {log}"));
    line[line.find("http://").unwrap()..].trim().to_owned()
}

fn of_process(pid: i32, file: &str, name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    let line =
        text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {text}"));
    line.trim().to_owned()
}

#[test]
fn start_keeps_the_page_beside_it_starts_it_again_and_ends_with_it() {
    let sandbox = Sandbox::new(Setting::Root);
    // The page prints its key only into a log that other users cannot read.
    let mut running = sandbox.start_with(&["-w", "2", "--web"], |_| {
        fs::set_permissions(sandbox.path("stderr"), fs::Permissions::from_mode(0o600)).unwrap();
    });
    let (pid, url) = next(&sandbox, 0);
    let supervisor = sandbox.status()["supervisor"]["pid"].as_i64().unwrap();
    assert_eq!(of_process(pid, "status", "PPid:"), supervisor.to_string());
    assert!(sandbox.ok(&["status"]).contains(&format!("page({pid})  {url}")), "{}", sandbox.ok(&["status"]));
    let page = Served::at_url(&told(&sandbox));
    let job = sandbox.put(&["true"]);
    let cookie = page.enter();
    let shown = page.ask("GET", &format!("/job/{job}"), &[&cookie], "");
    assert!(status(&shown) == 200 && shown.contains(&job), "{shown}");

    // It has no right, no secret and no lock of the supervisor.
    assert_eq!(of_process(pid, "status", "CapEff:"), "0000000000000000");
    assert_eq!(of_process(pid, "status", "NoNewPrivs:"), "1");
    assert!(!fs::read_to_string(format!("/proc/{pid}/environ")).unwrap().contains("TASKVISOR"));
    let open = fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|fd| fs::read_link(fd.unwrap().path()).ok());
    let files: Vec<_> = open.filter(|file| file.starts_with(sandbox.path(""))).collect();
    assert!(files.is_empty(), "{files:?}");

    kill(pid, "KILL");
    let (again, same) = next(&sandbox, pid);
    assert_eq!((same, sandbox.status()["web"]["restarts"].as_u64()), (url, Some(1)));
    let page = Served::at_url(&told(&sandbox));
    assert_eq!(status(&page.ask("GET", "/", &[&page.enter()], "")), 200);

    // A supervisor that dies takes it along, and no job is said to have left it; the next has its own.
    let job = sandbox.put(&["sleep", "1000"]);
    wait_until("the job runs", || sandbox.job_processes().iter().any(|seen| seen.comm == "sleep"));
    kill(supervisor as i32, "KILL");
    wait_until("it has ended", || !fs::exists(format!("/proc/{again}")).unwrap());
    let (pid, _) = next(&sandbox, again);
    assert_eq!(sandbox.one("tv-web"), pid);
    let told = sandbox.ok(&["job", "show", &job]) + &sandbox.ok(&["why", "job", &job]);
    assert!(!told.contains("left behind"), "{told}");
    sandbox.ok(&["job", "cancel", "--wait", &job]);
    sandbox.assert_calm();
    sandbox.ok(&["stop"]);
    running.wait();
    sandbox.assert_nothing_left();
}

#[test]
fn page_that_cannot_listen_is_a_reason_in_the_status_and_jobs_run() {
    let sandbox = Sandbox::new(Setting::Root);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let conf = format!("web: {{listen: '{address}', redact: [password]}}\npools: [{{workers: 1}}]\n");
    fs::write(sandbox.path("work/conf.yaml"), conf).unwrap();
    let _running = sandbox.start(&["-c", "conf.yaml"]);
    wait_until("the status says so", || {
        let reasons = sandbox.reasons();
        reasons.contains("the page for browsers does not run") && reasons.contains("failed to listen on")
    });
    sandbox.assert_calm();
    drop(taken);
    wait_until("it listens", || seen(&sandbox).is_some_and(|(_, url)| url.contains(&address.to_string())));
    wait_until("all is well", || !sandbox.reasons().contains("page"));
}

#[test]
fn settings_of_the_page_hold_for_the_command_too() {
    let sandbox = Sandbox::new(Setting::Root);
    let conf = "web: {redact: [password], read_only: true}\n";
    fs::write(sandbox.path("work/conf.yaml"), conf).unwrap();
    let _running = sandbox.start(&[]);
    let job =
        sandbox.ok(&["put", "later", "mail.Send", r#"{"to": "ada", "password": "canary", "pin": 4711}"#]);
    let page = Served::start(&sandbox, &["-c", "conf.yaml", "--redact", "pin"]);
    let shown = page.ask("GET", &format!("/job/{}", job.trim()), &[&page.enter()], "");
    assert!(shown.contains("ada") && !shown.contains("canary") && !shown.contains("4711"), "{shown}");
    assert!(shown.contains("view only") && !shown.contains("/act?"), "{shown}");
    let (code, said) = sandbox.refused(&["check", "-c", "conf.yaml", "--web", "nowhere"]);
    assert!(code == 78 && said.contains("nowhere"), "{code} {said}");
}

#[test]
fn page_without_the_file_of_its_supervisor_hides_what_that_hides() {
    let sandbox = Sandbox::new(Setting::Root);
    fs::write(sandbox.path("work/conf.yaml"), "web: {redact: [password]}\npools: [{workers: 1}]\n").unwrap();
    let _running = sandbox.start(&["-c", "conf.yaml"]);
    let job = sandbox.ok(&["put", "later", "mail.Send", r#"{"to": "ada", "password": "canary"}"#]);
    let page = Served::start(&sandbox, &[]);
    let shown = page.ask("GET", &format!("/job/{}", job.trim()), &[&page.enter()], "");
    assert!(shown.contains("ada") && !shown.contains("canary"), "{shown}");
}
