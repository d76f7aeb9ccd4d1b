//! Puts of members of the socket's group while no supervisor runs.

use std::collections::BTreeSet;
use std::os::unix::fs::{chown, symlink};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::group::{GROUP, MEMBER, OTHER, as_user, settings, taskvisor};
use super::*;

fn member() -> Command {
    as_user(MEMBER, MEMBER, &[GROUP])
}

/// Puts a job by Python.
fn python_put(mut command: Command, run: &Path) -> Output {
    let text = "import warnings; warnings.simplefilter('always'); import taskvisor; \
                print(taskvisor.put('default', 'doc.Nobody'))";
    command.args(["python3", "-c", text]).current_dir("/").env_clear().env("TASKVISOR_RUN_DIR", run);
    let package = concat!(env!("CARGO_MANIFEST_DIR"), "/python");
    command.env("PYTHONPATH", package).env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap()
}

fn stop(running: &mut sandbox::Running<'_>) {
    running.signal("TERM");
    running.wait();
}

/// Writes a file into the spool as this user, with this mode.
fn leave(mut command: Command, spool: &Path, name: &str, text: &str, mode: &str) {
    let script = r#"printf %s "$2" >"$1" && chmod "$3" "$1""#;
    command.args(["sh", "-c", script, "-"]).arg(spool.join(name)).args([text, mode]).current_dir("/");
    assert!(command.status().unwrap().success(), "{name}");
}

fn body(id: &str) -> String {
    format!(r#"{{"jobs":[{{"id":"{id}","exists":"skip","queue":"elsewhere","class":"doc.Nobody"}}]}}"#)
}

#[test]
fn puts_of_members_while_no_supervisor_runs_are_queued_by_the_next_start() {
    if !sandbox::is_root() {
        return sandbox::missing("root");
    }
    let sandbox = Sandbox::new(Setting::Root);
    let start = ["-w", "1", "-c", &settings(&sandbox, &GROUP.to_string())];
    let (run, spool) = (sandbox.path("run"), sandbox.path("state/spool"));
    let mut running = sandbox.start(&start);
    assert_eq!(fs::symlink_metadata(&spool).unwrap().mode() & 0o7777, 0o1730);
    stop(&mut running);
    let put = taskvisor(member(), &run, &["put", "--", "true"]);
    assert!(put.status.success(), "{}", text(&put.stderr));
    assert!(text(&put.stderr).contains("the next start queues it"), "{}", text(&put.stderr));
    let by_python = python_put(member(), &run);
    let warned = text(&by_python.stderr);
    assert!(by_python.status.success() && warned.contains("the next start queues it"), "{warned}");
    let listed = member().args(["ls"]).arg(&spool).output().unwrap();
    assert!(!listed.status.success(), "members list nothing: {}", text(&listed.stdout));
    let refused = taskvisor(as_user(OTHER, OTHER, &[]), &run, &["put", "--", "true"]);
    assert!(!refused.status.success() && text(&refused.stdout).is_empty());
    let refused = taskvisor(member(), &run, &["job", "list"]);
    assert_eq!(refused.status.code(), Some(3), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("no supervisor runs here"), "{}", text(&refused.stderr));
    let said = sandbox.run(&["status"]);
    assert!(text(&said.stderr).contains("2 puts wait"), "{}", text(&said.stderr));

    let mut running = sandbox.start(&start);
    for put in [&put, &by_python] {
        let id = text(&put.stdout).trim().to_owned();
        wait_until("it is queued", || sandbox.run(&["job", "show", &id]).status.success());
        assert!(sandbox.ok(&["job", "show", &id]).contains(&format!("put by uid {MEMBER}")));
    }
    assert_eq!(fs::read_dir(&spool).unwrap().count(), 0);
    sandbox.ok(&["job", "wait", text(&put.stdout).trim()]);
    stop(&mut running);
    // As systemd has it for a moment at a start: the put waits, and makes no store of its own.
    fs::set_permissions(sandbox.path("state"), fs::Permissions::from_mode(0o700)).unwrap();
    let home = sandbox.path("home");
    fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(MEMBER), None).unwrap();
    let mut waiting = member();
    waiting.args([env!("CARGO_BIN_EXE_taskvisor"), "put", "--", "true"]).current_dir("/").env_clear();
    waiting.env("TASKVISOR_RUN_DIR", &run).env("HOME", &home).stdout(Stdio::piped());
    let waiting = waiting.spawn().unwrap();
    fs::set_permissions(sandbox.path("state"), fs::Permissions::from_mode(0o711)).unwrap();
    let waited = waiting.wait_with_output().unwrap();
    assert!(waited.status.success() && fs::read_dir(&home).unwrap().next().is_none());
    assert_eq!(fs::read_dir(&spool).unwrap().count(), 1);
    // Without the group nobody leaves more.
    let mut running = sandbox.start(&["-w", "1"]);
    stop(&mut running);
    let refused = taskvisor(member(), &run, &["put", "--", "true"]);
    assert!(!refused.status.success(), "{}", text(&refused.stdout));
}

#[test]
fn spool_takes_only_whole_puts_of_their_owners_and_sets_aside_the_rest() {
    if !sandbox::is_root() {
        return sandbox::missing("root");
    }
    let sandbox = Sandbox::new(Setting::Root);
    let start = ["-w", "1", "-c", &settings(&sandbox, &GROUP.to_string())];
    let (spool, aside) = (sandbox.path("state/spool"), sandbox.path("state/spool-aside"));
    let mut running = sandbox.start(&start);
    stop(&mut running);
    let own = |number: u32| format!("{MEMBER}.{number}");
    leave(member(), &spool, &own(0), &body("whole"), "1644");
    leave(member(), &spool, &own(1), &body("half"), "600");
    leave(member(), &spool, &format!("{OTHER}.0"), &body("as-another"), "1644");
    leave(member(), &spool, &own(2), "{\"jobs\":[", "1644");
    leave(member(), &spool, &own(3), &body("no-id").replace(r#""id":"no-id","exists":"skip","#, ""), "1644");
    leave(member(), &spool, &own(4), &body("linked"), "1644");
    fs::hard_link(spool.join(own(4)), spool.join(own(5))).unwrap();
    symlink(sandbox.work("group.yaml"), spool.join(own(6))).unwrap();
    assert!(member().arg("mkfifo").arg(spool.join(own(7))).status().unwrap().success());
    leave(member(), &spool, &own(10_000), &body("beyond"), "1644");
    // A file of somebody else that was moved there is not that user's put.
    fs::write(spool.join("0.0"), body("moved")).unwrap();
    chown(spool.join("0.0"), Some(OTHER), None).unwrap();

    let mut running = sandbox.start(&start);
    wait_until("the whole one is queued", || sandbox.run(&["job", "show", "whole"]).status.success());
    wait_until("the others are named", || sandbox.reasons().contains("8 in "));
    let why = sandbox.ok(&["why", "job", "whole"]);
    assert!(why.contains("cannot be queued") && why.contains("spool-aside"), "{why}");
    for id in ["half", "as-another", "linked", "beyond", "moved"] {
        assert!(!sandbox.run(&["job", "show", id]).status.success(), "{id}");
    }
    let left: BTreeSet<String> = fs::read_dir(&spool)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(left, BTreeSet::from([own(1), "0.0".into()]), "those are not finished");
    // One that is left again, as when a supervisor died in between, is the same job; a running supervisor takes it, too.
    leave(member(), &spool, &own(8), &body("whole"), "1644");
    wait_until("it is taken", || !spool.join(own(8)).exists());
    assert_eq!(sandbox.lines(&["job", "list", "--json"]).len(), 1);
    fs::remove_dir_all(&aside).unwrap();
    leave(member(), &spool, &own(9), &body("next"), "1644");
    wait_until("it is seen to", || !sandbox.reasons().contains("cannot be queued"));
    stop(&mut running);
}

/// A class may go to another broker. One that does not answer is that class's trouble.
#[test]
fn put_that_a_route_holds_up_keeps_no_other_in_the_spool() {
    if !sandbox::is_root() {
        return sandbox::missing("root");
    }
    let sandbox = Sandbox::new(Setting::Root);
    let redis = sandbox.work("redis.sock");
    let yaml = format!(
        "{{socket_group: {GROUP}, route: [{{classes: [far.Job], to: 'unix://{}'}}]}}",
        redis.display()
    );
    fs::write(sandbox.work("routes.yaml"), yaml).unwrap();
    let start = ["-w", "1", "-c", "routes.yaml"];
    let spool = sandbox.path("state/spool");
    let mut running = sandbox.start(&start);
    stop(&mut running);
    let far = |id: &str| body(id).replace("doc.Nobody", "far.Job");
    // It can be queued only after what it needs.
    let needs = body("needs").replace(r#""class""#, r#""depends":["first"],"class""#);
    for (number, text) in [far("first"), far("second"), needs, body("here")].iter().enumerate() {
        leave(member(), &spool, &format!("{MEMBER}.{number}"), text, "1644");
    }
    let mut running = sandbox.start(&start);
    wait_until("the other is queued", || sandbox.run(&["job", "show", "here"]).status.success());
    wait_until("the others are named", || sandbox.reasons().contains("puts wait in the spool: 3 in "));
    stop(&mut running);
}

#[test]
fn each_put_of_members_over_stops_kills_and_starts_is_one_job() {
    if !sandbox::is_root() {
        return sandbox::missing("root");
    }
    let sandbox = Sandbox::new(Setting::Root);
    let start = ["-w", "1", "-c", &settings(&sandbox, &GROUP.to_string())];
    let (run, over, told) = (sandbox.path("run"), AtomicBool::new(false), Mutex::new(Vec::new()));
    let mut running = sandbox.start(&start);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    let put = taskvisor(member(), &run, &["put", "--", "true"]);
                    assert!(put.status.success(), "{}", text(&put.stderr));
                    told.lock().unwrap().push(text(&put.stdout).trim().to_owned());
                }
            });
        }
        for round in 0..6 {
            let before = told.lock().unwrap().len();
            wait_until("some are put", || told.lock().unwrap().len() > before + 8);
            running.signal(if round % 2 == 0 { "TERM" } else { "KILL" });
            running.wait();
            let before = told.lock().unwrap().len();
            wait_until("some are left", || told.lock().unwrap().len() > before + 8);
            running = sandbox.start(&start);
        }
        over.store(true, Ordering::SeqCst);
    });
    wait_until("all are taken", || fs::read_dir(sandbox.path("state/spool")).unwrap().count() == 0);
    let told = told.into_inner().unwrap();
    let jobs = sandbox.lines(&["job", "list", "--json", "-n", "0"]);
    let ids: BTreeSet<String> = jobs.iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!((ids.len(), jobs.len()), (told.len(), told.len()));
    assert_eq!(ids, told.into_iter().collect());
    stop(&mut running);
}
