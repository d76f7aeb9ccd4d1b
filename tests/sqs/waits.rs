//! Jobs that wait: how long they have, since their messages were sent or since kale put them; and here, for others.

use std::time::{Duration, Instant};

use crate::jobs::Scene;
use crate::python;
use crate::sandbox::{kill, wait_until, wait_within};

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

/// Two jobs whose worker died run again alone, one after the other. The first outlasts the outage, so the second has not
/// begun when its lease ends.
#[test]
fn job_that_an_outage_ends_before_it_begins_comes_again_and_runs() {
    let scene = Scene::in_sandbox(python::new());
    let text = "lease: 10s\npools:\n- {name: app, mode: coroutine, queues: [mail], workers: 1, grace: 500ms, \
                when_cut_off: carry_on, PYTHON app}\n";
    let file = python::file(&scene.sandbox, text);
    let _running = scene.start(&["-c", &file]);
    for name in ["a", "b"] {
        scene.send("mail", &format!("{{\"class\": \"hold.async\", \"data\": \"{name}\"}}"));
    }
    let begun = |name: &str| scene.said(&format!("begun-{name}")).parse::<i32>();
    wait_until("both run", || ["a", "b"].iter().all(|name| begun(name).is_ok()));
    let (supervisor, first) = (scene.sandbox.one("tv-supervisor"), begun("a").unwrap());
    kill(first, "KILL");
    let waiting = || scene.sandbox.status()["pools"][0]["slots"][0]["waiting_jobs"].clone();
    wait_until("one runs alone", || {
        let again = ["a", "b"].iter().filter(|name| begun(name).is_ok_and(|pid| pid != first));
        again.count() == 1 && waiting().as_array().is_some_and(|jobs| jobs.len() == 1)
    });
    scene.fake.knobs(|knobs| knobs.gone = true);
    wait_until("SQS would deliver both again", || scene.fake.counts("mail")[0] == 2);
    std::fs::write(scene.sandbox.work("go"), "").unwrap();
    scene.fake.knobs(|knobs| knobs.gone = false);
    wait_within(Duration::from_secs(60), "both are complete", || {
        scene.jobs(&["--state", "complete"]).len() == 2
    });
    assert_eq!(scene.sandbox.one("tv-supervisor"), supervisor);
}

#[test]
fn endpoint_that_does_not_wait_is_asked_seldom_and_status_says_so() {
    let scene = Scene::new();
    scene.fake.knobs(|knobs| knobs.impatient = true);
    for queue in ["mail", "web"] {
        scene.queue(queue);
    }
    let begun = Instant::now();
    let _running = scene.start(&["-w", "3", "-q", "mail", "-q", "web"]);
    let said = "the SQS queue 'mail' does not wait for messages";
    let receives = || scene.fake.calls().get("ReceiveMessage").copied().unwrap_or(0);
    wait_within(Duration::from_secs(60), "each queue was asked ten times or so", || receives() >= 20);
    // The pauses take 6 to 13 s.
    assert!(begun.elapsed() > Duration::from_secs(5), "{} requests in {:?}", receives(), begun.elapsed());
    wait_within(Duration::from_secs(60), "status says so", || scene.sandbox.reasons().contains(said));
    scene.send_shell("mail", "true");
    wait_within(Duration::from_secs(60), "a job runs", || scene.jobs(&["--state", "complete"]).len() == 1);
    scene.fake.knobs(|knobs| knobs.impatient = false);
    wait_within(Duration::from_secs(60), "status is well again", || !scene.sandbox.reasons().contains(said));
}
