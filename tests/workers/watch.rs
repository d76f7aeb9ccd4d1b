//! `start --watch`: a save of code exchanges the workers.

use std::fs;

use crate::python;
use crate::sandbox::{Sandbox, alive, kill, wait_until};

fn save(sandbox: &Sandbox, body: &str) {
    // As editors do it: a new file takes the place of the old one.
    let text = format!("from taskvisor import job\n\n@job('version')\ndef version():\n    {body}\n");
    fs::write(sandbox.work("code/.saved.py.swp"), text).unwrap();
    fs::rename(sandbox.work("code/.saved.py.swp"), sandbox.work("code/saved.py")).unwrap();
}

fn version(sandbox: &Sandbox) -> String {
    sandbox.ok(&["put", "--wait", "default", "version"]).trim().to_owned()
}

#[test]
fn save_exchanges_the_workers_and_a_syntax_error_keeps_them() {
    for mode in ["prefork", "fork"] {
        let sandbox = python::new();
        fs::create_dir(sandbox.work("code")).unwrap();
        save(&sandbox, "return 1");
        let env = format!("PYTHONPATH={}:{}", python::path(), sandbox.work("code").display());
        let options = ["-w", "2", "-m", mode, "--watch", "code", "--env", &env];
        let command = ["--", "python3", "-m", "taskvisor.worker", "saved"];
        let mut running = sandbox.start(&[&options[..], &command].concat());
        assert_eq!(version(&sandbox), "1");
        // Each of another length: Python takes its cached code for that of a save within the same second.
        save(&sandbox, "return 1 + 1");
        wait_until("the saved code runs", || version(&sandbox) == "2");
        save(&sandbox, "return (");
        wait_until("status shows the error", || sandbox.ok(&["status"]).contains("SyntaxError"));
        assert_eq!(version(&sandbox), "2");
        save(&sandbox, "return 1 + 1 + 1");
        wait_until("the mended code runs", || version(&sandbox) == "3");
        wait_until("the log names the file", || {
            let said = sandbox.stderr();
            said.contains("exchanged for new ones") && said.contains("code/saved.py changed")
        });
        assert!(sandbox.stderr().contains("SyntaxError"), "{mode}: {}", sandbox.stderr());
        sandbox.ok(&["stop", "--now"]);
        running.wait();
    }
}

#[test]
fn directory_that_is_not_there_is_refused_at_once() {
    let sandbox = python::new();
    let (code, said) = sandbox.refused(&["start", "--watch", "no_code", "--", "true"]);
    assert!(
        code == 2 && said.contains("failed to watch") && said.contains("no_code: No such file"),
        "{said}"
    );
}

#[test]
fn supervisor_is_restarted_and_reloads_while_the_watched_directory_is_away() {
    let sandbox = python::new();
    fs::create_dir(sandbox.work("code")).unwrap();
    let file = sandbox.work("t.yaml");
    fs::write(&file, "pools:\n- workers: 1\n").unwrap();
    let mut running = sandbox.start(&["-c", &file.display().to_string(), "--watch", "code"]);
    fs::remove_dir(sandbox.work("code")).unwrap();
    sandbox.ok(&["reload"]);
    let first = sandbox.one("tv-supervisor");
    kill(first, "KILL");
    wait_until("another supervisor answers", || !alive(first) && sandbox.status().is_object());
    sandbox.ok(&["stop"]);
    running.wait();
}
