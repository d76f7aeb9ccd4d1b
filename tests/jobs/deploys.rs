//! Deploys: what a stop would end, what a reload changes, whether new workers boot, cancel by filter.

use std::fs;
use std::process::Stdio;

use crate::python;
use crate::sandbox::{Sandbox, Setting, is_root, kill, missing, wait_until};

/// A pool whose workers have their version in the environment.
fn write(sandbox: &Sandbox, version: u32, module: &str) -> String {
    let text = format!(
        "pools:\n- {{name: app, workers: 2, grace: 2s, env: {{set: {{PYTHONPATH: '{}', TOKEN: 's3cret{version}', V: 'v{version}'}}}}, \
         command: python3 -m taskvisor.worker {module}}}\n",
        python::path()
    );
    let (new, file) = (sandbox.work("new.yaml"), sandbox.work("pools.yaml"));
    fs::write(&new, text).unwrap();
    fs::rename(new, &file).unwrap();
    file.display().to_string()
}

#[test]
fn reload_wait_returns_when_all_workers_are_new_and_fails_if_they_cannot_boot() {
    if !is_root() {
        return;
    }
    let sandbox = python::new();
    let mut running = sandbox.start(&["-c", &write(&sandbox, 1, "app")]);
    let long = sandbox.ok(&["put", "default", "hold", "[\"long\"]"]).trim().to_owned();
    python::word(&sandbox, "begun-long");

    write(&sandbox, 2, "app");
    let told = sandbox.ok(&["reload", "--dry-run"]);
    assert_eq!(
        told,
        "app: gets new workers\n  env.set.TOKEN: hidden -> hidden\n  env.set.V: hidden -> hidden\n"
    );
    let (code, said) = sandbox.refused(&["reload", "--wait", "--timeout", "3s"]);
    assert!(
        code == 124 && said.contains(&format!("old workers of pool app still run, with {long}")),
        "{code} {said}"
    );
    python::touch(&sandbox, "go");
    sandbox.ok(&["reload", "--wait", "--timeout", "1m"]);
    let ready = |status: &serde_json::Value| {
        let pools = status["pools"].as_array().unwrap();
        pools.len() == 1 && pools[0]["slots"].as_array().unwrap().iter().all(|slot| slot["state"] == "ready")
    };
    assert!(ready(&sandbox.status()), "{}", sandbox.status());
    sandbox.ok(&["recycle", "app", "--wait", "--timeout", "1m"]);
    assert!(ready(&sandbox.status()), "{}", sandbox.status());

    write(&sandbox, 3, "no_such_module");
    let (code, said) = sandbox.refused(&["reload", "--wait", "--timeout", "1m"]);
    assert!(code == 1 && said.contains("the new workers cannot boot: pool app: "), "{code} {said}");
    sandbox.ok(&["stop"]);
    assert!(running.wait().success());
}

#[test]
fn reload_wait_survives_the_death_of_the_supervisor() {
    if !is_root() {
        return missing("root");
    }
    let sandbox = python::new();
    let _running = sandbox.start(&["-c", &write(&sandbox, 1, "app")]);
    sandbox.ok(&["put", "default", "hold", "[\"long\"]"]);
    python::word(&sandbox, "begun-long");
    write(&sandbox, 2, "app");
    let mut reload = sandbox.command(&["reload", "--wait", "--timeout", "1m"]);
    let mut reload = reload.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the old worker is to leave", || sandbox.status()["pools"].as_array().unwrap().len() == 2);
    let first = sandbox.one("tv-supervisor");
    kill(first, "KILL");
    wait_until("another one has its place", || {
        sandbox.run(&["status", "--json"]).status.code() != Some(69) && sandbox.one("tv-supervisor") != first
    });
    assert!(reload.try_wait().unwrap().is_none_or(|ended| ended.success()), "it gave up");
    python::touch(&sandbox, "go");
    let ended = reload.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn stop_dry_run_lists_each_running_job_and_ends_none() {
    let sandbox = Sandbox::new(if is_root() { Setting::Root } else { Setting::Plain });
    let mut running = sandbox.start(&["-w", "2", "--grace", "3s"]);
    assert_eq!(sandbox.ok(&["stop", "--dry-run"]), "no job runs: it would end at once\n");
    let id = sandbox.put(&["sleep", "1000"]);
    wait_until("it runs", || sandbox.state(&id) == "running");
    let told = sandbox.ok(&["stop", "--dry-run"]);
    assert!(
        told.starts_with("1 job running: they may go on until one grace before the stop deadline of 25s"),
        "{told}"
    );
    assert!(
        told.contains(&format!("{id}  attempt 1  ran ")) && told.contains("grace 3s  sleep 1000"),
        "{told}"
    );
    assert!(sandbox.ok(&["stop", "--kill", "--dry-run"]).contains("get KILL at once\n"));
    assert_eq!(sandbox.state(&id), "running");

    let status = sandbox.status();
    assert!(status["store_bytes"].as_u64().unwrap() > 4096, "{status}");
    let loud = sandbox.put(&["sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x"]);
    sandbox.ok(&["job", "wait", &loud]);
    wait_until("its output counts", || sandbox.status()["logs"]["output_bytes"].as_u64() > Some(100_000));
    assert!(
        sandbox
            .ok(&["status"])
            .lines()
            .any(|line| line.starts_with("store ") && line.contains("output of jobs "))
    );
    sandbox.ok(&["stop", "--kill"]);
    assert!(running.wait().success());
}

#[test]
fn cancel_by_filter_keeps_its_reason_in_each_job() {
    let sandbox = Sandbox::new(if is_root() { Setting::Root } else { Setting::Plain });
    let mut running = sandbox.start(&["-w", "1", "--grace", "1s"]);
    let put =
        |more: &[&str]| sandbox.ok(&[&["put"], more, &["--", "sleep", "1000"]].concat()).trim().to_owned();
    let runs = put(&["--tag", "eu"]);
    wait_until("it runs", || sandbox.state(&runs) == "running");
    let [waits, other] = [put(&["--tag", "eu"]), put(&["-q", "other"])];
    // The older of these two needs the newer: both are canceled, in whichever order they are taken.
    let late = put(&["--tag", "eu", "--delay", "1h"]);
    sandbox.ok(&["job", "depends", &waits, "on", &late]);
    let held_by = put(&["--delay", "1h", "--tag", "eu"]);
    let outside = put(&["--depends", &held_by]);

    let dry = sandbox.ok(&["job", "cancel", "--tag", "eu", "--dry-run"]);
    assert!(
        dry.starts_with("4 jobs would be canceled (1 running)\n") && dry.contains(&format!("  {waits}  ")),
        "{dry}"
    );
    assert_eq!(sandbox.state(&runs), "running");
    let done = sandbox.ok(&["job", "cancel", "--tag", "eu", "--reason", "the wrong\ntext", "--wait"]);
    assert_eq!(
        done,
        "3 jobs canceled (1 running: they are being ended)\n1 stays, because others depend on them: --dependents ends those, too\n"
    );
    let states = [&runs, &waits, &late, &other, &held_by, &outside].map(|id| sandbox.state(id));
    assert_eq!(states, ["canceled", "canceled", "canceled", "waiting", "delayed", "depends"]);
    assert!(sandbox.ok(&["job", "show", &runs]).contains(": the wrong\\ntext"));
    assert!(sandbox.ok(&["why", "job", &waits]).contains("the wrong\\ntext"));
    assert!(sandbox.stderr().contains("jobs are to be canceled: the wrong"), "{}", sandbox.stderr());
    let json =
        sandbox.json(&["job", "cancel", "--state", "waiting,delayed,depends", "--dependents", "--json"]);
    assert_eq!((json["count"].as_u64(), json["needed"].as_u64()), (Some(3), Some(0)));

    let (code, said) = sandbox.refused(&["job", "cancel", "--state", "failed"]);
    assert!(code == 2 && said.contains("a job that is failed cannot be canceled"), "{said}");
    assert_eq!(sandbox.refused(&["job", "cancel", "--class", "no.Such"]).0, 7);
    assert_eq!(sandbox.refused(&["job", "cancel", "--reason", "x"]).0, 2);
    sandbox.ok(&["stop"]);
    assert!(running.wait().success());
}
