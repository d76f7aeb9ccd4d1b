//! Policies of AWS that allow only some requests.

use std::time::Duration;

use crate::jobs::Scene;
use crate::sandbox::{kill, wait_until, wait_within};

const WORDS: &str = "AccessDenied: User: arn:aws:iam::123456789012:user/test is not authorized";

impl Scene {
    fn deny(&self, action: &str) {
        self.fake.knobs(|knobs| knobs.denied = vec![action.into()]);
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

    let supervisor = scene.sandbox.one("tv-supervisor");
    kill(supervisor, "KILL");
    wait_until("the next supervisor is up", || {
        let pids = scene.sandbox.processes().into_iter().filter(|seen| seen.comm == "tv-supervisor");
        pids.map(|seen| seen.pid).any(|pid| pid != supervisor)
    });
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
