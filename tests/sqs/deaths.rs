//! Workers and supervisors that die, and messages that are gone: what becomes of the jobs.

use std::fs;
use std::time::Duration;

use serde_json::json;

use crate::bad_days::ok;
use crate::jobs::Scene;
use crate::python;
use crate::sandbox::{alive, kill, wait_until, wait_within};

#[test]
fn message_of_a_killed_worker_is_visible_again_at_once() {
    let scene = Scene::new();
    scene.send_shell("mail", "echo $$ >>pids; sleep 600");
    let _running = scene.start(&["-w", "1", "-q", "mail", "--retries", "5"]);
    wait_until("it runs", || scene.said("pids").lines().count() == 1);
    let first: i32 = scene.said("pids").trim().parse().unwrap();
    kill(first, "KILL");
    // Far less than the visibility timeout: the lease of 60 s.
    wait_within(Duration::from_secs(20), "it runs again", || scene.said("pids").lines().count() == 2);
}

#[test]
fn next_supervisor_reruns_the_messages_of_a_killed_one() {
    let scene = Scene::new();
    scene.send_shell("mail", "echo $$ >>pids; sleep 600");
    let _running = scene.start(&["-w", "1", "-q", "mail"]);
    wait_until("it runs", || scene.said("pids").lines().count() == 1);
    let id = scene.jobs(&[])[0]["id"].as_str().unwrap().to_owned();
    kill(scene.sandbox.one("tv-supervisor"), "KILL");
    wait_within(Duration::from_secs(20), "it runs again", || scene.said("pids").lines().count() == 2);
    wait_until("the ledger knows it", || python::counts(&scene.sandbox.job(&id))[2] == 1);
    assert_eq!(scene.sandbox.job(&id)["attempt"], 1, "the interrupted attempt does not count");
}

#[test]
fn message_that_kills_its_supervisor_three_times_is_a_dead_letter() {
    let scene = Scene::new();
    scene.queue("dlq-mail");
    scene.send_shell("mail", "echo $$ >>pids; sleep 600");
    let _running = scene.start(&["-w", "1", "-q", "mail"]);
    for round in 1..=3 {
        wait_within(Duration::from_secs(20), "it runs", || scene.said("pids").lines().count() == round);
        kill(scene.sandbox.one("tv-supervisor"), "KILL");
    }
    wait_within(Duration::from_secs(20), "it is a dead letter", || {
        scene.fake.bodies("dlq-mail").len() == 1 && scene.is_empty("mail")
    });
    assert_eq!(scene.said("pids").lines().count(), 3);
    assert_eq!(scene.jobs(&[])[0]["state"], "held");
}

/// A job that has completed stays complete, also when the supervisor dies before it deletes the message.
#[test]
fn supervisor_death_at_any_failpoint_loses_no_job_and_repeats_no_ended_one() {
    for point in failpoint::ALL.into_iter().filter(|point| point.starts_with("supervisor")) {
        let scene = Scene::new();
        let points = scene.sandbox.work("points");
        fs::create_dir(&points).unwrap();
        scene.points.replace(Some(points.clone()));
        let _running = scene.start(&["-w", "1", "-q", "mail", "--grace", "500ms"]);
        fs::write(points.join(point), "").unwrap();
        scene.send_shell("mail", "echo ran >>out");
        wait_until("it has died there", || !points.join(point).exists());
        wait_until("the message is deleted", || scene.is_empty("mail"));
        wait_until("the job is complete", || scene.jobs(&["--state", "complete"]).len() == 1);
        let has_ended = point.contains("8-") || point.contains("9-");
        assert!(!has_ended || scene.said("out") == "ran\n", "{point}: {}", scene.said("out"));
        assert!((1..=2).contains(&scene.said("out").lines().count()), "{point}");
    }
}

/// Its message is gone with the queue: it cannot wait for its next attempt, and another queue of the name is empty.
#[test]
fn job_whose_queue_is_deleted_ends_in_the_ledger() {
    let scene = Scene::new();
    let go = "while [ ! -e go ]; do sleep 0.02; done";
    scene.send_shell("good", &format!("touch good; {go}"));
    scene.send_shell("bad", &format!("touch bad; {go}; exit 3"));
    scene.send_shell("long", "echo $$ >long; sleep 600");
    let queues = ["-q", "good", "-q", "bad", "-q", "long"];
    let args = ["-w", "3", "--retries", "5", "--lease", "10s", "--grace", "1s"];
    let _running = scene.start(&[&args[..], &queues].concat());
    let runs = |name| !scene.said(name).is_empty() || scene.sandbox.work(name).exists();
    wait_until("all run", || ["good", "bad", "long"].into_iter().all(runs));
    for queue in ["good", "bad", "long"] {
        let url = scene.queue(queue);
        ok(&scene.fake, "DeleteQueue", json!({"QueueUrl": url}));
    }
    fs::write(scene.sandbox.work("go"), "").unwrap();
    let job = |queue: &str| scene.jobs(&["-q", queue]).remove(0);
    wait_until("the good one is complete", || job("good")["state"] == "complete");
    for queue in ["bad", "long"] {
        wait_until("it has failed", || job(queue)["state"] == "failed");
        let id = job(queue)["id"].as_str().unwrap().to_owned();
        let failure = scene.sandbox.job(&id)["failure"].clone();
        assert_eq!(failure["group"], "queue deleted");
        assert!(failure["message"].as_str().unwrap().contains(&format!("'{queue}' was deleted in SQS")));
    }
    let leader: i32 = scene.said("long").trim().parse().unwrap();
    wait_until("what runs no more for anyone is killed", || !alive(leader));
}

/// SQS rejects the handle: the next delivery is a new attempt, not a duplicate of the running job.
#[test]
fn job_with_an_expired_handle_is_killed_and_reruns_when_redelivered() {
    let scene = Scene::new();
    scene.send_shell("mail", "echo $$ >>pids; sleep 600");
    let _running = scene.start(&["-w", "1", "-q", "mail", "--lease", "10s", "--grace", "1s"]);
    wait_until("it runs", || scene.said("pids").lines().count() == 1);
    let first: i32 = scene.said("pids").trim().parse().unwrap();
    scene.fake.knobs(|knobs| knobs.expired_handles = true);
    wait_until("it is killed", || !alive(first));
    scene.fake.knobs(|knobs| knobs.expired_handles = false);
    scene.fake.advance(Duration::from_secs(20));
    wait_until("it runs again", || scene.said("pids").lines().count() == 2);
}

/// SQS counts a receive whose answer nobody read: the job has not begun by it, and keeps all of its tries.
#[test]
fn message_of_a_receive_that_died_with_its_supervisor_has_all_of_its_tries() {
    let scene = Scene::new();
    scene.queue("mail");
    scene.fake.knobs(|knobs| knobs.dropped = vec!["ReceiveMessage".into()]);
    let _running = scene.start(&["-w", "1", "-q", "mail", "--retries", "1"]);
    wait_until("a long poll is open", || scene.fake.calls().contains_key("ReceiveMessage"));
    scene.send_shell("mail", "echo try >>tries; exit 7");
    wait_until("nobody reads the answer", || scene.fake.counts("mail") == [0, 1, 0]);
    kill(scene.sandbox.one("tv-supervisor"), "KILL");
    wait_until("the next one has looked", || scene.sandbox.stderr().contains("left a receive"));
    scene.fake.knobs(|knobs| knobs.dropped.clear());
    scene.fake.advance(Duration::from_secs(60));
    wait_within(Duration::from_secs(30), "it has failed", || scene.jobs(&["--state", "failed"]).len() == 1);
    assert_eq!(scene.said("tries").lines().count(), 2);
    assert_eq!(scene.jobs(&[])[0]["attempt"], 2);
}
