//! Policies of AWS that allow only some requests.

use std::time::Duration;

use crate::jobs::Scene;
use crate::sandbox::{kill, wait_until, wait_within};

const WORDS: &str = "AccessDenied: User: arn:aws:iam::123456789012:user/test is not authorized";

impl Scene {
    fn deny(&self, action: &str) {
        self.fake.knobs(|knobs| knobs.denied = vec![action.into()]);
    }

    /// Kills the supervisor and waits for the next one.
    fn restart(&self) {
        let supervisor = self.sandbox.one("tv-supervisor");
        kill(supervisor, "KILL");
        wait_until("the next supervisor is up", || {
            let pids = self.sandbox.processes().into_iter().filter(|seen| seen.comm == "tv-supervisor");
            pids.map(|seen| seen.pid).any(|pid| pid != supervisor)
        });
    }

    /// Waits until the deletions that were refused are tried again, and lets them succeed.
    fn delete_again(&self) {
        let before = self.asked("DeleteMessageBatch");
        wait_within(Duration::from_secs(60), "its deletion was tried again", || {
            self.fake.advance(Duration::from_secs(20));
            self.asked("DeleteMessageBatch") > before
        });
        self.fake.knobs(|knobs| knobs.denied.clear());
        wait_within(Duration::from_secs(60), "its message is deleted", || {
            self.fake.advance(Duration::from_secs(20));
            self.is_empty("mail")
        });
    }

    fn asked(&self, action: &str) -> u64 {
        self.fake.calls().get(action).copied().unwrap_or(0)
    }
}

#[test]
fn complete_job_whose_message_cannot_be_deleted_degrades_status_and_runs_once() {
    let scene = Scene::new();
    scene.deny("DeleteMessageBatch");
    scene.send_shell("mail", "echo ran >>out");
    let _running = scene.start(&["-w", "1", "-q", "mail", "--grace", "500ms"]);
    let reason = format!("cannot delete a message of the SQS queue 'mail': {WORDS}");
    wait_until("status is degraded", || scene.sandbox.reasons().contains(&reason));
    assert_eq!(scene.jobs(&["--state", "complete"]).len(), 1, "it is in the ledger before it is deleted");

    scene.restart();
    let before = scene.asked("DeleteMessageBatch");
    wait_within(Duration::from_secs(60), "its deletion was tried again", || {
        scene.fake.advance(Duration::from_secs(20));
        scene.asked("DeleteMessageBatch") > before
    });
    wait_until("status is degraded again", || scene.sandbox.reasons().contains(&reason));
    scene.fake.knobs(|knobs| knobs.denied.clear());
    wait_within(Duration::from_secs(60), "its message is deleted", || {
        scene.fake.advance(Duration::from_secs(20));
        scene.is_empty("mail")
    });
    assert_eq!(scene.said("out"), "ran\n");
    wait_until("status is healthy again", || !scene.sandbox.reasons().contains("cannot delete"));
}

#[test]
fn refused_renewal_degrades_status_and_is_not_counted() {
    let scene = Scene::new();
    scene.deny("ChangeMessageVisibilityBatch");
    scene.send_shell("mail", "echo $$ >>pids; exec sleep 600");
    let _running = scene.start(&["-w", "1", "-q", "mail", "--lease", "10s", "--grace", "1s"]);
    wait_until("it runs", || scene.said("pids").lines().count() == 1);
    let id = scene.jobs(&[])[0]["id"].as_str().unwrap().to_owned();
    let reason = format!("cannot change the visibility of a message of the SQS queue 'mail': {WORDS}");
    wait_until("status is degraded", || scene.sandbox.reasons().contains(&reason));
    assert_eq!(scene.sandbox.job(&id)["renewals"], 0);
}

/// Nobody would change the visibility of a message that is deleted, and so nothing would end the complaint.
#[test]
fn complaint_about_a_refused_renewal_ends_with_the_delivery() {
    let scene = Scene::new();
    scene.deny("ChangeMessageVisibilityBatch");
    scene.send_shell("mail", "while [ ! -e go ]; do sleep 0.05; done");
    let _running = scene.start(&["-w", "1", "-q", "mail", "--lease", "20s", "--grace", "500ms"]);
    wait_until("status is degraded", || scene.sandbox.reasons().contains("cannot change the visibility"));
    std::fs::write(scene.sandbox.work("go"), "").unwrap();
    wait_until("the job is complete", || scene.jobs(&["--state", "complete"]).len() == 1);
    wait_within(Duration::from_secs(30), "status is healthy again", || scene.sandbox.reasons().is_empty());
}

#[test]
fn service_that_does_not_answer_a_renewal_is_named_within_seconds() {
    let scene = Scene::new();
    scene.send_shell("mail", "while [ ! -e go ]; do sleep 0.05; done");
    let _running = scene.start(&["-w", "1", "-q", "mail", "--lease", "60s", "--grace", "500ms"]);
    wait_until("it runs", || scene.jobs(&["--state", "running"]).len() == 1);
    scene.fake.knobs(|knobs| knobs.stalled = vec!["ChangeMessageVisibilityBatch".into()]);
    let said = "SQS has not answered for more than 5 s";
    wait_within(Duration::from_secs(30), "status says so", || scene.sandbox.reasons().contains(said));
    scene.fake.knobs(|knobs| knobs.stalled.clear());
    std::fs::write(scene.sandbox.work("go"), "").unwrap();
    wait_until("status is healthy again", || scene.sandbox.reasons().is_empty());
}

#[test]
fn attributes_that_cannot_be_read_degrade_status_and_are_logged_once() {
    let scene = Scene::new();
    scene.deny("GetQueueAttributes");
    scene.send_shell("mail", "exit 3");
    let settings = ["-w", "1", "-q", "mail", "--retries", "9", "--grace", "500ms"];
    let _running = scene.start(&settings);
    wait_until("it has failed once", || scene.jobs(&["--state", "delayed"]).len() == 1);
    let id = scene.jobs(&[])[0]["id"].as_str().unwrap().to_owned();
    let reason =
        format!("cannot read the attributes (sqs:GetQueueAttributes) of the SQS queue 'mail': {WORDS}");
    wait_until("its RedrivePolicy was asked for", || {
        scene.sandbox.job(&id);
        scene.sandbox.stderr().contains(&reason)
    });
    wait_until("status is degraded", || scene.sandbox.reasons().contains(&reason));
    scene.sandbox.job(&id);
    assert_eq!(scene.sandbox.stderr().matches(&reason).count(), 1, "{}", scene.sandbox.stderr());
    scene.fake.knobs(|knobs| knobs.denied.clear());
    wait_until("status is healthy again", || !scene.sandbox.reasons().contains("GetQueueAttributes"));
}

#[test]
fn complaint_about_attributes_of_an_idle_queue_ends_when_they_can_be_read() {
    let scene = Scene::new();
    scene.deny("GetQueueAttributes");
    let _running = scene.start(&["-w", "1", "-q", "mail"]);
    let is_told = || scene.sandbox.reasons().contains("cannot read the attributes");
    wait_until("status is degraded", is_told);
    // From the first empty answer on nobody asks how many messages there are.
    let receives = scene.asked("ReceiveMessage");
    wait_within(Duration::from_secs(60), "the queue is known to be empty", || {
        scene.fake.advance(Duration::from_secs(1));
        scene.asked("ReceiveMessage") > receives
    });
    assert!(is_told());
    scene.fake.knobs(|knobs| knobs.denied.clear());
    wait_within(Duration::from_secs(60), "status is healthy again", || scene.sandbox.reasons().is_empty());
}

/// What has ended runs no more, however it ended, and is one dead letter.
#[test]
fn failed_and_canceled_jobs_whose_messages_cannot_be_deleted_run_once() {
    let scene = Scene::new();
    scene.deny("DeleteMessageBatch");
    scene.queue("dlq-mail");
    scene.send_shell("mail", "echo failed >>out; exit 3");
    scene.send_shell("mail", "echo canceled >>out; exec sleep 600");
    let _running = scene.start(&["-w", "2", "-q", "mail", "--retries", "0", "--grace", "500ms"]);
    wait_until("both have begun", || scene.said("out").lines().count() == 2);
    wait_until("one has failed", || scene.jobs(&["--state", "failed"]).len() == 1);
    let running = scene.jobs(&["--state", "running"])[0]["id"].as_str().unwrap().to_owned();
    scene.sandbox.ok(&["job", "cancel", &running]);
    wait_until("one is canceled", || scene.jobs(&["--state", "canceled"]).len() == 1);
    scene.restart();
    scene.delete_again();
    assert_eq!(scene.said("out").lines().count(), 2, "each has run once");
    assert_eq!(scene.fake.bodies("dlq-mail").len(), 1, "a canceled job is no dead letter");
    assert_eq!(
        (scene.jobs(&["--state", "failed"]).len(), scene.jobs(&["--state", "canceled"]).len()),
        (1, 1)
    );
}

#[test]
fn poison_that_cannot_be_deleted_is_one_dead_letter() {
    let scene = Scene::new();
    scene.deny("DeleteMessageBatch");
    scene.queue("dlq-mail");
    scene.send("mail", "{}");
    let _running = scene.start(&["-w", "1", "-q", "mail"]);
    wait_until("it is a dead letter", || scene.fake.bodies("dlq-mail").len() == 1);
    wait_until("its deletion was tried", || scene.asked("DeleteMessageBatch") > 0);
    scene.delete_again();
    assert_eq!(scene.fake.bodies("dlq-mail").len(), 1);
}
