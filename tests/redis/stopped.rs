//! Commands that name no broker, while no supervisor answers and its broker stands in a settings file alone.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::sandbox::{Sandbox, Setting, kill, wait_until};
use crate::support::RedisServer;

/// A settings file with this broker, and its path.
fn settings(sandbox: &Sandbox, broker: &str) -> String {
    let path = sandbox.path("tv.yaml");
    fs::write(&path, format!("broker: '{broker}'\n")).unwrap();
    path.display().to_string()
}

/// Kills the supervisor while its keeper lives.
fn kill_supervisor(sandbox: &Sandbox) {
    kill(sandbox.status()["supervisor"]["pid"].as_i64().expect("a supervisor") as i32, "KILL");
}

fn has(sandbox: &Sandbox, config: &str, jid: &str) -> bool {
    sandbox.run(&["-c", config, "job", "show", jid]).status.success()
}

#[test]
fn command_without_the_settings_file_finds_the_broker_of_a_killed_or_stopped_supervisor() {
    let server = RedisServer::start();
    let of_redis = |_: &Sandbox| server.url();
    let of_file = |sandbox: &Sandbox| format!("sqlite:{}", sandbox.path("elsewhere.db").display());
    for broker in [&of_redis as &dyn Fn(&Sandbox) -> String, &of_file] {
        let sandbox = Sandbox::new(Setting::Root);
        let config = settings(&sandbox, &broker(&sandbox));
        let running = sandbox.start(&["-c", &config, "-w", "1"]);
        kill_supervisor(&sandbox);
        sandbox.ok(&["put", "--jid", "killed", "--delay", "1h", "--", "true"]);
        sandbox.wait_healthy();
        sandbox.ok(&["stop"]);
        drop(running);
        sandbox.ok(&["put", "--jid", "stopped", "--delay", "1h", "--", "true"]);
        sandbox.ok(&["queue", "pause", "default"]);
        sandbox.ok(&["recur", "put", "nightly", "--every", "1h", "--", "true"]);
        assert!(has(&sandbox, &config, "killed") && has(&sandbox, &config, "stopped"));
        assert!(sandbox.json(&["-c", &config, "queue", "list", "--json"])["default"]["paused"].is_object());
        assert!(sandbox.ok(&["-c", &config, "recur", "list"]).contains("nightly"));
        sandbox.ok(&["job", "cancel", "stopped"]);
        assert!(!sandbox.path("state/store.db").exists(), "no store of this user's own");
    }
}

#[test]
fn put_for_a_broker_with_a_password_waits_for_the_keeper_and_names_the_settings_after_a_stop() {
    let server = RedisServer::start_with(&["--requirepass", "s3cr3t"]);
    let sandbox = Sandbox::new(Setting::Root);
    let config = settings(&sandbox, &format!("redis://:s3cr3t@127.0.0.1:{}/0", server.port));
    let running = sandbox.start(&["-c", &config, "-w", "1"]);
    for note in ["state/broker", "run/broker"] {
        let path = sandbox.path(note);
        assert!(!fs::read_to_string(&path).unwrap().contains("s3cr3t"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    kill_supervisor(&sandbox);
    sandbox.ok(&["put", "--jid", "killed", "--delay", "1h", "--", "true"]);
    assert!(has(&sandbox, &config, "killed"));
    sandbox.ok(&["stop"]);
    drop(running);
    // After the machine has started, there is no run directory.
    for _ in 0..2 {
        for refused in [&["put", "--", "true"][..], &["queue", "pause", "default"], &["job", "list"]] {
            let (code, said) = sandbox.refused(refused);
            assert_eq!(code, 69, "{refused:?}: {said}");
            assert!(said.contains(&format!("-c {config}")) && !said.contains("s3cr3t"), "{said}");
        }
        fs::remove_dir_all(sandbox.path("run")).ok();
    }
    assert!(!sandbox.path("state/store.db").exists());
    sandbox.ok(&["-c", &config, "put", "--jid", "named", "--", "true"]);
}

#[test]
fn status_and_start_tell_of_jobs_in_an_embedded_store_that_no_supervisor_reads() {
    let (sandbox, server) = (Sandbox::new(Setting::Root), RedisServer::start());
    let store = format!("sqlite:{}", sandbox.path("state/store.db").display());
    sandbox.ok(&["put", "--jid", "lost", "--", "true"]);
    let config = settings(&sandbox, &server.url());
    let _running = sandbox.start(&["-c", &config, "-w", "1"]);
    let told = format!("1 job that has not ended lies in {}", sandbox.path("state/store.db").display());
    assert!(sandbox.stderr().contains(&told), "{}", sandbox.stderr());
    let said = String::from_utf8(sandbox.run(&["status"]).stderr).unwrap();
    assert!(said.contains(&told) && said.contains(&format!("-b {store} job list")), "{said}");
    sandbox.ok(&["-b", &store, "job", "cancel", "lost"]);
    assert!(sandbox.run(&["status"]).stderr.is_empty());
}

#[test]
fn put_into_another_broker_than_that_of_the_stopped_supervisor_is_noted_and_done() {
    let (sandbox, server) = (Sandbox::new(Setting::Root), RedisServer::start());
    let config = settings(&sandbox, &server.url());
    let running = sandbox.start(&["-c", &config, "-w", "1"]);
    sandbox.ok(&["stop"]);
    drop(running);
    let other = format!("sqlite:{}", sandbox.path("other.db").display());
    let output = sandbox.run(&["-b", &other, "put", "--", "true"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(&format!("has its jobs in {}, and reads none of {other}", server.url())), "{said}");
}

/// The program in PATH, and the package of this tree.
fn python(sandbox: &Sandbox, jid: &str) -> Command {
    let program = sandbox.command(&[]).get_program().to_owned();
    let bin = std::path::Path::new(&program).parent().unwrap().display().to_string();
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new("python3");
    let put = format!("import taskvisor; print(taskvisor.put('q', 'C', id='{jid}'))");
    command.args(["-c", &put]);
    command
        .env("PYTHONPATH", concat!(env!("CARGO_MANIFEST_DIR"), "/python"))
        .env("PATH", format!("{bin}:{path}"))
        .env("TASKVISOR_STATE_DIR", sandbox.path("state"))
        .env("TASKVISOR_RUN_DIR", sandbox.path("run"));
    command
}

#[test]
fn put_from_python_waits_for_a_living_keeper_and_reaches_the_broker_after_a_stop() {
    for password in ["", "s3cr3t"] {
        let more: &[&str] = if password.is_empty() { &[] } else { &["--requirepass", password] };
        let (sandbox, server) = (Sandbox::new(Setting::Root), RedisServer::start_with(more));
        let user = if password.is_empty() { String::new() } else { format!(":{password}@") };
        let config = settings(&sandbox, &format!("redis://{user}127.0.0.1:{}/0", server.port));
        let running = sandbox.start(&["-c", &config, "-w", "1"]);
        kill_supervisor(&sandbox);
        let put = python(&sandbox, "killed").output().unwrap();
        assert!(put.status.success(), "{}", String::from_utf8_lossy(&put.stderr));
        assert!(has(&sandbox, &config, "killed"));
        sandbox.ok(&["stop"]);
        drop(running);
        if password.is_empty() {
            let put = python(&sandbox, "stopped").output().unwrap();
            assert!(put.status.success(), "{}", String::from_utf8_lossy(&put.stderr));
            assert!(has(&sandbox, &config, "stopped"));
            continue;
        }
        // It waits for the next start.
        let mut put = python(&sandbox, "stopped").spawn().unwrap();
        let _again = sandbox.start(&["-c", &config, "-w", "1"]);
        assert!(put.wait().unwrap().success());
        wait_until("it is there", || has(&sandbox, &config, "stopped"));
        assert!(!sandbox.path("state/store.db").exists());
    }
}
