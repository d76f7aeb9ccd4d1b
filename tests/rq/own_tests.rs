//! RQ's own tests that need a worker, with taskvisor in place of `Worker.work()`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::redis_server::RedisServer;
use crate::sandbox::missing;

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rq");

/// The cases; one that is not run has the reason. Cases that depend on the speed of the machine are not run.
fn cases() -> BTreeMap<String, Option<String>> {
    let text = fs::read_to_string(format!("{HERE}/cases")).unwrap();
    let case = |line: &str| match line.split_once(" # ") {
        Some((case, why)) => (case.to_owned(), Some(why.to_owned())),
        None => (line.to_owned(), None),
    };
    text.lines().map(case).collect()
}

/// RQ with its tests, installed once below target/.
fn venv() -> Option<String> {
    let output = Command::new("sh")
        .args([&format!("{HERE}/venv"), concat!(env!("CARGO_MANIFEST_DIR"), "/target/rq")])
        .output()
        .expect("a shell");
    if !output.status.success() {
        println!("{}", String::from_utf8_lossy(&output.stderr));
        missing("RQ's tests (python3 of at least 3.10, PyPI)");
        return None;
    }
    Some(String::from_utf8(output.stdout).expect("a path").trim().to_owned())
}

#[test]
fn rqs_own_tests_pass_except_the_listed_ones() {
    let Some(venv) = venv() else { return };
    let (server, dir) = (RedisServer::start_with(&["--databases", "32"]), tempfile::tempdir().unwrap());
    let (out, log) = (dir.path().join("out"), dir.path().join("log"));
    let cases = cases();
    let worker = format!("{} rq worker", env!("CARGO_BIN_EXE_taskvisor"));
    let output = Command::new("sh")
        .args([&format!("{HERE}/measure"), &venv, &server.port.to_string()])
        .args([&out, &log])
        .arg(worker)
        .args(cases.iter().filter(|(_, why)| why.is_none()).map(|(case, _)| case))
        .output()
        .expect("a shell");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let became = fs::read_to_string(&out).unwrap_or_default();
    let passed = |case: &str| became.lines().any(|line| line.strip_prefix("passed ") == Some(case));
    let wrong: Vec<&String> =
        cases.iter().filter(|(case, why)| why.is_none() && !passed(case)).map(|(case, _)| case).collect();
    let log = String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned();
    assert!(wrong.is_empty(), "do not pass: {wrong:#?}\n--\n{said}\n--\n{log}");
}

#[test]
fn rq_page_has_the_number_of_passing_cases_and_names_the_others() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/rq.md")).unwrap();
    let cases = cases();
    let (all, not) = (cases.len(), cases.values().flatten().count());
    let number = format!("{} of the {all} cases pass", all - not);
    assert!(page.contains(&number), "docs/rq.md does not say '{number}'");
    for (case, _) in cases.iter().filter(|(_, why)| why.is_some()) {
        let name = case.rsplit("::").next().unwrap_or(case);
        assert!(page.contains(&format!("`{name}`")), "docs/rq.md does not name {name}");
    }
}

#[test]
fn examples_of_the_rq_page_run() {
    let Some(venv) = venv() else { return };
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/rq.md")).unwrap();
    let blocks = page.split("```rq\n").skip(1).filter_map(|rest| rest.split("```").next());
    let script: String = blocks.collect();
    assert!(!script.is_empty(), "docs/rq.md has no example");
    let (server, dir) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let program = Path::new(env!("CARGO_BIN_EXE_taskvisor")).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &script])
        .env("PATH", format!("{venv}/bin:{}:{path}", program.display()))
        .env("PYTHONPATH", concat!(env!("CARGO_MANIFEST_DIR"), "/python"))
        .env("RQ_REDIS_URL", server.url())
        .env("TASKVISOR_STATE_DIR", dir.path().join("state"))
        .env("TASKVISOR_RUN_DIR", dir.path().join("run"))
        .current_dir(dir.path())
        .output()
        .expect("bash");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n--\n{}", text(&output.stdout), text(&output.stderr));
}
