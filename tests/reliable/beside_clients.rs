//! Programs written after the tutorial share their queue with taskvisor without changes.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::python;
use crate::sandbox::{kill, missing, wait_until};
use crate::scene::{Scene, ids};

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/reliable");

/// Today's redis-py, installed once below target/.
fn venv() -> Option<String> {
    let place = concat!(env!("CARGO_MANIFEST_DIR"), "/target/redis-py");
    let output = Command::new("sh").args([&format!("{HERE}/venv"), place]).output().expect("a shell");
    if !output.status.success() {
        println!("{}", String::from_utf8_lossy(&output.stderr));
        missing("redis-py (python3, PyPI)");
        return None;
    }
    Some(String::from_utf8(output.stdout).expect("a path").trim().to_owned())
}

/// The tutorial's client with a verb, in a process group of its own.
fn client(venv: &str, scene: &Scene, verb: &str, args: &[&str]) -> Command {
    let mut command = Command::new(format!("{venv}/bin/python"));
    command.arg(format!("{HERE}/client.py")).args([verb, &scene.server.url()]).args(args);
    command.process_group(0).stdin(Stdio::null());
    command
}

/// The ids and results that a producer printed.
fn printed(child: Child) -> Vec<(String, String)> {
    let output = child.wait_with_output().expect("the client");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("a pair")).collect()
}

#[test]
fn tutorial_demo_with_a_good_and_a_bad_worker_loses_no_job() {
    let Some(venv) = venv() else { return };
    let mut scene = Scene::new();
    scene.url = scene.url.replace("?exec=yes", "");
    let pool = |name: &str, work: &str, fails: &str| {
        let path = format!("PYTHONPATH: '{}:{HERE}', WORK: '{work}', FAILS: '{fails}'", python::path());
        let env = format!("env: {{set: {{{path}, PYTHONDONTWRITEBYTECODE: '1'}}}}");
        let retry = "retries: 1000, retry_delay: 10ms";
        format!(
            "  - {{name: {name}, workers: 1, {env}, {retry}, command: python3 -m taskvisor.worker demo}}\n"
        )
    };
    let file = scene.sandbox.path("pools.yaml");
    fs::write(&file, format!("pools:\n{}{}", pool("good", "0.1", "0.2"), pool("bad", "0.25", "0.7")))
        .unwrap();
    let _running = scene.start(&["-c", file.to_str().unwrap()]);
    let values: Vec<String> = (0..60).map(|n| format!("value {n}")).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let mut producer = client(&venv, &scene, "produce", &[&["30", "0.075"], &values[..]].concat());
    let results = printed(producer.stdout(Stdio::piped()).spawn().expect("python"));
    let said: Vec<&str> =
        results.iter().map(|(_, result)| result.trim_matches('"').trim_start_matches("done: ")).collect();
    assert_eq!(said, values, "each has its own result");
    scene.assert_done(&results.into_iter().map(|(id, _)| id).collect::<Vec<_>>());
    let pools = |name: &str| python::pool(&scene.sandbox, name)["slots"].as_array().map_or(0, Vec::len);
    assert_eq!([pools("good"), pools("bad")], [1, 1]);
}

#[test]
fn tutorial_workers_and_supervisors_share_a_queue_and_lose_no_job() {
    let Some(venv) = venv() else { return };
    let mut scene = Scene::new();
    scene.url += "&stale_time=6&tidy_interval=200ms";
    let work = || client(&venv, &scene, "work", &["6", "0.5"]).spawn().expect("python");
    let mut workers = [work(), work()];
    let all = ids(80);
    let put = |ids: &[String]| {
        ids.iter().for_each(|id| scene.shell(id, &format!("echo {id} >>out; sleep 0.1")));
    };
    put(&all[..40]);
    wait_until("old workers have done some", || scene.results().len() >= 3);
    let _running = scene.start(&["-w", "2"]);
    put(&all[40..]);
    // The job that it runs has no owner then.
    kill(-(workers[0].id() as i32), "KILL");
    scene.assert_done(&all);
    let theirs = scene.results().values().filter(|result| *result == "theirs").count();
    assert!(theirs >= 3 && theirs < all.len(), "{theirs} of {} were done by old workers", all.len());
    for worker in &mut workers {
        kill(-(worker.id() as i32), "KILL");
        worker.wait().unwrap();
    }
    let listed: Vec<Value> = scene.jobs(&["--state", "complete", "-n", "200"]);
    assert_eq!(listed.len(), all.len() - theirs, "the ledger has what ran here");
}

/// The producer that docs/reliable.md begins with.
#[test]
fn example_of_the_docs_page_runs() {
    let Some(venv) = venv() else { return };
    let mut scene = Scene::new();
    scene.url = scene.url.replace("exec=yes", "class=echo");
    let env = format!("PYTHONPATH={}", python::path());
    let _running = scene.start(&[
        "-m",
        "prefork",
        "-w",
        "1",
        "--env",
        &env,
        "--",
        "python3",
        "-m",
        "taskvisor.worker",
        "app",
    ]);
    let page = fs::read_to_string("docs/reliable.md").unwrap();
    let example = page.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    let mut producer = Command::new(format!("{venv}/bin/python"));
    producer.args(["-c", example]).env("REDIS_URL", scene.server.url());
    let output = producer.output().expect("python");
    let (said, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.trim().replace(' ', ""), r#"{"data":{"to":"ann@example.org"}}"#, "{why}");
}
