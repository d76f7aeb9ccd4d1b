//! Jobs of other hosts, shown on a host without a supervisor.

use std::process::Stdio;

use crate::sandbox::{Sandbox, Setting, wait_until};
use crate::supervisors::Scene;

#[test]
fn why_names_the_supervisor_that_has_a_job_or_may_take_it() {
    let scene = Scene::new();
    let here = Sandbox::new(Setting::Root);
    let why = |jid: &str| here.ok(&["-b", &scene.url, "why", "job", jid]);
    let jid = here.ok(&["-b", &scene.url, "put", "--", "true"]).trim().to_owned();
    assert!(
        why(&jid).contains("none that shares this broker takes jobs from queue default"),
        "{}",
        why(&jid)
    );
    let _running = scene.start(&["-w", "1"]);
    let (jid, _) = scene.a_long_job();
    wait_until("the host is known", || why(&jid).contains(" on "));
    let said = why(&jid);
    let host = nix::unistd::gethostname().unwrap().to_string_lossy().into_owned();
    let instance = scene.job(&jid)["instance"].as_str().unwrap().to_owned();
    assert!(
        said.contains(&format!("of {instance} on {host}.")) && said.contains("Its lease ends in"),
        "{said}"
    );
    assert!(said.contains("It is another's who shares this broker"), "{said}");
    assert!(!said.contains("No supervisor runs here"), "{said}");
    let page = here.ok(&["-b", &scene.url, "job", "show", &jid]);
    assert!(page.contains(&format!("{instance} on {host}")), "{page}");
    scene.ok(&["queue", "pause", "default"]);
    let next = here.ok(&["-b", &scene.url, "put", "--", "true"]).trim().to_owned();
    assert!(why(&next).contains(&format!("queue default are taken on {host}:")), "{}", why(&next));
}

#[test]
fn job_logs_on_another_host_names_the_host_that_has_the_output() {
    let scene = Scene::new();
    let here = Sandbox::new(Setting::Root);
    let put = |line: &str| here.ok(&["-b", &scene.url, "put", "--", "sh", "-c", line]).trim().to_owned();
    let jid = put("echo hello");
    // A waiting job may still run here, so `-f` follows it.
    let mut follow = here.command(&["-b", &scene.url, "job", "logs", "-f", &put("sleep 1000")]);
    let follow = follow.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _running = scene.start(&["-w", "2"]);
    wait_until("it is complete", || scene.state(&jid) == "complete");
    assert_eq!(scene.ok(&["job", "logs", &jid]), "hello\n");
    let (code, said) = here.refused(&["-b", &scene.url, "job", "logs", &jid]);
    let instance = scene.job(&jid)["instance"].as_str().unwrap().to_owned();
    assert!(code == 1 && said.contains("is not here") && said.contains(&instance), "{code}: {said}");
    assert!(said.contains("stays on the host that ran the job"), "{said}");
    let ended = follow.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.code() == Some(1) && said.contains("runs by") && said.contains(&instance), "{said}");
}
