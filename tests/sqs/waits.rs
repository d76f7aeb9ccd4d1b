//! How long jobs have waited: since their messages were sent, or since kale put them.

use std::time::Duration;

use crate::jobs::Scene;
use crate::sandbox::wait_until;

const AGE: Duration = Duration::from_secs(230);

#[test]
fn job_has_waited_since_its_message_was_sent() {
    let scene = Scene::new();
    scene.send_shell("mail", "true");
    scene.fake.age("mail", AGE);
    let _running = scene.start(&["-w", "1", "-q", "mail"]);
    wait_until("the job is complete", || scene.jobs(&["--state", "complete"]).len() == 1);
    let id = scene.jobs(&[])[0]["id"].as_str().unwrap().to_owned();
    let job = scene.sandbox.job(&id);
    let waited = job["started_at_ms"].as_i64().unwrap() - job["put_at_ms"].as_i64().unwrap();
    assert!((230_000..300_000).contains(&waited), "{job}");
}

#[test]
fn oldest_job_of_a_queue_is_as_old_as_its_message() {
    let scene = Scene::new();
    for _ in 0..3 {
        scene.send_shell("mail", "while [ ! -e go ]; do sleep 0.02; done");
    }
    scene.fake.age("mail", AGE);
    let _running = scene.start(&["-w", "1", "-q", "mail"]);
    wait_until("one runs", || scene.jobs(&["--state", "running"]).len() == 1);
    let queue = || scene.sandbox.json(&["queue", "list", "--json"])["mail"].clone();
    wait_until("the others are counted", || queue()["jobs"]["waiting"] == 2);
    let put_at = queue()["oldest_waiting_at_ms"].as_i64().unwrap();
    let running = scene.jobs(&[])[0]["put_at_ms"].as_i64().unwrap();
    assert!((put_at - running).abs() < 60_000, "{put_at} {running}");
    std::fs::write(scene.sandbox.work("go"), "").unwrap();
}
