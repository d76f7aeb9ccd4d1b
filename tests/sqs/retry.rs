//! `job retry --failed`: dead letters go back to their queues.

use std::time::Duration;

use serde_json::json;

use crate::bad_days::ok;
use crate::beside_moto::Moto;
use crate::jobs::Scene;
use crate::sandbox::wait_until;

/// It fails until the file `good` is there.
const FAILS: &str = "[ -e good ] || exit 3; echo ran >>out";

impl Scene {
    /// Has jobs fail, and lets them succeed from now on. Gives their ids.
    fn dead_letters(&self, count: usize) -> Vec<String> {
        (0..count).for_each(|_| self.send_shell("mail", FAILS));
        wait_until("they are dead letters", || {
            self.fake.counts("dlq-mail")[0] == count && self.is_empty("mail")
        });
        wait_until("the ledger says so", || self.jobs(&["--state", "failed"]).len() == count);
        std::fs::write(self.sandbox.work("good"), "").unwrap();
        let mut ids: Vec<String> = self.jobs(&[]).iter().map(|job| job["id"].to_string()).collect();
        ids.sort();
        ids
    }

    fn retry(&self, args: &[&str]) -> String {
        self.sandbox.ok(&[&["job", "retry", "--failed", "-q", "mail"], args].concat())
    }
}

#[test]
fn dead_letters_run_again_as_the_same_jobs_with_their_counters_cleared() {
    let scene = Scene::new();
    scene.queue("dlq-mail");
    let _running = scene.start(&["-w", "1", "-q", "mail", "--retries", "0"]);
    let ids = scene.dead_letters(3);
    assert_eq!(scene.retry(&["--dry-run"]), "3 jobs would be retried, from dlq-mail\n");
    assert_eq!(scene.fake.counts("dlq-mail"), [3, 0, 0], "nothing was changed");
    assert_eq!(scene.retry(&["--limit", "1"]), "1 job retried, from dlq-mail\n");
    wait_until("one is complete", || scene.jobs(&["--state", "complete"]).len() == 1);
    assert_eq!(scene.fake.bodies("dlq-mail").len(), 2);
    scene.send("dlq-mail", "no job at all");
    let all = scene.sandbox.ok(&["job", "retry", "--failed"]);
    assert_eq!(all, "2 jobs retried, from dlq-mail\n1 stays, because they cannot be read\n");
    wait_until("all are complete", || scene.jobs(&["--state", "complete"]).len() == 3);
    let jobs = scene.jobs(&[]);
    let mut same: Vec<String> = jobs.iter().map(|job| job["id"].to_string()).collect();
    same.sort();
    assert_eq!(same, ids);
    assert!(jobs.iter().all(|job| job["attempt"] == 1), "{jobs:?}");
    assert_eq!(scene.fake.bodies("dlq-mail"), ["no job at all"]);
    assert_eq!(scene.said("out").lines().count(), 3);
}

/// AWS moves the message as it is: it has no attribute that names its job.
#[test]
fn dead_letter_that_aws_itself_has_moved_is_the_same_job_with_its_attempts_cleared() {
    let scene = Scene::new();
    scene.queue("dlq-mail");
    let policy = json!({
        "deadLetterTargetArn": "arn:aws:sqs:us-east-1:123456789012:dlq-mail", "maxReceiveCount": "2"
    });
    let asked = json!({"QueueName": "mail", "Attributes": {"RedrivePolicy": policy.to_string()}});
    ok(&scene.fake, "CreateQueue", asked);
    let _running = scene.start(&["-w", "1", "-q", "mail", "--retries", "2"]);
    let put = scene.sandbox.ok(&["put", "-q", "mail", "--", "/bin/sh", "-c", "[ -e good ]"]);
    wait_until("AWS has moved it", || scene.fake.counts("dlq-mail")[0] == 1);
    std::fs::write(scene.sandbox.work("good"), "").unwrap();
    assert_eq!(scene.retry(&[]), "1 job retried, from dlq-mail\n");
    wait_until("it is complete", || scene.sandbox.state(put.trim()) == "complete");
    let jobs = scene.jobs(&[]);
    assert_eq!((jobs.len(), &jobs[0]["attempt"]), (1, &1.into()), "{jobs:?}");
    assert!(scene.is_empty("dlq-mail") && scene.is_empty("mail"));
}

/// Between the send and the delete a dead letter exists twice: the ledger knows that it was sent.
#[test]
fn dead_letter_that_cannot_be_deleted_is_moved_once() {
    let scene = Scene::new();
    scene.queue("dlq-mail");
    let _running = scene.start(&["-w", "1", "-q", "mail", "--retries", "0"]);
    scene.dead_letters(1);
    scene.fake.knobs(|knobs| knobs.denied = vec!["DeleteMessageBatch".into()]);
    let (_, said) = scene.sandbox.refused(&["job", "retry", "--failed"]);
    assert!(said.contains("cannot delete a dead letter of the SQS queue 'dlq-mail'"), "{said}");
    wait_until("it ran", || scene.said("out") == "ran\n");
    scene.fake.knobs(|knobs| knobs.denied.clear());
    scene.fake.advance(Duration::from_secs(130));
    assert_eq!(scene.retry(&[]), "0 jobs retried\n");
    assert!(scene.is_empty("dlq-mail"));
    wait_until("its message is deleted", || scene.is_empty("mail"));
    assert_eq!(scene.said("out"), "ran\n");
}

#[test]
fn what_sqs_cannot_retry_is_refused_with_the_reason() {
    let scene = Scene::new();
    scene.queue("dlq-mail");
    let _running = scene.start(&["-w", "1", "-q", "mail", "--retries", "0"]);
    let ids = scene.dead_letters(1);
    for (args, word) in [
        (&["--held"] as &[&str], "retry those that have failed, which moves both"),
        (&["--complete"], "SQS keeps no message of a job that is complete"),
        (&["--failed", "--class", "exec"], "SQS cannot choose among dead letters"),
        (&["--failed", "-q", "reports"], "there is no SQS queue 'dlq-reports'"),
    ] {
        let (_, said) = scene.sandbox.refused(&[&["job", "retry"], args].concat());
        assert!(said.contains(word), "{args:?}: {said}");
    }
    assert_eq!(scene.fake.counts("dlq-mail"), [1, 0, 0]);
    let why = scene.sandbox.ok(&["why", "job", ids[0].trim_matches('"')]);
    assert!(why.contains("to have it run again: `taskvisor job retry --failed --queue QUEUE`"), "{why}");
}

#[test]
fn dead_letter_runs_again_with_moto_in_place_of_sqs() {
    let Some(moto) = Moto::start() else { return };
    let mut scene = Scene::new();
    scene.url = format!("sqs://us-east-1?endpoint={}&create=yes&exec=yes", moto.endpoint);
    let _running = scene.start(&["-w", "1", "-q", "mail", "--retries", "0"]);
    let good = scene.sandbox.work("good");
    let script = format!("[ -e {} ] || exit 3", good.display());
    let put = scene.sandbox.ok(&["put", "-q", "mail", "--", "/bin/sh", "-c", &script]);
    let id = put.trim();
    // SQS cannot show a job that no host has taken yet.
    wait_until("a worker has taken it", || scene.sandbox.run(&["job", "show", id]).status.success());
    wait_until("it has failed", || scene.sandbox.state(id) == "failed");
    std::fs::write(good, "").unwrap();
    assert_eq!(scene.retry(&[]), "1 job retried, from dlq-mail\n");
    wait_until("it is complete", || scene.sandbox.state(id) == "complete");
    assert_eq!(scene.retry(&[]), "0 jobs retried\n");
}

#[test]
fn second_put_of_an_id_that_is_complete_here_is_removed_and_told() {
    let scene = Scene::new();
    let _running = scene.start(&["-w", "1", "-q", "mail"]);
    let put = ["put", "-q", "mail", "--jid", "a", "--", "/bin/sh", "-c", "echo ran >>out"];
    scene.sandbox.ok(&put);
    wait_until("it is complete", || scene.is_empty("mail") && scene.sandbox.state("a") == "complete");
    scene.sandbox.ok(&put);
    let history = || scene.sandbox.job("a")["history"].to_string();
    wait_until("its history names the removed message", || {
        history().contains("it brought the id of this complete job again")
    });
    wait_until("its message is removed", || scene.is_empty("mail"));
    assert_eq!((scene.said("out").as_str(), scene.sandbox.state("a").as_str()), ("ran\n", "complete"));
    let skip = scene.sandbox.refused(&[&["put", "--exists", "skip"][..], &put[1..]].concat());
    assert!(skip.0 == 8 && skip.1.contains("cannot refuse an id that exists already"), "{skip:?}");
}
