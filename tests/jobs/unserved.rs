//! Jobs that no supervisor or pool will run, and programs that are no workers: both are reported at once on stderr.

use std::process::Output;

use crate::sandbox::{Sandbox, Setting, is_root, wait_until};

fn sandbox() -> Sandbox {
    Sandbox::new(if is_root() { Setting::Root } else { Setting::Plain })
}

/// Runs a put that succeeds and returns its stderr.
#[track_caller]
fn said(sandbox: &Sandbox, args: &[&str]) -> String {
    let Output { status, stdout, stderr } = sandbox.run(args);
    let stderr = String::from_utf8(stderr).unwrap();
    assert!(status.success() && !stdout.is_empty(), "{status} {stderr}");
    stderr
}

#[test]
fn put_notes_on_stderr_that_no_supervisor_listens_and_names_the_socket() {
    let sandbox = sandbox();
    let note = said(&sandbox, &["put", "echo", "hello"]);
    let socket = sandbox.path("run").join("ctl.sock");
    assert!(note.contains(&format!("nobody listens on {}", socket.display())), "{note}");
    assert!(note.contains("hint: did you mean: taskvisor put -- echo hello\n"), "{note}");
    let note = said(&sandbox, &["put", "--", "true"]);
    assert!(note.contains("jobs wait in sqlite:") && note.contains("taskvisor start"), "{note}");
}

#[test]
fn queue_without_a_pool_is_reported_by_put_queue_list_status_and_wait() {
    let sandbox = sandbox();
    let mut running = sandbox.start(&["-w", "1", "-q", "mail", "-q", "default"]);
    assert_eq!(said(&sandbox, &["put", "--", "true"]), "");
    assert_eq!(said(&sandbox, &["put", "-q", "mail", "--", "true"]), "");
    let note = said(&sandbox, &["put", "-q", "mial", "--", "true"]);
    assert!(note.contains("no pool here takes jobs from queue 'mial'"), "{note}");
    assert!(note.contains("did you mean 'mail'?"), "{note}");
    let queues = sandbox.json(&["queue", "list", "--json"]);
    assert_eq!((&queues["mial"]["unserved"], &queues["mail"]["unserved"]), (&true.into(), &().into()));
    let state = |name: &str| {
        let list = sandbox.ok(&["queue", "list"]);
        list.lines().find(|line| line.starts_with(name)).unwrap().to_owned()
    };
    assert!(state("mial").ends_with("no pool") && state("mail").ends_with("open"));
    assert!(sandbox.ok(&["status"]).contains("\nno pool takes the jobs of mial (1)\n"));
    let jid =
        sandbox.lines(&["job", "list", "--queue", "mial", "--json"])[0]["id"].as_str().unwrap().to_owned();
    let waited = sandbox.run(&["job", "wait", "--timeout", "3s", &jid, &jid]);
    let note = String::from_utf8(waited.stderr).unwrap();
    assert_eq!(waited.status.code(), Some(124), "{note}");
    assert_eq!(note.matches("no pool here takes jobs from queue 'mial'").count(), 1, "{note}");
    sandbox.ok(&["stop"]);
    assert!(running.wait().success());
}

#[test]
fn put_prints_the_id_on_stderr_when_stdout_is_closed() {
    let sandbox = sandbox();
    let mut put = sandbox.command(&["put", "--", "true"]);
    let inner: Vec<_> =
        std::iter::once(put.get_program()).chain(put.get_args()).map(ToOwned::to_owned).collect();
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "exec \"$@\" >&-", "sh"]).args(inner).current_dir(sandbox.path("work"));
    for (name, value) in put.env("LC_ALL", "C").get_envs() {
        value.map(|value| shell.env(name, value));
    }
    let Output { status, stderr, .. } = shell.output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    let jid = sandbox.lines(&["job", "list", "--json"])[0]["id"].as_str().unwrap().to_owned();
    assert!(status.success() && stderr.contains(&format!("the job is queued as {jid}")), "{stderr}");
}

#[test]
fn put_warns_when_the_pool_user_cannot_enter_the_job_directory() {
    if !is_root() {
        return;
    }
    let sandbox = sandbox();
    let text = "pools: [{name: default, workers: 1, user: nobody}]\n";
    std::fs::write(sandbox.path("t.yaml"), text).unwrap();
    let mut running = sandbox.start(&["-c", sandbox.path("t.yaml").to_str().unwrap()]);
    let closed = sandbox.path("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let mut put = sandbox.command(&["put", "--", "true"]);
    let stderr = String::from_utf8(put.current_dir(&closed).output().unwrap().stderr).unwrap();
    assert!(stderr.contains("pool default runs jobs as nobody, who may not enter"), "{stderr}");
    assert!(stderr.contains("the job will fail"), "{stderr}");
    sandbox.ok(&["stop"]);
    assert!(running.wait().success());
}

#[test]
fn put_warns_of_a_class_that_no_worker_knows() {
    if !is_root() {
        return;
    }
    let sandbox = crate::python::new();
    let mut running = crate::python::start(&sandbox, "prefork", "app", &["-w", "1"]);
    sandbox.ok(&["put", "--wait", "default", "echo"]);
    assert_eq!(said(&sandbox, &["put", "default", "echo"]), "");
    let note = said(&sandbox, &["put", "default", "ecoh"]);
    assert!(note.contains("no worker here knows the class 'ecoh'"), "{note}");
    assert!(note.contains("did you mean 'echo'?"), "{note}");
    sandbox.ok(&["stop", "--now"]);
    assert!(running.wait().success());
}

#[test]
fn put_of_a_job_and_over_http_says_what_put_says() {
    if !is_root() {
        return;
    }
    let sandbox = crate::python::new();
    let mut running = crate::python::start(&sandbox, "prefork", "app", &["-w", "1"]);
    let id = sandbox.ok(&["put", "--wait", "default", "typos"]);
    assert_eq!(serde_json::from_str::<Vec<String>>(&id).unwrap().len(), 4, "{id}");
    let id =
        sandbox.lines(&["job", "list", "--class", "typos", "--json"])[0]["id"].as_str().unwrap().to_owned();
    let said = sandbox.ok(&["job", "logs", &id]);
    for (words, hint) in [
        ("no pool here takes jobs from queue 'mial'", "known here: default"),
        ("no worker here knows the class 'ecoh'", "did you mean 'echo'?"),
    ] {
        assert_eq!(said.matches(words).count(), 1, "{said}");
        assert!(said.contains(&format!("(hint: {hint})")) && said.contains("app.py:"), "{said}");
    }
    sandbox.ok(&["stop", "--now"]);
    assert!(running.wait().success());
}

#[test]
fn an_unexplained_sigkill_is_reported_with_possible_causes() {
    let sandbox = sandbox();
    let mut running = sandbox.start(&["-w", "1"]);
    let page = |script: &str| {
        let id = sandbox.ok(&["put", "--retries", "0", "--", "sh", "-c", script]);
        sandbox.run(&["job", "wait", id.trim()]);
        sandbox.ok(&["job", "show", id.trim()])
    };
    let killed = page("kill -9 $$");
    assert!(
        killed.contains("nobody here sent that SIGKILL\n  ") && killed.contains("for want of memory"),
        "{killed}"
    );
    assert!(!page("kill -15 $$").contains("nobody here sent"));
    sandbox.ok(&["stop"]);
    assert!(running.wait().success());
}

#[test]
fn root_gets_a_sudo_hint_for_a_store_of_another_user() {
    if !is_root() {
        return;
    }
    let sandbox = sandbox();
    sandbox.ok(&["put", "--", "true"]);
    std::os::unix::fs::chown(sandbox.path("state"), Some(4242), None).unwrap();
    let (code, said) = sandbox.refused(&["job", "list"]);
    assert!(
        code == 77 && said.contains("belongs to uid 4242") && said.contains("sudo -u '#4242' taskvisor"),
        "{said}"
    );
}

#[test]
fn command_that_speaks_no_worker_protocol_is_reported_within_seconds() {
    let sandbox = sandbox();
    for (command, words) in [
        (&["sleep", "100"][..], "`sleep 100` has said nothing for 5 s"),
        (&["python3", "app/tasks.py"], "taskvisor start -- python3 -m taskvisor.worker app.tasks"),
    ] {
        let mut running = sandbox.start_raw(&[&["-w", "1", "--"], command].concat());
        wait_until(words, || sandbox.stderr().contains(words));
        assert!(sandbox.stderr().contains("hello by the worker protocol"), "{}", sandbox.stderr());
        sandbox.ok(&["stop", "--kill"]);
        assert!(running.wait().success());
    }
}
